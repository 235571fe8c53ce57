"""Model adapters that embed: a model with its weights, and several models together."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jax.sharding import Mesh

from xmodal.core.errors import UserError
from xmodal.evals.scores import sources
from xmodal.evals.scores.embed import Embedder, Items
from xmodal.evals.scores.vector_scores import open_scores
from xmodal.similarity import make_similarity

_AT_A_TIME = 256  # Texts or images that are not items of a split, per call.


class EncoderAdapter(sources.ModelAdapter):
    """A model with one set of weights; the items of a split are embedded once for all evaluators.

    Attributes:
      field: the array of an embedding that the model's own similarity ranks.
      mesh: the devices that it embeds on; None for one.
    """

    def __init__(
        self,
        name: str,
        embedder: Embedder,
        weights: tuple[Any, Any],
        *,
        field: str,
        given: Mapping[str, Callable[[Sequence[Any]], Any]] | None = None,
        read: Callable[[Items], Items] = lambda split: split,
    ) -> None:
        """Takes a model.

        Args:
          name: names it in messages.
          embedder: embeds with it.
          weights: its `(params, model_state)`.
          field: see `EncoderAdapter`.
          given: modality, of "image" and "text" -> function that makes `GivenItems` of any such
            inputs.
          read: split -> its items as the model reads them, such as stored features.
        """
        self.place, self.field, self.mesh = name, field, embedder.mesh
        self._embedder, self._weights, self._given = embedder, weights, given or {}
        self._read = read
        # The split is kept too, so that its `id` cannot be reused.
        self._found: dict[tuple[int, str], tuple[Items, sources.Embeddings]] = {}

    def items(
        self, split: Items, *, similarity: Mapping[str, Any] | None = None, batch_size: int = 256
    ) -> sources.Embeddings:
        """See `ModelAdapter`."""
        field = self.field_of(similarity)
        if (id(split), field) not in self._found:
            found = self._embedder(*self._weights, self._read(split), batch_size, field=field)
            self._found[id(split), field] = split, found
        return sources.with_similarity(self._found[id(split), field][1], similarity)

    def embed(
        self, modality: str, given: Sequence[Any], *, similarity: Mapping[str, Any] | None = None
    ) -> np.ndarray:
        """See `ModelAdapter`."""
        return self.embed_given(modality, given, similarity).vectors(modality)

    def embed_given(
        self, modality: str, given: Sequence[Any], similarity: Mapping[str, Any] | None
    ) -> sources.Embeddings:
        """Returns what `embed` does with its similarity; the ids are positions."""
        if modality not in self._given:
            raise UserError(f"{self.place} has no {modality} tower to embed {given[0]!r:.80} with.")
        field, items = self.field_of(similarity), self._given[modality](given)
        found = self._embedder(*self._weights, items, _AT_A_TIME, field=field)
        return sources.with_similarity(found, similarity)

    def field_of(self, similarity: Mapping[str, Any] | None) -> str:
        """Returns the array of an embedding that a similarity ranks; None is the model's."""
        return self.field if similarity is None else make_similarity(similarity).config.field


class Ensemble(sources.ModelAdapter):
    """The mean of the scores of several models, see `average` and `average_scores`."""

    def __init__(self, members: Sequence[tuple[EncoderAdapter, Callable[[Items], Items]]]) -> None:
        """Takes models, each with the function from a split to its own reading of these items."""
        self.place, self._members = members[0][0].place, members

    def items(
        self, split: Items, *, similarity: Mapping[str, Any] | None = None, batch_size: int = 256
    ) -> sources.Source:
        """See `ModelAdapter`."""
        found = [
            member.items(own(split), similarity=similarity, batch_size=batch_size)
            for member, own in self._members
        ]
        if similarity is None and any(each.tokens for each in found):
            return average_scores(found, self._members[0][0].mesh)
        return sources.with_similarity(average(found), similarity)

    def embed(
        self, modality: str, given: Sequence[Any], *, similarity: Mapping[str, Any] | None = None
    ) -> np.ndarray:
        """See `ModelAdapter`."""
        found = [member.embed_given(modality, given, similarity) for member, _ in self._members]
        return average(found).vectors(modality)


def average(members: Sequence[sources.Embeddings]) -> sources.Embeddings:
    """Returns embeddings whose scores are the means of the members' scores.

    Inner products are preserved: the members' vectors are concatenated and divided by the square
    root of their number. So anything that accepts embeddings accepts an ensemble.

    Args:
      members: embeddings of the same items, each with its similarity.
    """
    first, joined = members[0], dict[str, np.ndarray]()
    for modality in first.by_modality:
        prepared = []
        for member in members:
            similarity = member.make_similarity()
            if not similarity.function.inner_product:
                raise UserError(
                    "An ensemble averages inner products, and the similarity "
                    f"{member.similarity!r} of one of its models is not one; give the evaluator "
                    "the similarity 'cosine', or evaluate the models one by one."
                )
            prepared.append(np.asarray(similarity.prepare(member.vectors(modality))))
        joined[modality] = np.concatenate(prepared, axis=1) / np.float32(len(members) ** 0.5)
    return sources.Embeddings(
        first.place, first.image_ids, joined.get("image"), first.caption_ids, joined.get("text"),
        "dot",
    )  # fmt: skip


def average_scores(
    members: Sequence[sources.Embeddings], mesh: Mesh | None = None
) -> sources.ScoreMatrix:
    """Returns the mean scores of all images with all captions, float64 [N, M].

    A similarity of token sets is averaged on its own scale, see `LateInteraction.rescale`.

    Args:
      members: embeddings of the same items, each with its similarity.
      mesh: devices that compute the scores.
    """
    first: Any = members[0]
    total = np.zeros((len(first.image_ids), len(first.caption_ids)), np.float64)
    for member in members:
        similarity = member.make_similarity()
        scores = open_scores(member, mesh=mesh)["image", "text"]
        for at, rows in scores.blocks(np.arange(len(total))):
            total[at] += similarity.function.rescale(rows) / len(members)
    return sources.ScoreMatrix(first.place, first.image_ids, first.caption_ids, total)

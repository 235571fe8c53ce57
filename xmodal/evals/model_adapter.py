"""Model adapters that embed: a model with its weights, and several models together."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jax.sharding import Mesh

from xmodal.core.errors import UserError
from xmodal.evals.scores.embed import Embedder, Items
from xmodal.evals.scores.ensemble import average, average_scores
from xmodal.evals.scores.sources import Embeddings, ModelAdapter, Source, with_similarity
from xmodal.similarity import make_similarity

_AT_A_TIME = 256  # Texts or images that are not items of a split, per call.


class EncoderAdapter(ModelAdapter):
    """A model with one set of weights; the items of a split are embedded once for all evaluators.

    Attributes:
      field: the array of an embedding that the model's own similarity ranks.
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
        self.place, self.field = name, field
        self._embedder, self._weights, self._given = embedder, weights, given or {}
        self._read = read
        self.embeds = frozenset(self._given)
        # The split is kept too, so that its `id` cannot be reused.
        self._found: dict[tuple[int, str], tuple[Items, Embeddings]] = {}

    @property
    def mesh(self) -> Mesh | None:
        """The devices that it embeds on; None for one."""
        return self._embedder.mesh

    def items(
        self, split: Items, *, similarity: Mapping[str, Any] | None = None, batch_size: int = 256
    ) -> Embeddings:
        """See `ModelAdapter`."""
        field = self.field_of(similarity)
        if (id(split), field) not in self._found:
            found = self._embedder(*self._weights, self._read(split), batch_size, field=field)
            self._found[id(split), field] = split, found
        return with_similarity(self._found[id(split), field][1], similarity)

    def embed(
        self, modality: str, given: Sequence[Any], *, similarity: Mapping[str, Any] | None = None
    ) -> np.ndarray:
        """See `ModelAdapter`."""
        return self.embed_given(modality, given, similarity).vectors(modality)

    def embed_given(
        self, modality: str, given: Sequence[Any], similarity: Mapping[str, Any] | None
    ) -> Embeddings:
        """Returns what `embed` does with its similarity; the ids are positions.

        Raises:
          UserError: see `ModelAdapter.embed`.
        """
        if modality not in self._given:
            raise UserError(f"{self.place} has no {modality} tower to embed {given[0]!r:.80} with.")
        field, items = self.field_of(similarity), self._given[modality](given)
        found = self._embedder(*self._weights, items, _AT_A_TIME, field=field)
        return with_similarity(found, similarity)

    def field_of(self, similarity: Mapping[str, Any] | None) -> str:
        """Returns the array of an embedding that a similarity ranks; None is the model's."""
        return self.field if similarity is None else make_similarity(similarity).config.field


class Ensemble(ModelAdapter):
    """The mean of the scores of several models, see `average` and `average_scores`."""

    def __init__(self, members: Sequence[tuple[EncoderAdapter, Callable[[Items], Items]]]) -> None:
        """Takes models, each with the function from a split to its own reading of these items."""
        self.place, self._members = members[0][0].place, members
        self.embeds = frozenset.intersection(*(member.embeds for member, _ in members))

    def items(
        self, split: Items, *, similarity: Mapping[str, Any] | None = None, batch_size: int = 256
    ) -> Source:
        """See `ModelAdapter`."""
        found = [
            member.items(own(split), similarity=similarity, batch_size=batch_size)
            for member, own in self._members
        ]
        if similarity is None and any(each.tokens for each in found):
            return average_scores(found, self._members[0][0].mesh)
        return with_similarity(average(found), similarity)

    def embed(
        self, modality: str, given: Sequence[Any], *, similarity: Mapping[str, Any] | None = None
    ) -> np.ndarray:
        """See `ModelAdapter`."""
        found = [member.embed_given(modality, given, similarity) for member, _ in self._members]
        return average(found).vectors(modality)

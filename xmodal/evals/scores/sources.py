"""Requests of an evaluator to a model, and the answers by id: embeddings, scores or ranked lists.

Files and models give the same types; `find_items` and `lists` put them in the order of a split.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from xmodal.core.errors import UserError
from xmodal.evals.labels.ids import Positions
from xmodal.evals.scores.ragged_tokens import RaggedTokens
from xmodal.similarity import Similarity, make_similarity

if TYPE_CHECKING:
    from xmodal.evals.scores.pair_scores import PairScores


def add_logits(images: jax.Array | None, captions: jax.Array | None) -> jax.Array:
    """Returns probabilities [L, R, C] whose logits are the sums of parts [L, C] and [R, C].

    A part that is None is treated as one row of zeros.
    """
    of_images = 0.0 if images is None else images[:, None]
    return jax.nn.sigmoid(of_images + (0.0 if captions is None else captions[None]))


@dataclasses.dataclass(frozen=True)
class Predictions:
    """Probabilities that a task predicts for every pair of an image and a caption.

    A task that reads only one modality predicts the same for all items of the other modality, whose
    rows are None; its probabilities then have a single row or column for all of them.

    Attributes:
      images: float32 [N, ...], one row per image, as `combine` expects; or None.
      captions: float32 [M, ...], one row per caption; or None.
      combine: rows of L images and of R captions -> probabilities [L, R, C]; pure JAX. L or R is 1
        if the rows are None.
    """

    images: np.ndarray | None
    captions: np.ndarray | None
    combine: Callable[[jax.Array | None, jax.Array | None], jax.Array] = add_logits

    def take(self, images: np.ndarray | None, captions: np.ndarray | None) -> "Predictions":
        """Returns the predictions for items at the given positions; None for all."""
        return dataclasses.replace(
            self, images=_rows(self.images, images), captions=_rows(self.captions, captions)
        )

    def pairs(self, images: np.ndarray, captions: np.ndarray) -> np.ndarray:
        """Returns probabilities [P, C] of single pairs at the given positions."""
        rows = _rows(self.images, images), _rows(self.captions, captions)
        one = [None if each is None else each[:, None] for each in rows]
        return np.asarray(jax.vmap(lambda *pair: self.combine(*pair)[0, 0])(*one))

    def rows(self, images: np.ndarray) -> jax.Array:
        """Returns probabilities [B, M, C] of B images at the given positions with all captions.

        B or M is 1 for the items that are not read.
        """
        rows = _rows(self.images, images), self.captions
        return self.combine(*(None if each is None else jnp.asarray(each) for each in rows))

    def transpose(self) -> "Predictions":
        """Returns the predictions of the captions as `images`, and of the images as `captions`."""

        def turned(*rows: jax.Array | None) -> jax.Array:
            return jnp.swapaxes(self.combine(*rows[::-1]), 0, 1)

        return Predictions(self.captions, self.images, turned)


def _rows(array: Any, at: np.ndarray | None) -> Any:
    return array if array is None or at is None else array[at]


class ModelAdapter:
    """A model as evaluators see it; by itself, a file, which has only its items.

    Attributes:
      place: names the model in messages.
    """

    place: str

    def items(
        self, split: Any, *, similarity: Mapping[str, Any] | None = None, batch_size: int = 256
    ) -> "Source":
        """Returns its embeddings or scores of the items of a split, and perhaps of other items.

        Args:
          split: an `embed.Items`, or None for labels without a prepared dataset.
          similarity: `Options.similarity`, which ranks embeddings instead of the model's own.
          batch_size: items embedded per call, over all devices.
        """
        source: Any = self
        return with_similarity(source, similarity) if isinstance(source, Embeddings) else source

    def embed(
        self, modality: str, given: Sequence[Any], *, similarity: Mapping[str, Any] | None = None
    ) -> np.ndarray:
        """Embeds any texts, or any images (encoded pictures, see `GivenItems`).

        Args:
          modality: "text" or "image".
          given: strings, or contents of image files.
          similarity: see `items`; it names the array of an embedding.

        Returns:
          float32 [N, D], or [N, K, D] with K embeddings per item, in the given order.
        """
        raise UserError(
            f"{self.place} has the embeddings of its items only, and {len(given):,} other "
            f"{modality}s are needed, the first is {given[0]!r:.80}: evaluate the model itself, "
            "with --run=RUN, or with embed_images and embed_texts of xmodal.evaluate; or name "
            "other evaluators in --evaluators."
        )


@dataclasses.dataclass(frozen=True)
class Embeddings(ModelAdapter):
    """Embeddings of a model; a modality without embeddings is None, as are its ids.

    Attributes:
      place: names the source in messages.
      image_ids: int64 [N].
      images: float32 [N, D], or [N, K, D] with K embeddings per item; float64 if a file has it;
        [N, 0] of a model that only scores pairs.
      caption_ids: int64 [M].
      captions: [M, D] or [M, K, D], likewise.
      similarity: name in `xmodal.similarity.SIMILARITIES` or `LATE_INTERACTIONS`; "" if not yet
        known.
      parameters: learned numbers of the similarity, or the nested dict of its module's arrays.
      predictions: task -> predictions for the same images and captions, in the same order.
      log_sigma: modality, "image" or "text" -> float32 [N, D] or [M, D], the log standard
        deviations of a probabilistic model's embeddings.
      tokens: modality -> tokens of its items, for a similarity with a module; {} without one.
      options: keywords of the similarity's module.
      pairs: scores of pairs of these images and captions, of a model with a cross-encoder.
    """

    place: str
    image_ids: np.ndarray | None
    images: np.ndarray | None
    caption_ids: np.ndarray | None
    captions: np.ndarray | None
    similarity: str = ""
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    predictions: Mapping[str, Predictions] = dataclasses.field(default_factory=dict)
    log_sigma: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    tokens: Mapping[str, RaggedTokens] = dataclasses.field(default_factory=dict)
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    pairs: "PairScores | None" = None

    @property
    def modalities(self) -> frozenset[str]:
        """The modalities with embeddings, of "image" and "text"."""
        return frozenset(
            modality for modality, each in self.by_modality.items() if each.shape[-1] > 0
        )

    @property
    def by_modality(self) -> dict[str, np.ndarray]:
        """`images` under "image" and `captions` under "text"; a missing modality is left out."""
        given = {"image": self.images, "text": self.captions}
        return {modality: vectors for modality, vectors in given.items() if vectors is not None}

    def vectors(self, modality: str) -> np.ndarray:
        """Returns `images` or `captions`, of a modality that has them."""
        return self.by_modality[modality]

    def make_similarity(self) -> Similarity:
        """Returns the similarity, of a modality that has one."""
        return make_similarity({"name": self.similarity, **self.options}, "similarity")

    def take(self, images: np.ndarray | None, captions: np.ndarray | None) -> "Embeddings":
        """Returns the items at the given positions; None for all."""
        at = {"image": images, "text": captions}

        def move(arrays: Mapping[str, Any]) -> dict[str, Any]:
            return {modality: _rows(each, at[modality]) for modality, each in arrays.items()}

        return dataclasses.replace(
            self,
            image_ids=_rows(self.image_ids, images),
            images=_rows(self.images, images),
            caption_ids=_rows(self.caption_ids, captions),
            captions=_rows(self.captions, captions),
            predictions={t: each.take(images, captions) for t, each in self.predictions.items()},
            log_sigma=move(self.log_sigma),
            tokens=move(self.tokens),
            pairs=self.pairs and self.pairs.take(images, captions),
        )


@dataclasses.dataclass(frozen=True)
class ScoreMatrix(ModelAdapter):
    """The score of every image with every caption, for models that read pairs.

    Attributes:
      place: names the source in messages.
      image_ids: int64 [N].
      caption_ids: int64 [M].
      matrix: floats [N, M], larger for more similar; may be mapped from disk.
    """

    place: str
    image_ids: np.ndarray
    caption_ids: np.ndarray
    matrix: np.ndarray


@dataclasses.dataclass(frozen=True)
class Candidates(ModelAdapter):
    """Scores of some items of every query, by a cross-encoder or any other reranker.

    Attributes:
      place: names the source in messages.
      image_ids: int64 [N].
      caption_ids: int64 [M].
      directions: "i2t", "t2i" or both -> ids int64 [Q, K] of the items that were scored for every
        query, and their scores, floats [Q, K].
      definition: names the score, such as "logit + cosine".
    """

    place: str
    image_ids: np.ndarray
    caption_ids: np.ndarray
    directions: Mapping[str, tuple[np.ndarray, np.ndarray]]
    definition: str


@dataclasses.dataclass(frozen=True)
class RankedLists(ModelAdapter):
    """Ranked lists, most similar first.

    Attributes:
      place: names the source in messages.
      directions: "i2t", "t2i" or both -> id of a query -> int64 ids of items.
    """

    place: str
    directions: Mapping[str, Mapping[int, np.ndarray]]


Source = Embeddings | ScoreMatrix | Candidates | RankedLists


def with_similarity(source: Embeddings, similarity: Mapping[str, Any] | None) -> Embeddings:
    """Returns the embeddings with the similarity of an evaluator, if it names one.

    Args:
      source: embeddings whose vectors are the `field` of this similarity.
      similarity: `{"name": ..., **options}`; None for that of the embeddings.
    """
    if similarity is None:
        return source
    chosen = make_similarity(similarity, "similarity of an evaluator")
    if chosen.module is not None and chosen.name == source.similarity:
        return source
    missing = [key for key in chosen.parameters if key not in source.parameters]
    if chosen.module is not None or missing:
        raise UserError(
            f"The similarity {chosen.name!r} needs {', '.join(missing) or 'weights'}, which "
            f"{source.place} has not learned; choose a similarity without parameters, or the "
            "model's."
        )
    parameters = {key: source.parameters[key] for key in chosen.parameters}
    return dataclasses.replace(source, similarity=chosen.name, parameters=parameters, options={})


def ids_of(source: Embeddings | ScoreMatrix | Candidates) -> dict[str, np.ndarray]:
    """Returns the ids of a source by kind, "image" and "caption"; a missing kind is left out."""
    ids = {"image": source.image_ids, "caption": source.caption_ids}
    return {kind: each for kind, each in ids.items() if each is not None}


class Ids(Protocol):
    """Items of a split by id: those of `Labels`, or of a prepared dataset."""

    @property
    def image_ids(self) -> np.ndarray:
        """Integers [N]."""

    @property
    def caption_ids(self) -> np.ndarray:
        """Integers [M]."""


def order_embeddings(source: Embeddings, labels: Ids) -> Embeddings:
    """Returns the embeddings in the order of the split; arrays in this order are not copied."""
    return source.take(*find_items(source, labels))


def find_items(
    source: Embeddings | ScoreMatrix, labels: Ids
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Returns the positions in a source of the images and of the captions of the split.

    None for those that are in this order, or that the source does not have.
    """
    found: list[np.ndarray | None] = []
    for kind, ids in (("image", labels.image_ids), ("caption", labels.caption_ids)):
        own = ids_of(source).get(kind)
        at = None if own is None or np.array_equal(own, ids) else Positions(kind, own).find(ids)
        if at is not None and (lacking := at < 0).any():
            raise UserError(
                f"{source.place} lacks {lacking.sum()} of the {len(ids)} {kind}s of the split, the "
                f"first is {kind} id {ids[lacking.argmax()]}: export all of them, with the ids of "
                "the dataset; if they are of another split, name it in `split`; with annotations, "
                "`partial` evaluates those that exist."
            )
        found.append(at)
    return found[0], found[1]

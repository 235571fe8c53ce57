"""Sources of an evaluation, by id: embeddings, a score matrix, or ranked lists.

A file and a model give the same types; `galleries` and `lists` bring them into the order of a
split.
"""

import dataclasses
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np

from xmodal.config import UserError

# Largest difference of a prediction from the sum of an image's and a caption's part, in logits.
_TOLERANCE = 1e-3


def add_parts(images: jax.Array, captions: jax.Array) -> jax.Array:
    """Returns logits [L, R, C], the sums of parts of L images [L, C] and R captions [R, C]."""
    return images[:, None] + captions[None]


@dataclasses.dataclass(frozen=True)
class Predictions:
    """Logits that a task predicts for every pair of an image and a caption.

    Attributes:
      images: float32 [N, ...], one row per image, as `combine` takes them.
      captions: float32 [M, ...], one row per caption.
      combine: rows of L images and of R captions -> float32 [L, R, C]; pure JAX.
    """

    images: np.ndarray
    captions: np.ndarray
    combine: Callable[[jax.Array, jax.Array], jax.Array] = add_parts

    def take(self, images: np.ndarray, captions: np.ndarray) -> "Predictions":
        """Returns the predictions of items at the given positions."""
        return dataclasses.replace(
            self, images=self.images[images], captions=self.captions[captions]
        )

    def pairs(self, images: np.ndarray, captions: np.ndarray) -> np.ndarray:
        """Returns logits [P, C] of single pairs at the given positions."""
        combine = jax.vmap(lambda image, caption: self.combine(image[None], caption[None])[0, 0])
        return np.asarray(combine(self.images[images], self.captions[captions]))

    def split(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns parts of images [N, C] and captions [M, C] whose sums are the logits.

        Raises:
          UserError: the logits are no such sums, so a file cannot hold them.
        """
        if self.combine is add_parts:
            return self.images, self.captions
        image, caption = self.images[:1], self.captions[:1]
        first = np.asarray(self.combine(image, caption))[0, 0]
        of_images = np.asarray(self.combine(self.images, caption))[:, 0]
        of_captions = np.asarray(self.combine(image, self.captions))[0] - first
        generator = np.random.default_rng(0)
        rows, columns = (generator.integers(len(x), size=64) for x in (of_images, of_captions))
        sums = of_images[rows] + of_captions[columns]
        if np.abs(self.pairs(rows, columns) - sums).max() > _TOLERANCE:
            raise UserError(
                "The task's predictions are no sums of a part of the image and one of the caption; "
                "a file of embeddings can hold only such predictions."
            )
        return of_images, of_captions


@dataclasses.dataclass(frozen=True)
class Embeddings:
    """Embeddings of a model; a side without embeddings is None, with its ids.

    Attributes:
      place: where they came from, for messages.
      image_ids: int64 [N].
      images: float32 [N, D], or [N, K, D] with K embeddings of every item.
      caption_ids: int64 [M].
      captions: float32 [M, D] or [M, K, D].
      similarity: name in `xmodal.losses.SIMILARITIES`; "" where nothing names it yet.
      parameters: learned numbers of the similarity.
      predictions: task -> predictions for the same images and captions, in the same order.
    """

    place: str
    image_ids: np.ndarray | None
    images: np.ndarray | None
    caption_ids: np.ndarray | None
    captions: np.ndarray | None
    similarity: str = ""
    parameters: Mapping[str, float] = dataclasses.field(default_factory=dict)
    predictions: Mapping[str, Predictions] = dataclasses.field(default_factory=dict)

    @property
    def sides(self) -> frozenset[str]:
        """The sides with embeddings, of "image" and "text"."""
        given = {"image": self.images, "text": self.captions}
        return frozenset(side for side, vectors in given.items() if vectors is not None)


@dataclasses.dataclass(frozen=True)
class ScoreMatrix:
    """The score of every image with every caption, for models that read pairs.

    Attributes:
      place: where they came from, for messages.
      image_ids: int64 [N].
      caption_ids: int64 [M].
      matrix: floats [N, M], larger for more similar; may be mapped from disk.
    """

    place: str
    image_ids: np.ndarray
    caption_ids: np.ndarray
    matrix: np.ndarray


@dataclasses.dataclass(frozen=True)
class RankedLists:
    """Ranked lists, most similar first; a direction without lists is None.

    Attributes:
      place: where they came from, for messages.
      i2t: image id -> int64 caption ids.
      t2i: caption id -> int64 image ids.
    """

    place: str
    i2t: Mapping[int, np.ndarray] | None
    t2i: Mapping[int, np.ndarray] | None


Source = Embeddings | ScoreMatrix | RankedLists


def stack_logits(predictions: Predictions, rows: np.ndarray, *, transposed: bool) -> jax.Array:
    """Returns logits of a block of queries with the whole gallery.

    Args:
      predictions: of N images and M captions.
      rows: positions of B queries: images, or captions if `transposed`.
      transposed: whether captions are the queries.

    Returns:
      float32 [B, M, C], or [B, N, C] if `transposed`.
    """
    if transposed:
        logits = predictions.combine(predictions.images, predictions.captions[rows])
        return jnp.swapaxes(logits, 0, 1)
    return predictions.combine(predictions.images[rows], predictions.captions)

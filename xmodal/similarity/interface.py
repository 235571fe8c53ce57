"""Interfaces of similarities; `LateInteraction` is for token sets."""

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from xmodal.similarity.embedding import Embedding

Params = Mapping[str, Any]
"""Numbers, or a nested dict of float32 arrays."""

Prepared = Any
"""A tree of float32 arrays with items first, as the similarity defines it."""


class PairCost(NamedTuple):
    """What one pair costs; engines and ranking choose the size of blocks by it.

    Attributes:
      bytes: memory of a pair's intermediate values in a block, with those of its gradient.
      flops: floating-point operations of the score, two for a multiplication with addition.
    """

    bytes: float
    flops: float


@dataclasses.dataclass(frozen=True)
class SimilarityFunction(abc.ABC):
    """One way to compare two embeddings.

    A frozen dataclass whose fields are keywords of the config, and a row of a table in
    `similarity.similarity`. All methods are pure functions of arrays, without flax, so that losses,
    ranking, bundles and search share them. The score of a pair depends on nothing but the two items
    and the parameters.

    Attributes:
      inner_product: whether the score is the inner product of prepared vectors [N, D].
      symmetric: whether exchanging the sides transposes the scores; if not, images are on the left.
      by_distance: whether the score depends only on distances, computed from squared lengths, which
        a large common offset would hide, see `vectors.find_offset`.
      unit: whether vectors are scaled to unit length.
    """

    inner_product: ClassVar[bool] = False
    symmetric: ClassVar[bool] = False
    by_distance: ClassVar[bool] = False
    unit: ClassVar[bool] = False

    def init(self, key: Any, left: Any, right: Any) -> dict[str, Any]:
        """Returns fresh parameters; only the shapes of the items matter."""
        return {}

    @abc.abstractmethod
    def prepare(self, params: Params, embedding: Any) -> Prepared:
        """Returns a tree of float32 arrays with items first; all that depends on one modality only.

        Masks are numbers, 0 or 1.
        """

    @abc.abstractmethod
    def score(self, params: Params, left: Prepared, right: Prepared) -> jax.Array:
        """Returns the scores [L, R] to rank by."""

    def logits(self, params: Params, left: Prepared, right: Prepared) -> jax.Array:
        """Returns the differentiable scores [L, R] for losses."""
        return self.score(params, left, right)

    def rescale(self, scores: np.ndarray) -> np.ndarray:
        """Returns scores to rank by, float64, on the scale on which the authors average models."""
        return np.asarray(scores, np.float64)

    @abc.abstractmethod
    def cost(self, left: Prepared, right: Prepared) -> PairCost:
        """Returns the cost of one pair; only shapes matter."""


class LateInteraction(SimilarityFunction):
    """A similarity of token sets; images are on the left, texts on the right.

    Padding, including an item of zeros only, has finite scores and gradients.
    """

    def observe(
        self, params: Params, left: Embedding, right: Embedding, mesh: Mesh | None = None
    ) -> tuple[dict[str, jax.Array], dict[str, Any]]:
        """Returns extras of `right` for `prepare`, and new values of parameters without gradient.

        Both are empty unless scores, in training, depend on the whole batch. With the extras, the
        score of a pair is again a function of its items, so every engine reduces it alike.

        Args:
          params: parameters.
          left: items of the whole batch.
          right: items of the whole batch.
          mesh: devices that the batch is split over.
        """
        return {}, {}

"""The interface of similarities that compare token sets, most with parameters of their own."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np
from jax.sharding import Mesh

from xmodal.similarity.embedding import Embedding

Params = Mapping[str, Any]
"""A nested dict of float32 arrays."""

Prepared = Any
"""A tree of float32 arrays with items first, of the module's own choice."""


class PairCost(NamedTuple):
    """What one pair costs; engines and ranking choose the size of blocks by it.

    Attributes:
      bytes: memory of a pair's intermediate values in a block, with those of its gradient.
      flops: floating-point operations of the score, two for a multiplication with addition.
    """

    bytes: float
    flops: float


class LateInteraction(Protocol):
    """A similarity of token sets; images are on the left, texts on the right.

    An implementation is a frozen dataclass whose fields are the keywords of the config, and a row
    of `table.LATE_INTERACTIONS`. All methods are pure functions of arrays, without flax, so that
    losses, ranking, bundles and search share them. The score of a pair depends on nothing but the
    two items and the parameters; padding, also an item of zeros only, has finite scores and
    gradients.
    """

    def init(self, key: jax.Array, left: Embedding, right: Embedding) -> dict[str, Any]:
        """Returns fresh parameters; of the items, only shapes matter."""

    def prepare(self, params: Params, embedding: Embedding) -> Prepared:
        """Returns a tree of float32 arrays with items first; all that depends on one modality only.

        Masks are numbers, 0 or 1.
        """

    def score(self, params: Params, left: Prepared, right: Prepared) -> jax.Array:
        """Returns the scores [L, R] to rank by."""

    def logits(self, params: Params, left: Prepared, right: Prepared) -> jax.Array:
        """Returns the differentiable scores [L, R] for losses."""

    def rescale(self, scores: np.ndarray) -> np.ndarray:
        """Returns scores to rank by, float64, on the scale on which the authors average models."""

    def cost(self, left: Prepared, right: Prepared) -> PairCost:
        """Returns the cost of one pair; only shapes matter."""


@runtime_checkable
class Observer(Protocol):
    """A `LateInteraction` whose scores, in training, depend on the whole batch."""

    def observe(
        self, params: Params, left: Embedding, right: Embedding, mesh: Mesh | None = None
    ) -> tuple[dict[str, jax.Array], dict[str, Any]]:
        """Returns extras of `right` for `prepare`, and new values of parameters without gradient.

        With the extras, the score of a pair is again a function of its items, so every engine
        reduces it alike.

        Args:
          params: parameters.
          left: items of the whole batch.
          right: items of the whole batch.
          mesh: devices that the batch is split over.
        """

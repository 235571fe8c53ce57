"""The result of a head."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Embedding:
    """The embeddings of N items, as a pytree.

    Attributes:
      vector: float32 [N, D], or [N, K, D] when an item has K embeddings.
      log_sigma: float32 [N, D], the log standard deviation of a probabilistic embedding, or None.
      extras: further arrays by name, such as `attention` [N, T] and `mean` [N, D]; the encoder's
        `features`, a `Features`, if the model has a cross-encoder.
    """

    vector: jax.Array
    log_sigma: jax.Array | None = None
    extras: Mapping[str, Any] = dataclasses.field(default_factory=dict)

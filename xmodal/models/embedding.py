"""The result of a head."""

import dataclasses
from collections.abc import Mapping

import jax


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Embedding:
    """The embeddings of N items, as a pytree.

    Attributes:
      vector: float32 [N, D], or [N, K, D] when an item has K embeddings.
      log_sigma: float32 [N, D], the log standard deviation of a probabilistic embedding, or None.
      extras: further arrays by name, such as `attention` [N, T] and `mean` [N, D].
    """

    vector: jax.Array
    log_sigma: jax.Array | None = None
    extras: Mapping[str, jax.Array] = dataclasses.field(default_factory=dict)

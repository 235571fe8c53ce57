"""What every tower returns."""

import dataclasses

import jax


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Embedding:
    """The embeddings of N items, as a pytree.

    Attributes:
      vector: float32 [N, D], or [N, K, D] when an item has K embeddings.
      log_sigma: float32 like `vector`, the log standard deviation of a probabilistic embedding.
      tokens: [N, T, W], what the pooling saw, for inspection.
      attention: [N, ..., T], the weights of the pooling, for inspection.
    """

    vector: jax.Array
    log_sigma: jax.Array | None = None
    tokens: jax.Array | None = None
    attention: jax.Array | None = None

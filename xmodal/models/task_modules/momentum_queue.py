"""A queue of the embeddings of earlier batches by momentum copies of the towers.

He et al., "Momentum Contrast for Unsupervised Visual Representation Learning" (2020), for images
and texts as in Li et al., "Align before Fuse" (2021), and BLIP (2022).
"""

import dataclasses
from collections.abc import Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp

from xmodal.base.config import UserError, setting
from xmodal.models.mode import Mode
from xmodal.similarity.embedding import Embedding

_NO_IMAGE = -100  # Image id of the random vectors that a queue starts with.


@dataclasses.dataclass(frozen=True)
class MomentumQueueConfig:
    """Settings of a queue; the defaults are BLIP's.

    Attributes:
      size: Q, items of each side that are kept.
      rate: m; at every step the copies of the towers become m copy + (1 - m) tower.
    """

    size: int = setting(57600, at_least=1)
    rate: float = setting(0.995, at_least=0, below=1)


class MomentumQueue(nn.Module):
    """State: `left` and `right` [Q, D], `ids` int32 [Q], newest first. It has no parameters."""

    size: int

    @nn.compact
    def __call__(
        self,
        left: Embedding,
        right: Embedding | None,
        columns: Mapping[str, jax.Array],
        reads: Mapping[str, jax.Array],
        mode: Mode,
    ) -> dict[str, jax.Array]:
        """The copies' vectors [B, D] and `image_id` int32 [B] -> the batch, then the queue.

        Returns:
          `left` and `right` [B + Q, D], `ids` int32 [B + Q]. In training, the newest Q of them are
          the next queue.
        """
        del reads
        if right is None or left.vector.ndim != 2 or "image_id" not in columns:
            raise UserError(
                "The task module 'momentum_queue' keeps one vector per item of two views and their "
                "images; use heads with one embedding, and set config.tasks.NAME.loss.inputs="
                "['image_id']."
            )
        new = {"left": left.vector, "right": right.vector, "ids": columns["image_id"]}
        found = {}
        for number, (name, array) in enumerate(new.items()):
            kept = self.variable("queue", name, self._start, number, array)
            found[name] = jnp.concatenate([array, kept.value])
            if mode.drops and not self.is_initializing():
                kept.value = found[name][: self.size]
        return found

    def _start(self, number: int, like: jax.Array) -> jax.Array:
        if jnp.issubdtype(like.dtype, jnp.integer):
            return jnp.full(self.size, _NO_IMAGE, like.dtype)
        key = jax.random.fold_in(self.make_rng("params"), number)
        vectors = jax.random.normal(key, (self.size, like.shape[1]), like.dtype)
        return vectors / jnp.linalg.norm(vectors, axis=1, keepdims=True)

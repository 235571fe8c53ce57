"""Modules that read the embeddings of pairs: a classifier of relations, and a momentum queue.

Classifier: Alikhani et al., "Cross-Modal Coherence for Text-to-Image Retrieval" (2022): one linear
layer on the two normalized embeddings, joined, or only on a text's.

Queue: the embeddings of earlier batches by momentum copies of the towers, as in He et al.,
"Momentum Contrast for Unsupervised Visual Representation Learning" (2020), for images and texts as
in Li et al., "Align before Fuse" (2021), and BLIP (2022).
"""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp

from xmodal.core.config import setting
from xmodal.models.basics import Mode
from xmodal.models.initializers import uniform
from xmodal.models.task_modules.task_module import TaskInputs


@dataclasses.dataclass(frozen=True)
class RelationClassifierConfig:
    """Settings of a relation classifier.

    Attributes:
      relations: R, number of relations.
    """

    relations: int = setting(at_least=1)


class RelationClassifier(nn.Module):
    """A linear layer on the joined vectors of a pair, as one matrix per modality.

    A task with one view has one matrix; its relations are predicted only from that modality.

    Parameters: `left` [D, R], `right` [D, R], `bias` [R].
    """

    config: RelationClassifierConfig

    def __call__(self, given: TaskInputs, mode: Mode) -> dict[str, jax.Array]:
        """Vectors [B, D] of both modalities -> `logits` float32 [B, R]."""
        left, right, *_ = given
        of_left, of_right = self.parts(left.vector, None if right is None else right.vector)
        return {"logits": of_left + of_right}

    def predict(self, left: jax.Array, right: jax.Array | None) -> jax.Array:
        """Vectors [L, D] and [R, D] -> probabilities float32 [L, R, relations].

        Without the right vectors, for a task with one view: [L, 1, relations].
        """
        of_left, of_right = self.parts(left, right)
        return jax.nn.sigmoid(of_left[:, None] + of_right[None, :])

    @nn.compact
    def parts(self, left: jax.Array, right: jax.Array | None) -> tuple[jax.Array, jax.Array]:
        """Vectors [L, D] and [R, D] -> the two summands of the logits, [L, C] and [R, C].

        Without the right vectors the second summand is [1, C] zeros.
        """
        views = {"left": left} if right is None else {"left": left, "right": right}
        # torch's default for one linear layer on all inputs.
        init = uniform(sum(x.shape[-1] for x in views.values()) ** -0.5)
        found = {
            name: x.astype(jnp.float32)
            @ self.param(name, init, (x.shape[-1], self.config.relations))
            for name, x in views.items()
        }
        bias = self.param("bias", init, (self.config.relations,))
        return found["left"] + bias, found.get("right", jnp.zeros((1, self.config.relations)))


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

    config: MomentumQueueConfig

    @nn.compact
    def __call__(self, given: TaskInputs, mode: Mode) -> dict[str, jax.Array]:
        """The copies' vectors [B, D] and `image_id` int32 [B] -> the batch, then the queue.

        Returns:
          `left` and `right` [B + Q, D], `ids` int32 [B + Q]. In training, the newest Q of them are
          the next queue.
        """
        left, right, columns, _ = given
        assert right is not None
        new = {"left": left.vector, "right": right.vector, "ids": columns["image_id"]}
        found = {}
        for number, (name, array) in enumerate(new.items()):
            kept = self.variable("queue", name, self._start, number, array)
            found[name] = jnp.concatenate([array, kept.value])
            if mode.drops and not self.is_initializing():
                kept.value = found[name][: self.config.size]
        return found

    def _start(self, number: int, like: jax.Array) -> jax.Array:
        if jnp.issubdtype(like.dtype, jnp.integer):
            return jnp.full(self.config.size, _NO_IMAGE, like.dtype)
        key = jax.random.fold_in(self.make_rng("params"), number)
        vectors = jax.random.normal(key, (self.config.size, like.shape[1]), like.dtype)
        return vectors / jnp.linalg.norm(vectors, axis=1, keepdims=True)

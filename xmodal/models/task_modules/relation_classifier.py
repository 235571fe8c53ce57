"""A classifier of the coherence relations between a text and an image.

Alikhani et al., "Cross-Modal Coherence for Text-to-Image Retrieval" (2022): one linear layer on the
two normalized embeddings, joined.
"""

import dataclasses
from collections.abc import Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp

from xmodal.config import UserError, setting
from xmodal.models.embedding import Embedding
from xmodal.models.mode import Mode
from xmodal.models.task_modules.task_module import TaskModule


@dataclasses.dataclass(frozen=True)
class RelationClassifierConfig:
    """Settings of a relation classifier.

    Attributes:
      relations: R, number of relations.
    """

    relations: int = setting(at_least=1)


class RelationClassifier(nn.Module):
    """A linear layer on the joined vectors of a pair, as one matrix per side.

    Parameters: `left` [D, R], `right` [D, R], `bias` [R].
    """

    relations: int

    def __call__(
        self,
        left: Embedding,
        right: Embedding | None,
        columns: Mapping[str, jax.Array],
        reads: Mapping[str, jax.Array],
        mode: Mode,
    ) -> dict[str, jax.Array]:
        """Vectors [B, D] of both sides -> `logits` float32 [B, R]."""
        del columns, reads, mode
        if right is None or left.vector.ndim != 2 or right.vector.ndim != 2:
            raise UserError(
                "The task module 'relation_classifier' takes one vector per item of two views; "
                "give the task two views and heads with one embedding."
            )
        of_left, of_right = self.halves(left.vector, right.vector)
        return {"logits": of_left + of_right}

    def predict(self, left: jax.Array, right: jax.Array) -> jax.Array:
        """Vectors [L, D] and [R, D] -> probabilities float32 [L, R, relations]."""
        of_left, of_right = self.halves(left, right)
        return jax.nn.sigmoid(of_left[:, None] + of_right[None, :])

    @nn.compact
    def halves(self, left: jax.Array, right: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Vectors [L, D] and [R, D] -> the two summands of the logits, [L, C] and [R, C]."""
        # torch's default for one linear layer on all inputs.
        bound = (left.shape[-1] + right.shape[-1]) ** -0.5

        def uniform(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
            return jax.random.uniform(key, shape, minval=-bound, maxval=bound)

        weights = [
            self.param(name, uniform, (x.shape[-1], self.relations))
            for name, x in (("left", left), ("right", right))
        ]
        bias = self.param("bias", uniform, (self.relations,))
        left, right = left.astype(jnp.float32), right.astype(jnp.float32)
        return left @ weights[0] + bias, right @ weights[1]


def make_relation_classifier(config: RelationClassifierConfig) -> TaskModule:
    """Returns a relation classifier."""
    return TaskModule(RelationClassifier(config.relations))

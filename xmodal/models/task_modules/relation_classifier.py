"""A classifier of the coherence relations of a text and an image, or only of a text.

Alikhani et al., "Cross-Modal Coherence for Text-to-Image Retrieval" (2022): one linear layer on the
two normalized embeddings, joined.
"""

import dataclasses
from collections.abc import Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp

from xmodal.base.config import UserError, setting
from xmodal.models.initializers import uniform
from xmodal.models.mode import Mode
from xmodal.similarity.embedding import Embedding


@dataclasses.dataclass(frozen=True)
class RelationClassifierConfig:
    """Settings of a relation classifier.

    Attributes:
      relations: R, number of relations.
    """

    relations: int = setting(at_least=1)


class RelationClassifier(nn.Module):
    """A linear layer on the joined vectors of a pair, as one matrix per side.

    A task with one view has one matrix; its relations are predicted only from that side.

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
        if any(view is not None and view.vector.ndim != 2 for view in (left, right)):
            raise UserError(
                "The task module 'relation_classifier' takes one vector per item; use heads with "
                "one embedding for the views of its task."
            )
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
            name: x.astype(jnp.float32) @ self.param(name, init, (x.shape[-1], self.relations))
            for name, x in views.items()
        }
        bias = self.param("bias", init, (self.relations,))
        return found["left"] + bias, found.get("right", jnp.zeros((1, self.relations)))

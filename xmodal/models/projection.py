"""The last layer of a tower."""

import dataclasses
from collections.abc import Mapping

import flax.linen as nn
import jax.numpy as jnp

from xmodal.core.config import read, setting
from xmodal.models.basics import Mode, l2_normalize
from xmodal.models.batch_norm import torch_batch_norm
from xmodal.models.initializers import LINEAR
from xmodal.similarity.embedding import Embedding


@dataclasses.dataclass(frozen=True)
class ProjectionConfig:
    """Settings of a projection, whose steps are applied in the order listed here.

    Attributes:
      normalize_input: divide the head's vectors by their L2 norms.
      batch_norm: normalize the head's vectors over the batch, like torch's BatchNorm1d.
      width: width of a linear layer; None for no such layer.
      bias: whether the linear layer has a bias.
      init: initializer of its kernel: "xavier", "lecun", "he" (Flax's names; xavier is uniform, the
        other two are normal) or "torch" (torch's default for a linear layer).
      normalize: divide the result by its L2 norm.
      absolute: take absolute values (order embeddings).
    """

    normalize_input: bool = False
    batch_norm: bool = False
    width: int | None = setting(None, at_least=1)
    bias: bool = True
    init: str = setting("xavier", one_of=LINEAR)
    normalize: bool = False
    absolute: bool = False


class Projection(nn.Module):
    """Maps the vectors of an embedding in float32.

    Parameters: `kernel` [W, D] and `bias` [D] of the linear layer, `batch_norm`.
    """

    config: ProjectionConfig

    @nn.compact
    def __call__(self, embedding: Embedding, mode: Mode) -> Embedding:
        """Vector [N, W] or [N, K, W] -> [N, D] or [N, K, D]; everything else is kept."""
        config, x = self.config, embedding.vector.astype(jnp.float32)
        if config.normalize_input:
            x = l2_normalize(x)
        if config.batch_norm:
            norm = torch_batch_norm(name="batch_norm")
            x = norm(x, mode)
        if config.width is not None:
            kernel = self.param("kernel", LINEAR[config.init], (x.shape[-1], config.width))
            x = x @ kernel
            if config.bias:
                x = x + self.param("bias", nn.initializers.zeros, (config.width,))
        if config.normalize:
            x = l2_normalize(x)
        if config.absolute:
            x = jnp.abs(x)
        return dataclasses.replace(embedding, vector=x)


def make_projection(where: str, config: Mapping[str, object] | None) -> Projection | None:
    """Returns the projection that a section describes, or None for None."""
    return None if config is None else Projection(read(ProjectionConfig, where, config))

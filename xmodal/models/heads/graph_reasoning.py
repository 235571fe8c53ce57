"""Reasoning over the graph of an image's regions, and a GRU that aggregates them.

Li et al., "Visual Semantic Reasoning for Image-Text Matching" (2019), and the authors' code,
KunpengLi1994/VSRN.
"""

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp

from xmodal.core.config import setting
from xmodal.models.basics import Mode, l2_normalize
from xmodal.models.batch_norm import torch_batch_norm
from xmodal.models.features import Features
from xmodal.models.initializers import LINEAR
from xmodal.models.recurrent import Recurrent
from xmodal.similarity.embedding import Embedding

# Real regions have values, padding has zeros.
NORMS: Mapping[str, Callable[[jax.Array], jax.Array]] = {
    "regions": lambda x: l2_normalize(x, axis=1),
    "channels": l2_normalize,
    "none": lambda x: x,
}
"""Normalizations of regions [N, T, D]: of each channel over the regions, of each region, none."""


@dataclasses.dataclass(frozen=True)
class GraphConfig:
    """Settings of the head "graph".

    Attributes:
      width: D, width of the linear layer, the graph layers and the GRU.
      layers: number of graph layers.
      input_norm: normalization before them, a key of `NORMS`. The released code divides each
        channel by its norm over the regions of an image; for Flickr30k it omits this step.
      output_norm: normalization after them, likewise.
    """

    width: int = setting(2048, at_least=1)
    layers: int = setting(4, at_least=0)
    input_norm: str = setting("regions", one_of=NORMS)
    output_norm: str = setting("regions", one_of=NORMS)


class Graph(nn.Module):
    """A linear layer, graph layers, and the last state of a GRU over the regions in order.

    Parameters: `linear`, `layer1`, `layer2`, ... and `recurrent`.
    """

    config: GraphConfig

    @nn.compact
    def __call__(self, features: Features, mode: Mode) -> Embedding:
        """Tokens [N, T, W] -> vector [N, D].

        Extras: `regions` [N, T, D], the regions that the GRU reads, zero in the padding, and their
        `region_mask` bool [N, T].
        """
        config, mask = self.config, features.full_mask()
        dense = partial(nn.Dense, dtype=features.tokens.dtype, kernel_init=LINEAR["xavier"])
        x = dense(config.width, name="linear")(features.real_tokens())
        x = NORMS[config.input_norm](jnp.where(mask[..., None], x, 0).astype(jnp.float32))
        for number in range(1, config.layers + 1):
            x = GraphLayer(name=f"layer{number}")(x, mask, mode)
        x = NORMS[config.output_norm](x)
        gather = Recurrent("gru", config.width, 1, False, 0.0, jnp.float32, name="recurrent")
        vector = gather(x, features.lengths(), False).state
        return Embedding(vector, extras={"regions": x, "region_mask": mask})


class GraphLayer(nn.Module):
    """A residual layer in which every region attends to all regions.

    The relations are inner products divided by the number of regions, without a softmax. The layer
    is initially the identity, since the scale of its batch normalization is 0.

    Parameters: `query`, `key`, `value`, `output` and `norm`.
    """

    @nn.compact
    def __call__(self, x: jax.Array, mask: jax.Array, mode: Mode) -> jax.Array:
        """Regions [N, T, D] and bool [N, T] -> [N, T, D], zero in the padding."""
        query, key, value = (
            nn.Dense(x.shape[-1], kernel_init=LINEAR["torch"], name=name)(x)
            for name in ("query", "key", "value")
        )
        count = jnp.maximum(jnp.sum(mask, axis=1), 1)[:, None, None]
        relations = jnp.einsum("nid,njd->nij", query, key) / count
        found = jnp.einsum("nij,njd->nid", jnp.where(mask[:, None], relations, 0), value)
        found = nn.Dense(x.shape[-1], kernel_init=LINEAR["torch"], name="output")(found)
        norm = torch_batch_norm(scale_init=nn.initializers.zeros, name="norm")
        return jnp.where(mask[..., None], x + norm(found, mode, mask), 0)

"""Transformer layers of BERT and ViT, stacked: one layer is compiled at any depth.

Post-norm as in Devlin et al., "BERT" (2019), after Vaswani et al. (2017); pre-norm as in
Dosovitskiy et al., "An Image is Worth 16x16 Words" (2021), equations 2 and 3.
"""

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from xmodal.core.config import setting
from xmodal.models.attention import (
    ATTENTIONS,
    CUDNN,
    EINSUM,
    KEPT,
    attend,
    attend_fused,
    keep_weights,
    keeps_weights,
    project_heads,
)
from xmodal.models.basics import DTYPES
from xmodal.models.initializers import LAYER_INITS

ACTIVATIONS: Mapping[str, Callable[[jax.Array], jax.Array]] = {
    "gelu": partial(jax.nn.gelu, approximate=False),
    "gelu_tanh": partial(jax.nn.gelu, approximate=True),
    # CLIP's approximation.
    "quick_gelu": lambda x: x * jax.nn.sigmoid(1.702 * x),
}

STORE_NOTHING = "nothing_saveable"
REMAT_POLICIES = (STORE_NOTHING, "dots_with_no_batch_dims_saveable", "dots_saveable")
"""Names in `jax.checkpoint_policies`: a recomputed layer stores nothing, the outputs of its linear
layers, or the products of attention as well."""


@dataclasses.dataclass(frozen=True)
class LayerSpec:
    """One transformer layer.

    Attributes:
      heads: attention heads.
      mlp_dim: hidden width of the feed-forward layer.
      norm_first: pre-norm, x + f(norm(x)); False for post-norm, norm(x + f(x)).
      activation: a key of `ACTIVATIONS`.
      epsilon: epsilon of the layer norms.
      causal: whether every token attends only to itself and those before it.
      dtype: compute dtype; parameters are float32.
      init: a key of `LAYER_INITS`.
      attention: one of `attention.ATTENTIONS`; weights that drop out at random or are kept
        for `Tower.attend` exist only with "einsum", which then replaces "cudnn".
    """

    heads: int
    mlp_dim: int
    norm_first: bool
    activation: str
    epsilon: float
    causal: bool
    dtype: DTypeLike
    init: str = "bert"
    attention: str = EINSUM


def layer_norm(epsilon: float, dtype: DTypeLike, name: str) -> nn.LayerNorm:
    """Returns a layer norm with the two-pass variance."""
    # With the one-pass variance, rounding errors would exceed a tiny epsilon.
    return nn.LayerNorm(epsilon=epsilon, use_fast_variance=False, dtype=dtype, name=name)


def drop_branches(branches: jax.Array, rate: jax.Array, key: jax.Array) -> jax.Array:
    """Returns branches [N, ...], each 0 with the probability `rate`, or else divided by 1 - rate.

    Huang et al., "Deep Networks with Stochastic Depth" (2016); scaled as the drop path of timm.
    """
    shape = (len(branches),) + (1,) * (branches.ndim - 1)
    kept = jax.random.bernoulli(key, 1 - rate, shape)
    return jnp.where(kept, branches / (1 - rate).astype(branches.dtype), 0)


class TransformerLayer(nn.Module):
    """Self-attention and a feed-forward layer, each added to its input, one of `depth` layers."""

    spec: LayerSpec
    dropout: float
    depth: int

    @nn.compact
    def __call__(
        self,
        x: jax.Array,
        mask: jax.Array | None,
        queries: int | None = None,
        drop_path: jax.Array | None = None,
    ) -> tuple[jax.Array, None]:
        """X [N, T, W] and bool mask [N, T] or None -> ([N, T, W], nothing to stack).

        With `queries`, only that many tokens are computed, the first, [N, queries, W]; with
        `drop_path`, a scalar, each of the two branches of an item is dropped with that probability.
        """
        spec, width = self.spec, x.shape[-1]
        dense = partial(nn.Dense, dtype=spec.dtype)
        init = LAYER_INITS[spec.init](width, spec.mlp_dim, self.depth)
        drop = nn.Dropout(self.dropout, deterministic=False)

        def self_attention(x: jax.Array) -> jax.Array:
            project = partial(dense, width, kernel_init=init.attention_input)
            query, key, value = project_heads(project, spec.heads, x[:, :queries], x, x)
            if spec.attention == CUDNN and not self.dropout and not keeps_weights(self):
                attended = attend_fused(query, key, value, mask, causal=spec.causal)
            else:
                attended = attend(
                    query, key, value, mask, lambda weights: drop(keep_weights(self, weights)),
                    causal=spec.causal,
                )  # fmt: skip
            return dense(width, kernel_init=init.attention_output, name="attention_output")(
                attended
            )

        def mlp(x: jax.Array) -> jax.Array:
            hidden = dense(
                spec.mlp_dim, kernel_init=init.mlp_hidden, bias_init=init.mlp_hidden_bias,
                name="mlp_hidden",
            )(x)  # fmt: skip
            return dense(
                width, kernel_init=init.mlp_output, bias_init=init.mlp_output_bias,
                name="mlp_output",
            )(ACTIVATIONS[spec.activation](hidden))  # fmt: skip

        for function, name in ((self_attention, "attention_norm"), (mlp, "mlp_norm")):
            norm = layer_norm(spec.epsilon, spec.dtype, name)
            first = x[:, :queries]
            branch = drop(function(norm(x) if spec.norm_first else x))
            if drop_path is not None:
                branch = drop_branches(branch, drop_path, self.make_rng("dropout"))
            x = first + branch if spec.norm_first else norm(first + branch)
        return x, None


@dataclasses.dataclass(frozen=True)
class StackConfig:
    """Settings of every encoder with a stack of layers; the defaults are those of BERT-Base.

    Attributes:
      width: width of the layers.
      depth: number of layers.
      heads: attention heads.
      mlp_dim: hidden width of the feed-forward layers.
      dropout: dropout rate of the embeddings, attention weights and layer outputs.
      dtype: compute dtype; parameters are float32.
      remat: recompute every layer in the backward pass instead of storing its values.
      remat_policy: values that a recomputed layer stores, one of `REMAT_POLICIES`; it needs
        `remat`.
      unroll: compile every layer separately instead of one for all: compilation takes longer, but
        the compiler's FLOPs, traffic and time then include all layers.
      attention: "einsum", or "cudnn" for its fused kernel on NVIDIA GPUs. Steps with dropout, and
        other devices, use "einsum"; see `attention`.
    """

    width: int = setting(768, at_least=1)
    depth: int = setting(12, at_least=1)
    heads: int = setting(12, at_least=1)
    mlp_dim: int = setting(3072, at_least=1)
    dropout: float = setting(0.0, at_least=0, below=1)
    dtype: str = setting("float32", one_of=DTYPES)
    remat: bool = False
    remat_policy: str = setting(STORE_NOTHING, one_of=REMAT_POLICIES)
    unroll: bool = False
    attention: str = setting(EINSUM, one_of=ATTENTIONS)

    def run_layers(
        self,
        x: jax.Array,
        mask: jax.Array | None,
        dropout: float,
        *,
        name: str = "layers",
        depth: int | None = None,
        drop_path: float = 0.0,
        **options: Any,
    ) -> jax.Array:
        """Returns the output [N, T, W] of a stack of layers, inside a module's compact method.

        Args:
          x: [N, T, W].
          mask: bool [N, T], True for real tokens; None if all are real.
          dropout: dropout rate of the attention weights and of the residual branches.
          name: name of the stacked parameters, whose first axis is the layer.
          depth: number of layers; None for `self.depth`.
          drop_path: probability of dropping a residual branch of an item in the last layer; it
            rises linearly from 0 in the first.
          **options: see `LayerSpec`.
        """
        spec = LayerSpec(
            self.heads, self.mlp_dim, dtype=DTYPES[self.dtype], attention=self.attention, **options
        )
        depth = self.depth if depth is None else depth
        layer = TransformerLayer
        if self.remat:
            # A loop computes nothing twice by itself.
            policy = getattr(jax.checkpoint_policies, self.remat_policy)
            layer = nn.remat(TransformerLayer, prevent_cse=self.unroll, policy=policy)
        layers = nn.scan(
            layer,
            variable_axes={"params": 0, KEPT: 0},
            split_rngs={"params": True, "dropout": True},
            in_axes=(nn.broadcast, nn.broadcast, 0),
            length=depth,
            unroll=depth if self.unroll else 1,
        )(spec, dropout, depth, name=name)
        rates = jnp.linspace(0.0, drop_path, depth) if drop_path else None
        return layers(x, mask, None, rates)[0]

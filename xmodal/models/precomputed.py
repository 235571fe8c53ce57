"""A tower of features that were computed beforehand: one vector per item, or one per region."""

from collections.abc import Callable, Mapping, Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from xmodal.config import lookup
from xmodal.models.embedding import Embedding
from xmodal.models.projection import project
from xmodal.models.tower import DTYPES, ONE_CPU, Devices, Tower


def _l2(x: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.maximum(jnp.sum(jnp.square(x), axis=-1, keepdims=True), 1e-12))


def _layer_norm(x: jax.Array) -> jax.Array:
    return jax.nn.standardize(x, axis=-1, epsilon=1e-6)


INPUT_NORMS: Mapping[str, Callable[[jax.Array], jax.Array]] = {
    "none": lambda x: x,
    "l2": _l2,
    "layer_norm": _layer_norm,
}


class Precomputed(nn.Module):
    """Normalised features through hidden layers and a projection; regions are averaged first."""

    features: int
    hidden: Sequence[int]
    dropout: float
    input_norm: str
    projection: int | None
    dtype: DTypeLike

    @nn.compact
    def __call__(self, inputs: jax.Array, train: bool) -> Embedding:
        """Float [B, F] or regions [B, R, F] -> vector [B, D]."""
        if inputs.ndim not in (2, 3) or inputs.shape[-1] != self.features:
            raise ValueError(
                f"a precomputed tower with features={self.features} takes [B, F] or [B, R, F], "
                f"got {inputs.dtype} {list(inputs.shape)}"
            )
        x = INPUT_NORMS[self.input_norm](inputs.astype(jnp.float32))
        if x.ndim == 3:
            x = jnp.mean(x, axis=1)
        x = x.astype(self.dtype)
        drop = nn.Dropout(self.dropout, deterministic=not train)
        for index, width in enumerate(self.hidden):
            layer = nn.Dense(
                width,
                kernel_init=nn.initializers.he_normal(),
                dtype=self.dtype,
                name=f"hidden{index + 1}",
            )
            x = drop(jax.nn.relu(layer(x)))
        return Embedding(project(x, self.projection))


def make_tower(
    *,
    features: int | Sequence[int],
    hidden: Sequence[int] = (),
    dropout: float = 0.0,
    input_norm: str = "none",
    projection: int | None = None,
    dtype: str = "float32",
    devices: Devices = ONE_CPU,
) -> Tower:
    """Features as a tower of floats [B, F] or, one row per region, [B, R, F].

    Args:
      features: F, or (R, F) where every image comes as a set of R regions.
      hidden: widths of hidden layers with a ReLU.
      dropout: after every hidden layer.
      input_norm: of every feature vector: "none", "l2", or "layer_norm" without parameters.
      projection: width of a last linear layer, or None.
      dtype: compute dtype; parameters are float32.
      devices: unused, nothing here depends on them.
    """
    del devices
    lookup("config.model.image.input_norm", input_norm, INPUT_NORMS)
    module = Precomputed(
        features if isinstance(features, int) else features[-1],
        tuple(hidden),
        dropout,
        input_norm,
        projection,
        lookup("config.model.image.dtype", dtype, DTYPES),
    )
    return Tower(module)

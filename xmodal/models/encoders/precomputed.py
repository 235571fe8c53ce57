"""Precomputed features: one vector per item, or one per region."""

import dataclasses
from collections.abc import Callable, Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from xmodal.base.config import UserError, setting
from xmodal.models.dtypes import DTYPES
from xmodal.models.encoders.encoder import Encoder
from xmodal.models.features import Features
from xmodal.models.mode import Mode
from xmodal.models.normalize import l2_normalize


def _layer_norm(x: jax.Array) -> jax.Array:
    return jax.nn.standardize(x, axis=-1, epsilon=1e-6)


INPUT_NORMS: Mapping[str, Callable[[jax.Array], jax.Array]] = {
    "none": lambda x: x,
    "l2": l2_normalize,
    "layer_norm": _layer_norm,
}


@dataclasses.dataclass(frozen=True)
class PrecomputedConfig:
    """Settings of an encoder of precomputed features.

    Attributes:
      features: F, or (R, F) if every image has R regions.
      hidden: widths of hidden layers with a ReLU.
      dropout: dropout rate after every hidden layer.
      input_norm: normalization of feature vectors: "none", "l2", or "layer_norm" without
        parameters.
      dtype: compute dtype; parameters are float32.
    """

    features: int | tuple[int, int] = setting(at_least=1)
    hidden: tuple[int, ...] = setting((), at_least=1)
    dropout: float = setting(0.0, at_least=0, below=1)
    input_norm: str = setting("none", one_of=INPUT_NORMS)
    dtype: str = setting("float32", one_of=DTYPES)


class Precomputed(Encoder):
    """Applies hidden layers to normalized features, region by region."""

    feature_column = "image_features"

    config: PrecomputedConfig

    @nn.compact
    def __call__(self, inputs: Mapping[str, jax.Array], mode: Mode) -> Features:
        """`image` float [B, F] or regions [B, R, F] -> tokens [B, 1, F'] or [B, R, F'].

        `image_mask` [B, R], if given, marks real regions. `image_features`, the tokens that
        `frozen_features` returned, may replace `image`.
        """
        config, dtype = self.config, DTYPES[self.config.dtype]
        mask = inputs["image_mask"] > 0 if "image_mask" in inputs else None
        if self.feature_column in inputs:
            return Features(inputs[self.feature_column].astype(dtype), mask)
        x, features = inputs["image"], np.atleast_1d(config.features)[-1]
        if x.ndim not in (2, 3) or x.shape[-1] != features:
            raise UserError(
                f"an encoder of precomputed features with features={features} takes [B, F] or "
                f"[B, R, F], got {x.dtype} {list(x.shape)}."
            )
        x = INPUT_NORMS[config.input_norm](x.astype(jnp.float32)).astype(dtype)
        x = x[:, None] if x.ndim == 2 else x
        drop = nn.Dropout(config.dropout, deterministic=not mode.drops)
        for index, width in enumerate(config.hidden):
            layer = nn.Dense(
                width,
                kernel_init=nn.initializers.he_normal(),
                dtype=dtype,
                name=f"hidden{index + 1}",
            )
            x = drop(jax.nn.relu(layer(x)))
        return Features(x, mask)

"""Precomputed features: one vector per item, or one per region."""

import dataclasses
from collections.abc import Callable, Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from xmodal.core.config import setting
from xmodal.core.errors import UserError
from xmodal.models.basics import DTYPES, Mode, l2_normalize
from xmodal.models.encoders.encoder import Encoder
from xmodal.models.features import Features
from xmodal.models.initializers import BERT, LINEAR
from xmodal.models.transformer_layers import layer_norm

INPUT_NORMS: Mapping[str, Callable[[jax.Array], jax.Array]] = {
    "none": lambda x: x,
    "l2": l2_normalize,
    "layer_norm": lambda x: jax.nn.standardize(x, axis=-1, epsilon=1e-6),
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
        x = _read_regions(inputs, np.atleast_1d(config.features)[-1])
        x = INPUT_NORMS[config.input_norm](x.astype(jnp.float32)).astype(dtype)
        drop = nn.Dropout(config.dropout, deterministic=not mode.drops)
        for number, width in enumerate(config.hidden, start=1):
            layer = nn.Dense(width, kernel_init=LINEAR["he"], dtype=dtype, name=f"hidden{number}")
            x = drop(jax.nn.relu(layer(x)))
        return Features(x, mask)


def _read_regions(inputs: Mapping[str, jax.Array], features: int) -> jax.Array:
    """Returns `image` [B, F] or [B, R, F] as regions [B, R, F]."""
    x = inputs["image"]
    if x.ndim not in (2, 3) or x.shape[-1] != features:
        raise UserError(
            f"An encoder with features={features} takes features [B, F] or [B, R, F], got "
            f"{x.dtype} {list(x.shape)}; set config.model.image.encoder.features."
        )
    return x[:, None] if x.ndim == 2 else x


@dataclasses.dataclass(frozen=True)
class RegionTokensConfig:
    """Settings of the encoder "region_tokens"; the defaults are those of VinVL.

    Attributes:
      features: numbers of a region; VinVL's are 2,048 features and 6 of its box.
      width: width of the tokens.
      epsilon: epsilon of the layer norm.
      dropout: dropout rate of the tokens.
      dtype: compute dtype; parameters are float32.
    """

    features: int = setting(2054, at_least=1)
    width: int = setting(768, at_least=1)
    epsilon: float = setting(1e-12, above=0)
    dropout: float = setting(0.0, at_least=0, below=1)
    dtype: str = setting("float32", one_of=DTYPES)


class RegionTokens(Encoder):
    """Regions as tokens, and words about the image for a cross-encoder.

    Li et al., "Oscar: Object-Semantics Aligned Pre-training for Vision-Language Tasks" (2020), and
    Zhang et al., "VinVL: Revisiting Visual Representations in Vision-Language Models" (2021);
    microsoft/Oscar, oscar/modeling/modeling_bert.py.

    Parameters: a linear layer, `regions`, and a layer norm, `norm`; regions have no positions.
    """

    config: RegionTokensConfig

    @nn.compact
    def __call__(self, inputs: Mapping[str, jax.Array], mode: Mode) -> Features:
        """`image` float [B, R, F], or [B, F] of one region -> tokens [B, R, W].

        `image_mask` [B, R], if given, marks real regions. `image_tags`, if given, becomes the extra
        `tags`, see `Features`.
        """
        config, dtype = self.config, DTYPES[self.config.dtype]
        x = _read_regions(inputs, config.features)
        x = nn.Dense(config.width, kernel_init=BERT, dtype=dtype, name="regions")(x.astype(dtype))
        x = layer_norm(config.epsilon, dtype, "norm")(x)
        x = nn.Dropout(config.dropout, deterministic=not mode.drops)(x)
        mask = inputs["image_mask"] > 0 if "image_mask" in inputs else None
        extras = {"tags": inputs["image_tags"]} if "image_tags" in inputs else {}
        return Features(x, mask, extras)

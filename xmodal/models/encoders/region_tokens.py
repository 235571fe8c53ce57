"""Regions of a detector as tokens, and words about the image for a pair scorer.

Li et al., "Oscar: Object-Semantics Aligned Pre-training for Vision-Language Tasks" (2020), and
Zhang et al., "VinVL: Revisiting Visual Representations in Vision-Language Models" (2021);
microsoft/Oscar, oscar/modeling/modeling_bert.py.
"""

import dataclasses
from collections.abc import Mapping

import flax.linen as nn
import jax

from xmodal.base.config import UserError, setting
from xmodal.models.dtypes import DTYPES
from xmodal.models.encoders.encoder import Encoder
from xmodal.models.features import Features
from xmodal.models.layer_init import BERT
from xmodal.models.mode import Mode
from xmodal.models.transformer_layers import layer_norm


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
    """A linear layer, `regions`, and a layer norm, `norm`; regions have no positions."""

    config: RegionTokensConfig

    @nn.compact
    def __call__(self, inputs: Mapping[str, jax.Array], mode: Mode) -> Features:
        """`image` float [B, R, F], or [B, F] of one region -> tokens [B, R, W].

        `image_mask` [B, R], if given, marks real regions. `image_tags`, if given, becomes the extra
        `tags`, see `Features`.

        Raises:
          UserError: regions have another number of features.
        """
        config, x = self.config, inputs["image"]
        if x.ndim not in (2, 3) or x.shape[-1] != config.features:
            raise UserError(
                f"The encoder 'region_tokens' with features={config.features} takes regions [B, R, "
                f"F], not {x.dtype} {list(x.shape)}; set config.model.image.encoder.features."
            )
        dtype = DTYPES[config.dtype]
        x = x[:, None] if x.ndim == 2 else x
        x = nn.Dense(config.width, kernel_init=BERT, dtype=dtype, name="regions")(x.astype(dtype))
        x = layer_norm(config.epsilon, dtype, "norm")(x)
        x = nn.Dropout(config.dropout, deterministic=not mode.drops)(x)
        mask = inputs["image_mask"] > 0 if "image_mask" in inputs else None
        extras = {"tags": inputs["image_tags"]} if "image_tags" in inputs else {}
        return Features(x, mask, extras)

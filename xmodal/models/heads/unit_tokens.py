"""Tokens of unit length, for similarities that compare tokens.

Lee et al., "Stacked Cross Attention for Image-Text Matching" (ECCV 2018).
"""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp

from xmodal.base.config import setting
from xmodal.models.features import Features
from xmodal.models.heads.pooling import mean_tokens
from xmodal.models.initializers import LINEAR
from xmodal.models.mode import Mode
from xmodal.models.normalize import l2_normalize
from xmodal.similarity.embedding import Embedding


@dataclasses.dataclass(frozen=True)
class UnitTokensConfig:
    """Settings of the head "unit_tokens".

    Attributes:
      width: D, width of a linear layer before; None for no such layer, as the authors' texts have.
    """

    width: int | None = setting(None, at_least=1)


class UnitTokens(nn.Module):
    """A linear layer, and tokens divided by their length.

    Parameters: `linear` of the tokens.
    """

    config: UnitTokensConfig

    @nn.compact
    def __call__(self, features: Features, mode: Mode) -> Embedding:
        """Tokens [N, T, W] -> the unit vector [N, D] of their mean, which only finds candidates.

        Extras: `tokens` [N, T, D], float32 of unit length and zero in the padding, and their
        `mask`, bool [N, T].
        """
        del mode
        tokens = normalize_tokens(features, self.config.width)
        vector = l2_normalize(mean_tokens(Features(tokens, features.mask)))
        return Embedding(vector, extras={"tokens": tokens, "mask": features.full_mask()})


def normalize_tokens(features: Features, width: int | None) -> jax.Array:
    """Returns tokens [N, T, D] of unit length, float32 and zero in the padding.

    Args:
      features: tokens [N, T, W].
      width: D of the layer `linear`, which the calling module then has; None for none.
    """
    tokens = features.real_tokens().astype(jnp.float32)
    if width is not None:
        tokens = nn.Dense(width, kernel_init=LINEAR["xavier"], name="linear")(tokens)
    return Features(l2_normalize(tokens), features.mask).real_tokens()

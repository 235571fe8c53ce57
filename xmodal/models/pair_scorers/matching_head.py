"""BLIP's image-text matching head on the features of both towers.

Li et al., "BLIP" (2022), and salesforce/BLIP, models/blip_retrieval.py. Differences: BLIP's
fusion encoder shares the weights of the text encoder and reads the ids again, with a special first
token; this head is small, has its own layers, and continues with the text encoder's last tokens.
"""

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from xmodal.base.config import setting
from xmodal.models.dtypes import DTYPES
from xmodal.models.features import Features
from xmodal.models.mode import Mode
from xmodal.models.pair_scorers.fusion_layer import FusionLayer
from xmodal.models.pair_scorers.pair_scorer import SCORES, PairScorer


@dataclasses.dataclass(frozen=True)
class MatchingHeadConfig:
    """Settings of the pair scorer "matching_head".

    Attributes:
      width: width of the layers; a multiple of `heads`.
      depth: number of layers.
      heads: attention heads of a layer.
      mlp_dim: hidden width of the MLPs.
      dropout: dropout rate of attention weights and of the output of every block.
      score: what ranks pairs: "log_odds", the logit of "match" minus that of "no match", which
        orders pairs as their probability does, without its ties near 1; or "logit", that of
        "match" alone, as in BLIP, which adds the cosine of the towers, see `PairReranker`.
      dtype: compute dtype; parameters are float32.
    """

    width: int = setting(768, at_least=1)
    depth: int = setting(12, at_least=1)
    heads: int = setting(12, at_least=1)
    mlp_dim: int = setting(3072, at_least=1)
    dropout: float = setting(0.1, at_least=0, below=1)
    score: str = setting("log_odds", one_of=SCORES)
    dtype: str = setting("float32", one_of=DTYPES)


class MatchingHead(nn.Module):
    """Layers of texts with cross-attention to the image, and a linear layer on token 0.

    Parameters: `input` (text tokens to the layers' width), `layers_0`, `layers_1`, ..., `output`.
    """

    config: MatchingHeadConfig

    def setup(self) -> None:
        """Makes the layers."""
        config, dtype = self.config, DTYPES[self.config.dtype]
        init = nn.initializers.truncated_normal(0.02)
        self.input = nn.Dense(config.width, kernel_init=init, dtype=dtype)
        self.layers = [
            FusionLayer(config.width, config.heads, config.mlp_dim, config.dropout, dtype)
            for _ in range(config.depth)
        ]
        self.output = nn.Dense(2, kernel_init=init, dtype=jnp.float32)

    def image(self, features: Features, mode: Mode) -> dict[str, Any]:
        """Tokens [N, R, any width] -> keys and values of every layer, and `mask` [N, R]."""
        del mode
        # Selected, not multiplied: a padding token may be NaN.
        tokens = jnp.where(features.full_mask()[..., None], features.tokens, 0)
        return {
            "mask": features.full_mask(),
            "memory": [layer.keys_values(tokens) for layer in self.layers],
        }

    def text(self, features: Features, mode: Mode) -> dict[str, jax.Array]:
        """Tokens [N, T, any width] -> tokens after the first self-attention, and `mask`."""
        mask = features.full_mask()
        x = self.input(jnp.where(mask[..., None], features.tokens, 0))
        return {"mask": mask, "tokens": self.layers[0].read_text(x, mask, mode)}

    def __call__(
        self, images: dict[str, Any], texts: dict[str, jax.Array], mode: Mode
    ) -> jax.Array:
        """Prepared images [I, ...] and texts [I, J, ...] -> float32 logits [I, J, 2]."""
        x, mask = texts["tokens"], texts["mask"]
        flat = (-1, *x.shape[2:])
        for number, (layer, memory) in enumerate(zip(self.layers, images["memory"], strict=True)):
            if number:
                read = layer.read_text(x.reshape(flat), mask.reshape(flat[:2]), mode)
                x = read.reshape(x.shape)
            if number == len(self.layers) - 1:
                x = x[:, :, :1]  # Nothing reads the other tokens.
            x = layer.read_image(x, memory, images["mask"], mode)
        return self.output(x[:, :, 0].astype(jnp.float32))

    def pair_bytes(self, image_tokens: int, text_tokens: int) -> int:
        """Returns the bytes of a layer's float32 values of one pair."""
        config = self.config
        per_token = 6 * config.width + config.mlp_dim + config.heads * (text_tokens + image_tokens)
        return 4 * text_tokens * per_token


def make_matching_head(config: MatchingHeadConfig) -> PairScorer:
    """Returns a matching head."""
    return PairScorer("matching_head", config.score, MatchingHead(config))

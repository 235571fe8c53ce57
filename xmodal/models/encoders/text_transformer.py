"""The text transformers of CLIP and SigLIP, with pre-norm layers.

Radford et al., "Learning Transferable Visual Models From Natural Language Supervision" (2021), and
openai/CLIP: causal, so that padding changes no earlier token. Zhai et al., "Sigmoid Loss for
Language Image Pre-Training" (2023), and google-research/big_vision: every token reads all others,
padding too if `config.data.text.attend_to_padding` is set, as SigLIP needs.
"""

import dataclasses
from collections.abc import Mapping

import flax.linen as nn
import jax

from xmodal.core.config import setting
from xmodal.models.attention import choose_attention
from xmodal.models.basics import DTYPES, Devices, Mode
from xmodal.models.encoders.encoder import Encoder, check_length, read_ids
from xmodal.models.encoders.position_resize import POSITION_RESIZES
from xmodal.models.encoders.word_embedding import look_up
from xmodal.models.features import Features
from xmodal.models.transformer_layers import ACTIVATIONS, StackConfig, layer_norm

INITS = ("clip", "siglip")
"""Codes whose initial values a text transformer may have."""


@dataclasses.dataclass(frozen=True)
class TextTransformerConfig(StackConfig):
    """Settings of a text transformer; the defaults are those of CLIP ViT-B. See `StackConfig`.

    Attributes:
      vocab_size: entries of the tokenizer's vocabulary.
      max_positions: longest text.
      causal: whether a token attends only to itself and those before it; otherwise to all that are
        not padding.
      activation: a key of `transformer_layers.ACTIVATIONS`.
      epsilon: epsilon of the layer norms.
      init: code whose initial values it has: "clip" (openai/CLIP) or "siglip"
        (google-research/big_vision).
      position_resize: how positions are resampled when weights with another `max_positions` are
        loaded, a key of `position_resize.POSITION_RESIZES`.
    """

    vocab_size: int = setting(49408, at_least=1)
    width: int = setting(512, at_least=1)
    heads: int = setting(8, at_least=1)
    mlp_dim: int = setting(2048, at_least=1)
    max_positions: int = setting(77, at_least=1)
    causal: bool = True
    activation: str = setting("quick_gelu", one_of=ACTIVATIONS)
    epsilon: float = setting(1e-5, above=0)
    init: str = setting("clip", one_of=INITS)
    position_resize: str = setting("linear", one_of=POSITION_RESIZES)


class TextTransformer(Encoder):
    """Token ids to the normalized output of the last pre-norm layer.

    Parameters: `word_embeddings` [V, W], `position_embeddings` [T, W], `layers`, stacked along a
    first axis, and `norm`.
    """

    config: TextTransformerConfig

    @nn.compact
    def __call__(self, inputs: Mapping[str, jax.Array], mode: Mode) -> Features:
        """`text_ids` and `text_mask`, int [N, T] -> one token per id."""
        config, dtype = self.config, DTYPES[self.config.dtype]
        ids, mask = read_ids(inputs)
        check_length(ids, config.max_positions)
        width, normal = config.width, nn.initializers.normal
        spread = (0.02, 0.01) if config.init == "clip" else (width**-0.5, width**-0.5)
        words = self.param("word_embeddings", normal(spread[0]), (config.vocab_size, width))
        positions = self.param(
            "position_embeddings", normal(spread[1]), (config.max_positions, width)
        )
        x = look_up(words, ids, dtype) + positions[: ids.shape[1]].astype(dtype)
        dropout = config.dropout if mode.drops else 0.0
        x = config.run_layers(
            nn.Dropout(dropout, deterministic=False)(x), None if config.causal else mask, dropout,
            norm_first=True, activation=config.activation, epsilon=config.epsilon,
            causal=config.causal, init=config.init,
        )  # fmt: skip
        return Features(layer_norm(config.epsilon, dtype, "norm")(x), mask)


def make_text_transformer(config: TextTransformerConfig, devices: Devices) -> TextTransformer:
    """Returns a text transformer for token ids."""
    return TextTransformer(choose_attention("config.model.text.encoder", config, devices.platform))

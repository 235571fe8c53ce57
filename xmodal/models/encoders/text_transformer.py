"""The text transformers of CLIP and SigLIP, with pre-norm layers.

Radford et al., "Learning Transferable Visual Models From Natural Language Supervision" (2021), and
openai/CLIP: causal, so that padding changes no earlier token. Zhai et al., "Sigmoid Loss for
Language Image Pre-Training" (2023), and google-research/big_vision: every token reads all others,
padding too if `config.data.text.reads_pads` is set, as SigLIP needs.
"""

import dataclasses
from collections.abc import Callable, Mapping

import flax.linen as nn
import jax

from xmodal.base.config import UserError, setting
from xmodal.models.devices import Devices
from xmodal.models.dtypes import DTYPES
from xmodal.models.encoders.encoder import Encoder
from xmodal.models.encoders.position_resize import POSITION_RESIZES
from xmodal.models.encoders.text_inputs import read_ids
from xmodal.models.encoders.word_embedding import look_up
from xmodal.models.features import Features
from xmodal.models.fused_attention import ATTENTIONS, EINSUM, choose
from xmodal.models.mode import Mode
from xmodal.models.transformer_layers import (
    ACTIVATIONS,
    REMAT_POLICIES,
    STORE_NOTHING,
    LayerSpec,
    layer_norm,
    run_layers,
)

INITS = ("clip", "siglip")
"""Codes whose initial values a text transformer may have."""


@dataclasses.dataclass(frozen=True)
class TextTransformerConfig:
    """Settings of a text transformer; the defaults are those of CLIP ViT-B.

    Attributes:
      vocab_size: entries of the tokenizer's vocabulary.
      width: width of the layers.
      depth: number of layers.
      heads: attention heads.
      mlp_dim: hidden width of the feed-forward layers.
      max_positions: longest text.
      causal: whether a token attends only to itself and those before it; otherwise to all that are
        not padding.
      dropout: dropout rate of the embeddings, attention weights and layer outputs.
      activation: a key of `transformer_layers.ACTIVATIONS`.
      epsilon: epsilon of the layer norms.
      init: code whose initial values it has: "clip" (openai/CLIP) or "siglip"
        (google-research/big_vision).
      position_resize: how positions are resampled when weights with another `max_positions` are
        loaded, a key of `position_resize.POSITION_RESIZES`.
      dtype: compute dtype; parameters are float32.
      remat: recompute every layer in the backward pass instead of storing its values.
      remat_policy: see `transformer_layers.run_layers`.
      unroll: see `transformer_layers.run_layers`.
      attention: "einsum", or "cudnn" for its fused kernel on NVIDIA GPUs, which steps with dropout
        do not use; see `fused_attention`.
    """

    vocab_size: int = setting(49408, at_least=1)
    width: int = setting(512, at_least=1)
    depth: int = setting(12, at_least=1)
    heads: int = setting(8, at_least=1)
    mlp_dim: int = setting(2048, at_least=1)
    max_positions: int = setting(77, at_least=1)
    causal: bool = True
    dropout: float = setting(0.0, at_least=0, below=1)
    activation: str = setting("quick_gelu", one_of=ACTIVATIONS)
    epsilon: float = setting(1e-5, above=0)
    init: str = setting("clip", one_of=INITS)
    position_resize: str = setting("linear", one_of=POSITION_RESIZES)
    dtype: str = setting("float32", one_of=DTYPES)
    remat: bool = False
    remat_policy: str = setting(STORE_NOTHING, one_of=REMAT_POLICIES)
    unroll: bool = False
    attention: str = setting(EINSUM, one_of=ATTENTIONS)


class TextTransformer(Encoder):
    """Token ids to the normalized output of the last pre-norm layer.

    Parameters: `word_embeddings` [V, W], `position_embeddings` [T, W], `layers`, stacked along a
    first axis, and `norm`.
    """

    config: TextTransformerConfig

    @nn.compact
    def __call__(self, inputs: Mapping[str, jax.Array], mode: Mode) -> Features:
        """`text_ids` and `text_mask`, int [N, T] -> one token per id.

        Raises:
          UserError: T is more than `max_positions`.
        """
        config, dtype = self.config, DTYPES[self.config.dtype]
        ids, mask = read_ids(inputs)
        self._check_length(ids.shape[1])
        of_words, of_positions = _table_initializers(config)
        words = self.param("word_embeddings", of_words, (config.vocab_size, config.width))
        positions = self.param(
            "position_embeddings", of_positions, (config.max_positions, config.width)
        )
        x = look_up(words, ids, dtype) + positions[: ids.shape[1]].astype(dtype)
        dropout = config.dropout if mode.drops else 0.0
        spec = LayerSpec(
            config.heads, config.mlp_dim, norm_first=True, activation=config.activation,
            epsilon=config.epsilon, causal=config.causal, dtype=dtype, init=config.init,
            attention=config.attention,
        )  # fmt: skip
        x = run_layers(
            spec, nn.Dropout(dropout, deterministic=False)(x), None if config.causal else mask,
            depth=config.depth, dropout=dropout, name="layers", remat=config.remat,
            remat_policy=config.remat_policy, unroll=config.unroll,
        )  # fmt: skip
        return Features(layer_norm(config.epsilon, dtype, "norm")(x), mask)

    def _check_length(self, length: int) -> None:
        if length > self.config.max_positions:
            raise UserError(
                f"Texts have {length} tokens, but the text transformer has max_positions="
                f"{self.config.max_positions}: lower config.data.text.max_length, or raise "
                "config.model.text.encoder.max_positions."
            )


def _table_initializers(config: TextTransformerConfig) -> tuple[Callable, Callable]:
    """The initializers of word and position embeddings."""
    normal = nn.initializers.normal
    if config.init == "clip":
        return normal(0.02), normal(0.01)
    return normal(config.width**-0.5), normal(config.width**-0.5)


def make_text_transformer(config: TextTransformerConfig, devices: Devices) -> TextTransformer:
    """Returns a text transformer for token ids.

    Raises:
      UserError: see `fused_attention.choose`.
    """
    attention = choose("config.model.text.encoder", config, devices.platform)
    return TextTransformer(dataclasses.replace(config, attention=attention))

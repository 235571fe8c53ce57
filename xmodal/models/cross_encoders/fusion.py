"""Texts that attend to an image, layer by layer: BLIP's cross-encoder and a small matching head.

Li et al., "BLIP: Bootstrapping Language-Image Pre-training for Unified Vision-Language
Understanding and Generation" (2022), and salesforce/BLIP, models/blip_retrieval.py. A layer is a
post-norm layer of BERT with a cross-attention block between self-attention and MLP.
"cross_attention" is BLIP's image-grounded text encoder: the text tower's BERT, with cross-attention
to the image. "matching_head" has its own layers, of any size, and continues with the text encoder's
last tokens.
"""

import dataclasses
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from xmodal.core.config import setting
from xmodal.core.errors import UserError
from xmodal.models.attention import attend, project_heads, split_heads
from xmodal.models.basics import DTYPES, Mode
from xmodal.models.cross_encoders.cross_encoder import SCORES, CrossEncoder
from xmodal.models.encoders.bert import EPSILON, Bert
from xmodal.models.features import Features
from xmodal.models.initializers import BERT, LAYER_INITS, LayerInit
from xmodal.models.transformer_layers import layer_norm


@dataclasses.dataclass(frozen=True)
class FusionSizes:
    """Sizes of the layers.

    Attributes:
      width: width of the layers; a multiple of `heads`.
      depth: number of layers.
      heads: attention heads of a layer.
      mlp_dim: hidden width of the MLPs.
      dropout: dropout rate of attention weights and of the output of every block.
      dtype: compute dtype; parameters are float32.
      layer_init: initial values of the layers, a key of `LAYER_INITS`, see `BertConfig`.
    """

    width: int = setting(768, at_least=1)
    depth: int = setting(12, at_least=1)
    heads: int = setting(12, at_least=1)
    mlp_dim: int = setting(3072, at_least=1)
    dropout: float = setting(0.1, at_least=0, below=1)
    dtype: str = setting("float32", one_of=DTYPES)
    layer_init: str = setting("bert", one_of=LAYER_INITS)

    @property
    def initial(self) -> LayerInit:
        """Initializers of a layer."""
        return LAYER_INITS[self.layer_init](self.width, self.mlp_dim, self.depth)

    def dense(self, width: int, **options: Any) -> nn.Dense:
        """Returns a linear layer."""
        return nn.Dense(width, dtype=DTYPES[self.dtype], **options)


KeysValues = tuple[jax.Array, jax.Array]
"""Keys and values [N, R, H, D] of the tokens of images."""


class _Residual(nn.Module):
    """Adds dropped-out changes and normalizes, as BERT does."""

    sizes: FusionSizes

    @nn.compact
    def __call__(self, x: jax.Array, change: jax.Array, mode: Mode) -> jax.Array:
        x = x + nn.Dropout(self.sizes.dropout, deterministic=not mode.drops)(change)
        norm = layer_norm(1e-12, DTYPES[self.sizes.dtype], "norm")
        return norm(x)


class SelfAttention(nn.Module):
    """The self-attention block of texts."""

    sizes: FusionSizes

    @nn.compact
    def __call__(
        self, x: jax.Array, mask: jax.Array, mode: Mode, queries: int | None = None
    ) -> jax.Array:
        """X [N, T, W], bool mask [N, T] -> the first `queries` tokens, or all: [N, queries, W]."""
        sizes, first = self.sizes, x[:, :queries]
        initial, dense = sizes.initial, partial(sizes.dense, x.shape[-1])
        project = partial(dense, kernel_init=initial.attention_input)
        query, key, value = project_heads(project, sizes.heads, first, x, x)
        drop = nn.Dropout(sizes.dropout, deterministic=False) if mode.drops else None
        attended = attend(query, key, value, mask, drop)
        change = dense(kernel_init=initial.attention_output, name="output")(attended)
        return _Residual(sizes, name="residual")(first, change, mode)


class CrossAttention(nn.Module):
    """The block in which texts attend to images; `keys_values` depends on the images alone."""

    sizes: FusionSizes

    def setup(self) -> None:
        """Makes the linear layers."""
        sizes, initial = self.sizes, self.sizes.initial
        self.query, self.key, self.value = (
            sizes.dense(sizes.width, kernel_init=initial.attention_input) for _ in range(3)
        )
        self.output = sizes.dense(sizes.width, kernel_init=initial.attention_output)
        self.residual = _Residual(sizes)
        self.drop = nn.Dropout(sizes.dropout)

    def keys_values(self, tokens: jax.Array) -> KeysValues:
        """Image tokens [N, R, any width] -> their keys and values."""
        heads = self.sizes.heads
        return split_heads(self.key(tokens), heads), split_heads(self.value(tokens), heads)

    def __call__(self, x: jax.Array, memory: KeysValues, mask: jax.Array, mode: Mode) -> jax.Array:
        """X [I, J, T, W], keys and values of I images, and their mask [I, R] -> [I, J, T, W]."""
        # The texts of an image are one sequence of queries: no keys or values are copied.
        query = self.query(x).reshape(len(x), -1, self.sizes.width)
        query = split_heads(query, self.sizes.heads)
        drop = partial(self.drop, deterministic=False) if mode.drops else None
        attended = attend(query, *memory, mask, drop).reshape(x.shape)
        return self.residual(x, self.output(attended), mode)


class Mlp(nn.Module):
    """The MLP block, with the exact (erf) GELU."""

    sizes: FusionSizes

    @nn.compact
    def __call__(self, x: jax.Array, mode: Mode) -> jax.Array:
        """[..., W] -> [..., W]."""
        sizes, initial = self.sizes, self.sizes.initial
        hidden = sizes.dense(
            sizes.mlp_dim, kernel_init=initial.mlp_hidden, bias_init=initial.mlp_hidden_bias,
            name="hidden",
        )(x)  # fmt: skip
        change = sizes.dense(
            x.shape[-1], kernel_init=initial.mlp_output, bias_init=initial.mlp_output_bias,
            name="output",
        )(jax.nn.gelu(hidden, approximate=False))  # fmt: skip
        return _Residual(sizes, name="residual")(x, change, mode)


class FusionLayer(nn.Module):
    """Parameters: `self_attention`, `cross_attention`, `mlp`."""

    sizes: FusionSizes

    def setup(self) -> None:
        """Makes the three blocks."""
        self.self_attention = SelfAttention(self.sizes)
        self.cross_attention = CrossAttention(self.sizes)
        self.mlp = Mlp(self.sizes)


class FusionEncoder(nn.Module):
    """A stack of layers with cross-attention, and a linear layer on token 0.

    Parameters: `layers_0`, `layers_1`, ..., `output`. Subclasses add `text`.
    """

    sizes: FusionSizes

    def setup(self) -> None:
        """Makes the layers."""
        self.layers = [FusionLayer(self.sizes) for _ in range(self.sizes.depth)]
        self.output = nn.Dense(2, kernel_init=BERT, dtype=jnp.float32)

    def image(self, features: Features, mode: Mode) -> dict[str, Any]:
        """Tokens [N, R, any width] -> keys and values of every layer, and `mask` [N, R]."""
        tokens = features.real_tokens()
        return {
            "mask": features.full_mask(),
            "memory": [layer.cross_attention.keys_values(tokens) for layer in self.layers],
        }

    def read_text(self, x: jax.Array, mask: jax.Array, mode: Mode) -> dict[str, jax.Array]:
        """Embedded tokens [N, T, W] -> those after the first self-attention, and `mask`."""
        return {"mask": mask, "tokens": self.layers[0].self_attention(x, mask, mode)}

    def __call__(
        self, images: dict[str, Any], texts: dict[str, jax.Array], mode: Mode
    ) -> jax.Array:
        """Prepared images [I, ...] and texts [I, J, ...] -> float32 logits [I, J, 2]."""
        x, mask = texts["tokens"], texts["mask"]
        flat = (-1, *x.shape[2:])
        for number, (layer, memory) in enumerate(zip(self.layers, images["memory"], strict=True)):
            # Nothing reads the other tokens of the last layer.
            queries = 1 if number == len(self.layers) - 1 else None
            if number:
                rows = x.reshape(flat), mask.reshape(flat[:2])
                read = layer.self_attention(*rows, mode, queries)
                x = read.reshape(*x.shape[:2], -1, flat[-1])
            x = layer.cross_attention(x[:, :, :queries], memory, images["mask"], mode)
            x = layer.mlp(x, mode)
        return self.output(x[:, :, 0].astype(jnp.float32))

    def pair_bytes(self, image_tokens: int, text_tokens: int) -> int:
        """Returns the bytes of a layer's float32 values of one pair."""
        sizes = self.sizes
        per_token = 6 * sizes.width + sizes.mlp_dim + sizes.heads * (text_tokens + image_tokens)
        return 4 * text_tokens * per_token


@dataclasses.dataclass(frozen=True)
class MatchingHeadConfig(FusionSizes):
    """Settings of the cross-encoder "matching_head". See `FusionSizes`.

    Attributes:
      score: what ranks pairs: "log_odds", the logit of "match" minus that of "no match", which
        orders pairs as their probability does, without its ties near 1; or "logit", that of
        "match" alone, as in BLIP, which adds the cosine of the towers, see `PairReranker`.
    """

    score: str = setting("log_odds", one_of=SCORES)


class MatchingHead(FusionEncoder):
    """Parameters: those of `FusionEncoder`, and `input`, text tokens to the layers' width."""

    def setup(self) -> None:
        """Makes the layers."""
        super().setup()
        dtype = DTYPES[self.sizes.dtype]
        self.input = nn.Dense(self.sizes.width, kernel_init=BERT, dtype=dtype)

    def text(self, features: Features, mode: Mode) -> dict[str, jax.Array]:
        """Tokens [N, T, any width] -> tokens after the first self-attention, and `mask`."""
        mask = features.full_mask()
        x = self.input(features.real_tokens())
        return self.read_text(x, mask, mode)


def make_matching_head(config: MatchingHeadConfig, text_encoder: nn.Module) -> CrossEncoder:
    """Returns a matching head."""
    return CrossEncoder("matching_head", config.score, MatchingHead(config))


# Names of the parts of BERT's layers: ours in a block of `FusionLayer` -> the encoder's.
_PARTS = {
    "self_attention/query": "query",
    "self_attention/key": "key",
    "self_attention/value": "value",
    "self_attention/output": "attention_output",
    "self_attention/residual/norm": "attention_norm",
    "mlp/hidden": "mlp_hidden",
    "mlp/output": "mlp_output",
    "mlp/residual/norm": "mlp_norm",
}


@dataclasses.dataclass(frozen=True)
class CrossAttentionConfig:
    """Settings of the cross-encoder "cross_attention"; sizes are those of the text encoder.

    Attributes:
      score: see `MatchingHeadConfig`.
    """

    score: str = setting("log_odds", one_of=SCORES)


class GroundedText(FusionEncoder):
    """Reads ids of texts, whose first token, `[CLS]`, is replaced by the learned `[ENC]`.

    Parameters of its own: `marker` [W], which is the word embedding of `[ENC]`, the blocks
    `cross_attention` of the layers, and `output`. All others are those of the text encoder.
    """

    vocab_size: int
    positions: int
    types: int

    def setup(self) -> None:
        """Makes the embeddings and the layers."""
        super().setup()
        width = self.sizes.width
        self.word_embeddings = self.param("word_embeddings", BERT, (self.vocab_size, width))
        self.position_embeddings = self.param("position_embeddings", BERT, (self.positions, width))
        if self.types:
            self.token_type_embeddings = self.param(
                "token_type_embeddings", BERT, (self.types, width)
            )
        self.marker = self.param("marker", BERT, (width,))
        self.embeddings_norm = layer_norm(EPSILON, DTYPES[self.sizes.dtype], "embeddings_norm")
        self.drop = nn.Dropout(self.sizes.dropout)

    def text(self, features: Features, mode: Mode) -> dict[str, jax.Array]:
        """Ids as tokens int [N, T, 1] -> tokens after the first self-attention, and `mask`."""
        words = self.word_embeddings[features.tokens[..., 0]].at[:, 0].set(self.marker)
        x = words + self.position_embeddings[: words.shape[1]]
        if self.types:
            x = x + self.token_type_embeddings[0]
        x = self.drop(self.embeddings_norm(x), deterministic=not mode.drops)
        return self.read_text(x, features.full_mask(), mode)


def make_cross_attention(config: CrossAttentionConfig, text_encoder: nn.Module) -> CrossEncoder:
    """Returns BLIP's cross-encoder."""
    if not isinstance(text_encoder, Bert):
        raise UserError(
            "config.model.cross_encoder 'cross_attention' shares the layers of a BERT, and "
            f"config.model.text.encoder is a {type(text_encoder).__name__}; use 'bert' there, or "
            "the cross-encoder 'matching_head'."
        )
    bert = text_encoder.config
    sizes = FusionSizes(
        bert.width, bert.depth, bert.heads, bert.mlp_dim, bert.dropout, bert.dtype, bert.layer_init
    )
    module = GroundedText(sizes, bert.vocab_size, bert.max_positions, bert.types)
    return CrossEncoder(
        "cross_attention", config.score, module, reads_ids=True, shared=_take_from_bert
    )


def _take_from_bert(bert: dict[str, Any]) -> dict[str, Any]:
    """Returns the parameters of a text encoder by the paths of `GroundedText`."""
    stacks = [bert[name] for name in ("lower_layers", "layers") if name in bert]
    found = {name: array for name, array in bert.items() if not name.endswith("layers")}
    norm = found.pop("embeddings_norm")
    found |= {f"embeddings_norm/{leaf}": array for leaf, array in norm.items()}
    number = 0
    for stack in stacks:
        for row in range(len(stack["query"]["bias"])):
            for ours, theirs in _PARTS.items():
                for leaf, array in stack[theirs].items():
                    found[f"layers_{number}/{ours}/{leaf}"] = array[row]
            number += 1
    return found

"""One transformer over the words of a text, the tags of an image and the tokens of the image.

Kim et al., "ViLT: Vision-and-Language Transformer Without Convolution or Region Supervision"
(2021), and dandelin/ViLT, vilt/modules/vilt_module.py; Li et al., "Oscar: Object-Semantics Aligned
Pre-training for Vision-Language Tasks" (2020), and microsoft/Oscar, oscar/run_retrieval.py.
"""

import dataclasses
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from xmodal.core.config import setting
from xmodal.core.errors import UserError
from xmodal.models.attention import attend, project_heads
from xmodal.models.basics import DTYPES, Mode
from xmodal.models.cross_encoders.cross_encoder import SCORES, CrossEncoder
from xmodal.models.encoders.bert import EPSILON
from xmodal.models.encoders.word_embedding import TokenIds, look_up
from xmodal.models.features import Features, take_last
from xmodal.models.initializers import BERT
from xmodal.models.transformer_layers import LayerSpec, TransformerLayer, layer_norm

_dense = partial(nn.Dense, kernel_init=BERT)


@dataclasses.dataclass(frozen=True)
class SingleStreamConfig:
    """Settings of the cross-encoder "single_stream"; the defaults are ViLT-B.

    Attributes:
      width: width of the layers and of the tokens of an image.
      depth: number of layers.
      heads: attention heads of a layer.
      mlp_dim: hidden width of the MLPs.
      positions: rows of the table of positions.
      length: most tokens of a text and of the tags after it; 0 for `positions`.
      types: rows of the table of BERT's token types: texts have the first, tags the second.
      modalities: whether a vector for texts, and another for images, is added to all tokens.
      norm_first: ViLT's pre-norm layers, with a norm after the last; False for BERT's post-norm.
      epsilon: epsilon of the layer norms but that of the words.
      dropout: dropout rate of the words and of the output of attention; also twice in the MLP if
        `norm_first`, otherwise as in BERT.
      pooled_dropout: dropout rate of the input of the last linear layer.
      classes: 2 logits, of "no match" and "match"; or 1, a score trained by "pair_softmax".
      score: see `MatchingHeadConfig`; only "logit" with one class.
      dtype: compute dtype; parameters are float32.
    """

    width: int = setting(768, at_least=1)
    depth: int = setting(12, at_least=1)
    heads: int = setting(12, at_least=1)
    mlp_dim: int = setting(3072, at_least=1)
    positions: int = setting(40, at_least=1)
    length: int = setting(0, at_least=0)
    types: int = setting(2, at_least=1)
    modalities: bool = True
    norm_first: bool = True
    epsilon: float = setting(1e-6, above=0)
    dropout: float = setting(0.1, at_least=0, below=1)
    pooled_dropout: float = setting(0.0, at_least=0, below=1)
    classes: int = setting(1, at_least=1, at_most=2)
    score: str = setting("logit", one_of=SCORES)
    dtype: str = setting("float32", one_of=DTYPES)

    @property
    def most_words(self) -> int:
        """Most tokens of a text and of the tags after it."""
        return self.length or self.positions


class StreamLayer(nn.Module):
    """A pre-norm layer, without dropout of attention weights and with dropout inside the MLP."""

    config: SingleStreamConfig

    @nn.compact
    def __call__(self, x: jax.Array, mask: jax.Array, mode: Mode, queries: int) -> jax.Array:
        """X [N, T, W] and bool mask [N, T] -> the first `queries` tokens [N, queries, W]."""
        config = self.config
        dtype: DTypeLike = DTYPES[config.dtype]
        drop = nn.Dropout(config.dropout, deterministic=not mode.drops)
        normed = layer_norm(config.epsilon, dtype, "attention_norm")(x)
        first = normed[:, :queries]
        dense = partial(_dense, config.width, dtype=dtype)
        query, key, value = project_heads(dense, config.heads, first, normed, normed)
        x = x[:, :queries] + drop(dense(name="attention_output")(attend(query, key, value, mask)))
        normed = layer_norm(config.epsilon, dtype, "mlp_norm")(x)
        hidden = _dense(config.mlp_dim, dtype=dtype, name="mlp_hidden")(normed)
        return x + drop(dense(name="mlp_output")(drop(jax.nn.gelu(hidden, approximate=False))))


class PostNormLayer(nn.Module):
    """A layer of BERT, with dropout of attention weights. Parameters: those of `layer`."""

    config: SingleStreamConfig

    @nn.compact
    def __call__(self, x: jax.Array, mask: jax.Array, mode: Mode, queries: int) -> jax.Array:
        """See `StreamLayer`."""
        config = self.config
        spec = LayerSpec(
            config.heads, config.mlp_dim, norm_first=False, activation="gelu",
            epsilon=config.epsilon, causal=False, dtype=DTYPES[config.dtype],
        )  # fmt: skip
        dropout = config.dropout if mode.drops else 0.0
        layer = TransformerLayer(spec, dropout, config.depth, name="layer")
        return layer(x, mask, queries)[0]


class SingleStream(nn.Module):
    """Reads ids of texts and tokens of images, and scores with the first word, `[CLS]`.

    The tags of an image, if it has any, follow the text as words of the second type. Their
    positions continue those of the text, and their number is cut to what the text leaves of
    `most_words`; the last one kept is then `[SEP]`. (Oscar cuts the tags behind a text of 68 or
    more tokens differently, by a negative number; here, such a text has none.)

    Parameters: `word_embeddings`, `position_embeddings`, `token_type_embeddings`,
    `embeddings_norm`, `layers_0`, ..., `pooler` and `output`; with `modalities`,
    `modality_embeddings` [2, W] of text and image; with `norm_first`, `norm`.
    """

    config: SingleStreamConfig
    vocab_size: int

    def setup(self) -> None:
        """Makes the embeddings and the layers."""
        config, dtype = self.config, DTYPES[self.config.dtype]

        def table(name: str, rows: int) -> jax.Array:
            return self.param(name, BERT, (rows, config.width))

        self.word_embeddings = table("word_embeddings", self.vocab_size)
        self.position_embeddings = table("position_embeddings", config.positions)
        self.token_type_embeddings = table("token_type_embeddings", config.types)
        if config.modalities:
            self.modality_embeddings = table("modality_embeddings", 2)
        self.embeddings_norm = layer_norm(EPSILON, dtype, "embeddings_norm")
        layer = StreamLayer if config.norm_first else PostNormLayer
        self.layers = [layer(config) for _ in range(config.depth)]
        if config.norm_first:
            self.norm = layer_norm(config.epsilon, dtype, "norm")
        self.pooler = _dense(config.width, dtype=dtype)
        self.output = _dense(config.classes, dtype=jnp.float32)
        self.drop = nn.Dropout(config.dropout)
        self.drop_pooled = nn.Dropout(config.pooled_dropout)

    def image(self, features: Features, mode: Mode) -> dict[str, jax.Array]:
        """Tokens [N, R, W] -> the same with the modality added, and `mask` [N, R].

        If there are tags, also `tags` [N, G, W], words without positions, their number
        `tag_count` int [N], and the last of them, `last_tag` [N, W].
        """
        mask = features.full_mask()
        x = features.real_tokens()
        x = x + self.modality_embeddings[1] if self.config.modalities else x
        found = {"mask": mask, "tokens": x.astype(DTYPES[self.config.dtype])}
        if "tags" not in features.extras:
            return found
        ids = features.extras["tags"]
        count = jnp.sum(ids >= 0, axis=1)
        tags = look_up(self.word_embeddings, jnp.maximum(ids, 0), jnp.float32)
        tags = tags + self.token_type_embeddings[1]
        last = take_last(tags, jnp.maximum(count, 1))
        return found | {"tags": tags, "tag_count": count, "last_tag": last}

    def text(self, features: Features, mode: Mode) -> dict[str, jax.Array]:
        """Ids as tokens int [N, T, 1] -> embedded words [N, T, W], and `mask` [N, T]."""
        length, most = features.tokens.shape[1], self.config.most_words
        if length > most:
            raise UserError(
                f"Texts have up to {length} tokens, and config.model.cross_encoder reads {most}, "
                "its length or positions; make config.data.text.max_length at most that number."
            )
        x = look_up(self.word_embeddings, features.tokens[..., 0], jnp.float32)
        x = x + self.position_embeddings[:length] + self.token_type_embeddings[0]
        return {"mask": features.full_mask(), "tokens": self._finish(x, mode)}

    def _finish(self, x: jax.Array, mode: Mode) -> jax.Array:
        """Normalizes the sums of the embeddings of words."""
        x = self.drop(self.embeddings_norm(x), deterministic=not mode.drops)
        return x + self.modality_embeddings[0] if self.config.modalities else x

    def _add_tags(
        self, texts: dict[str, jax.Array], images: dict[str, jax.Array], mode: Mode
    ) -> dict[str, jax.Array]:
        """Texts [I, J, T, W] and `mask`, followed by the tags of their image."""
        tags, last = images["tags"], images["last_tag"][:, None, None]
        length = min(texts["mask"].shape[2] + tags.shape[1], self.config.most_words)
        lengths = jnp.sum(texts["mask"], axis=-1, keepdims=True)  # [I, J, 1]
        count = jnp.minimum(images["tag_count"][:, None, None], length - lengths)
        place = jnp.arange(length) - lengths  # The place of a tag, [I, J, length].
        at = jnp.clip(place, 0, tags.shape[1] - 1).reshape(len(tags), -1, 1)
        x = jnp.take_along_axis(tags, at, axis=1).reshape(*place.shape, -1)
        x = jnp.where((place == count - 1)[..., None], last, x)
        x = self._finish(x + self.position_embeddings[:length], mode)
        added = length - texts["mask"].shape[2]
        own = jnp.pad(texts["tokens"], [(0, 0), (0, 0), (0, added), (0, 0)])
        return {"mask": place < count, "tokens": jnp.where((place < 0)[..., None], own, x)}

    def __call__(
        self, images: dict[str, jax.Array], texts: dict[str, jax.Array], mode: Mode
    ) -> jax.Array:
        """Prepared images [I, ...] and texts [I, J, ...] -> float32 logits [I, J, classes]."""
        pairs = texts["mask"].shape[:2]
        words = self._add_tags(texts, images, mode) if "tags" in images else texts

        def join(name: str) -> jax.Array:
            image, text = images[name][:, None], words[name]
            image = jnp.broadcast_to(image, (*pairs, *image.shape[2:]))
            joined = jnp.concatenate([text.astype(image.dtype), image], axis=2)
            return joined.reshape(-1, *joined.shape[2:])

        x, mask = join("tokens"), join("mask")
        *layers, last = self.layers
        for layer in layers:
            x = layer(x, mask, mode, x.shape[1])
        # Nothing reads the other tokens of the last layer.
        x = last(x, mask, mode, 1)[:, 0]
        x = jnp.tanh(self.pooler(self.norm(x) if self.config.norm_first else x))
        x = self.drop_pooled(x, deterministic=not mode.drops)
        logits = self.output(x.astype(jnp.float32))
        return logits.reshape(*pairs, self.config.classes)

    def pair_bytes(self, image_tokens: int, text_tokens: int) -> int:
        """Returns the bytes of a layer's float32 values of one pair, with all tags it may have."""
        config = self.config
        tokens = image_tokens + max(text_tokens, config.length)
        return 4 * tokens * (6 * config.width + config.mlp_dim + config.heads * tokens)


def make_single_stream(config: SingleStreamConfig, text_encoder: nn.Module) -> CrossEncoder:
    """Returns a single-stream cross-encoder."""
    where = "config.model.cross_encoder 'single_stream'"
    if not isinstance(text_encoder, TokenIds):
        raise UserError(
            f"{where} reads the ids of texts, and config.model.text.encoder is a "
            f"{type(text_encoder).__name__}; use 'token_ids' there."
        )
    if config.classes == 1 and config.score != "logit":
        raise UserError(f"{where} has classes=1, one logit, and score={config.score!r} reads two.")
    module = SingleStream(config, text_encoder.config.vocab_size)
    return CrossEncoder("single_stream", config.score, module)

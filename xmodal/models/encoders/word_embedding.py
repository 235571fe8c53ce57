"""Encoders over a table of word vectors: the vectors, recurrent layers, or convolutions.

The convolutions are those of Kim, "Convolutional Neural Networks for Sentence Classification"
(2014), up to the maximum over time, which is the head "max". The released code
(yoonkim/CNN_sentence) puts four zero vectors on both ends of a text; here a text is padded only up
to the largest window.
"""

import dataclasses
from collections.abc import Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from xmodal.core.config import setting
from xmodal.core.errors import UserError
from xmodal.models.basics import DTYPES, Mode
from xmodal.models.encoders.encoder import Encoder, read_ids
from xmodal.models.features import Features
from xmodal.models.initializers import WORDS, initialize_words, uniform
from xmodal.models.recurrent import BIASES, CELLS, Recurrent, RecurrentOutputs, mean_directions


def look_up(table: jax.Array, ids: jax.Array, dtype: DTypeLike) -> jax.Array:
    """Returns the rows [N, T, W] of a table [V, W]; NaN for ids outside the table.

    Without NaN, an id of a larger vocabulary would silently become the last word.
    """
    return jnp.take(table, ids, axis=0, mode="fill", fill_value=jnp.nan).astype(dtype)


@dataclasses.dataclass(frozen=True)
class WordTableConfig:
    """Settings of every encoder with a table of word vectors.

    Attributes:
      vocab_size: rows of the table.
      dropout: dropout rate of the word vectors' values.
      init: distribution of the initial values: "normal" or "uniform".
      init_scale: standard deviation or half the range of that distribution; None for
        1 / sqrt(width).
      dtype: compute dtype; parameters are float32.
    """

    vocab_size: int = setting(at_least=1)
    dropout: float = setting(0.0, at_least=0, below=1)
    init: str = setting("normal", one_of=WORDS)
    init_scale: float | None = setting(None, above=0)
    dtype: str = setting("float32", one_of=DTYPES)


def embed_words(
    module: nn.Module, config: WordTableConfig, width: int, ids: jax.Array, mode: Mode
) -> tuple[jax.Array, jax.Array]:
    """Returns word vectors [N, T, W], without and with dropout, inside a compact method.

    They are rows of the parameter `table` [V, W] of the calling module.
    """
    init = initialize_words(config.init, config.init_scale, width)
    table = module.param("table", init, (config.vocab_size, width))
    words = look_up(table, ids, DTYPES[config.dtype])
    return words, nn.Dropout(config.dropout, deterministic=not mode.drops)(words)


@dataclasses.dataclass(frozen=True)
class WordsConfig(WordTableConfig):
    """Settings of a table of word vectors; see `WordTableConfig` for the common ones.

    Attributes:
      width: width of the word vectors.
    """

    width: int = setting(300, at_least=1)


class Words(Encoder):
    """Token ids to the rows of a table. Parameters: `table` [V, W]."""

    config: WordsConfig

    @nn.compact
    def __call__(self, inputs: Mapping[str, jax.Array], mode: Mode) -> Features:
        """`text_ids` and `text_mask`, int [N, T] -> one token [W] per id."""
        ids, mask = read_ids(inputs)
        _, tokens = embed_words(self, self.config, self.config.width, ids, mode)
        return Features(tokens, mask)


@dataclasses.dataclass(frozen=True)
class TokenIdsConfig:
    """Settings of the encoder "token_ids".

    Attributes:
      vocab_size: number of ids; 0 for that of the vocabulary.
    """

    vocab_size: int = setting(at_least=0)


class TokenIds(Encoder):
    """The ids of texts, for a cross-encoder with word embeddings of its own. No parameters."""

    config: TokenIdsConfig

    def __call__(self, inputs: Mapping[str, jax.Array], mode: Mode) -> Features:
        """`text_ids` and `text_mask` int [N, T] -> the ids as tokens int [N, T, 1]."""
        ids, mask = read_ids(inputs)
        return Features(ids[..., None], mask)


@dataclasses.dataclass(frozen=True)
class RnnConfig(WordTableConfig):
    """Settings of a recurrent encoder; see `WordTableConfig` for the common ones.

    Attributes:
      cell: "gru" or "lstm".
      width: width of the state in one direction.
      layers: number of layers.
      bidirectional: read texts in both directions.
      directions: in a bidirectional encoder, "joined" makes tokens of 2 * width, "mean" takes the
        mean of both (VSE-infinity, SGRAF).
      embedding_width: width of the word vectors.
      dropout: also the rate between two layers.
      biases: biases of a gate, see `recurrent.Recurrent`: 2 as in torch, 1 as in TensorFlow.
    """

    cell: str = setting("gru", one_of=CELLS)
    width: int = setting(1024, at_least=1)
    layers: int = setting(1, at_least=1)
    bidirectional: bool = False
    directions: str = setting("joined", one_of=("joined", "mean"))
    embedding_width: int = setting(300, at_least=1)
    biases: int = setting(2, one_of=BIASES)

    def __post_init__(self) -> None:
        if self.directions == "mean" and not self.bidirectional:
            raise UserError(
                "config.model.text.encoder.directions is 'mean', but bidirectional is False; set "
                "it to True, or directions='joined'."
            )


class Rnn(Encoder):
    """Maps token ids through a table of word vectors and recurrent layers.

    Parameters: `table` [V, E] and `recurrent`; see `recurrent.Recurrent`.
    """

    config: RnnConfig

    @nn.compact
    def __call__(self, inputs: Mapping[str, jax.Array], mode: Mode) -> Features:
        """`text_ids` and `text_mask`, int [N, T] -> the outputs as tokens [N, T, D].

        Extras: `words` [N, T, E], the word vectors; `state` [N, D], the final states; `last`
        [N, D], the outputs at the last word.
        """
        config, dtype = self.config, DTYPES[self.config.dtype]
        ids, mask = read_ids(inputs)
        words, x = embed_words(self, config, config.embedding_width, ids, mode)
        recurrent = Recurrent(
            config.cell, config.width, config.layers, config.bidirectional, config.dropout, dtype,
            config.biases, name="recurrent",
        )  # fmt: skip
        outputs = recurrent(x, Features(x, mask).lengths(), mode.drops)
        if config.directions == "mean":
            outputs = RecurrentOutputs(*map(mean_directions, outputs))
        extras = {"words": words, "state": outputs.state, "last": outputs.last}
        return Features(outputs.tokens, mask, extras)


@dataclasses.dataclass(frozen=True)
class TextCnnConfig(WordTableConfig):
    """Settings of a convolutional text encoder; see `WordTableConfig` for the common ones.

    Attributes:
      windows: window sizes in words, with one convolution for each.
      maps: number of filters for each window.
      embedding_width: width of the word vectors.
      kernel_scale: half the range of the filters' initial values, 0.01 in Kim's code; None for
        those of Flax (LeCun).
    """

    windows: tuple[int, ...] = setting((3, 4, 5), at_least=1)
    maps: int = setting(100, at_least=1)
    embedding_width: int = setting(300, at_least=1)
    kernel_scale: float | None = setting(None, above=0)


class TextCnn(Encoder):
    """Token ids through a table of word vectors and one convolution per window.

    Parameters: `table` [V, E] and `window3/kernel` [3, E, maps], `window3/bias`, ...
    """

    config: TextCnnConfig

    @nn.compact
    def __call__(self, inputs: Mapping[str, jax.Array], mode: Mode) -> Features:
        """`text_ids` and `text_mask`, int [N, T] -> one token [windows * maps] per word.

        Token t joins the rectified filters over the words from t on, one window after the other.
        It is 0, the smallest value, where a window extends beyond the end of a text; in a text
        shorter than the largest window, the window continues over zero vectors.

        Extras: `words` [N, T, E], the word vectors.
        """
        config, dtype = self.config, DTYPES[self.config.dtype]
        ids, mask = read_ids(inputs)
        words, x = embed_words(self, config, config.embedding_width, ids, mode)
        largest, length = max(config.windows), ids.shape[1]
        x = jnp.pad(Features(x, mask).real_tokens(), ((0, 0), (0, largest - 1), (0, 0)))
        ends = jnp.maximum(jnp.sum(mask, axis=1, keepdims=True), largest)
        places = jnp.arange(length)
        init = nn.initializers.lecun_normal()
        if config.kernel_scale is not None:
            init = uniform(config.kernel_scale)
        tokens = []
        for window in config.windows:
            convolution = nn.Conv(
                config.maps, (window,), padding="VALID", kernel_init=init, dtype=dtype,
                name=f"window{window}",
            )  # fmt: skip
            filters = convolution(x)[:, :length]
            inside = mask & (places + window <= ends)
            tokens.append(jnp.where(inside[..., None], nn.relu(filters), 0))
        return Features(jnp.concatenate(tokens, axis=-1), mask, {"words": words})

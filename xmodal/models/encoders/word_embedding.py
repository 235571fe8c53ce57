"""Word vectors: the encoder of the bag-of-words baseline, fixed or trained."""

import dataclasses
from collections.abc import Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from xmodal.base.config import setting
from xmodal.models.dtypes import DTYPES
from xmodal.models.encoders.encoder import Encoder
from xmodal.models.encoders.text_inputs import read_ids
from xmodal.models.features import Features
from xmodal.models.initializers import WORDS, initialize_words
from xmodal.models.mode import Mode


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

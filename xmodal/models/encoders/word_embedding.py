"""Word vectors: the encoder of the bag-of-words baseline, fixed or trained."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from xmodal.base.config import setting
from xmodal.models.devices import Devices
from xmodal.models.dtypes import DTYPES
from xmodal.models.encoders.text_inputs import read_ids
from xmodal.models.features import Features
from xmodal.models.initializers import WORDS, initialize_words
from xmodal.models.mode import Mode


def look_up(table: jax.Array, ids: jax.Array, dtype: DTypeLike) -> jax.Array:
    """Returns the rows [N, T, W] of a table [V, W]; NaN for ids outside the table.

    Without NaN, an id of a larger vocabulary would silently become the last word.
    """
    return jnp.take(table, ids, axis=0, mode="fill", fill_value=jnp.nan).astype(dtype)


class Words(nn.Module):
    """Token ids to the rows of a table. Parameters: `table` [V, W]."""

    feature_column: ClassVar[None] = None

    vocab_size: int
    width: int
    dropout: float
    init_name: str
    init_scale: float | None
    dtype: DTypeLike

    @nn.compact
    def __call__(self, inputs: Mapping[str, jax.Array], mode: Mode) -> Features:
        """`text_ids` and `text_mask`, int [N, T] -> one token [W] per id."""
        ids, mask = read_ids(inputs)
        init = initialize_words(self.init_name, self.init_scale, self.width)
        table = self.param("table", init, (self.vocab_size, self.width))
        tokens = look_up(table, ids, self.dtype)
        return Features(nn.Dropout(self.dropout, deterministic=not mode.drops)(tokens), mask)


@dataclasses.dataclass(frozen=True)
class WordsConfig:
    """Settings of a table of word vectors.

    Attributes:
      vocab_size: rows of the table.
      width: width of the word vectors.
      dropout: dropout rate of the word vectors' values.
      init: distribution of the initial values: "normal" or "uniform".
      init_scale: standard deviation or half the range of that distribution; None for
        1 / sqrt(width).
      dtype: dtype of the tokens; parameters are float32.
    """

    vocab_size: int = setting(at_least=1)
    width: int = setting(300, at_least=1)
    dropout: float = setting(0.0, at_least=0, below=1)
    init: str = setting("normal", one_of=WORDS)
    init_scale: float | None = setting(None, above=0)
    dtype: str = setting("float32", one_of=DTYPES)


def make_words(config: WordsConfig, devices: Devices) -> Words:
    """Returns a table of word vectors."""
    del devices
    return Words(
        vocab_size=config.vocab_size,
        width=config.width,
        dropout=config.dropout,
        init_name=config.init,
        init_scale=config.init_scale,
        dtype=DTYPES[config.dtype],
    )

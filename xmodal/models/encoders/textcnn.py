"""Convolutions over learned word vectors.

Kim, "Convolutional Neural Networks for Sentence Classification" (2014), up to the maximum over
time, which is the head "max". The released code (yoonkim/CNN_sentence) puts four zero vectors on
both ends of a text; here a text is padded only up to the largest window.
"""

import dataclasses
from collections.abc import Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from xmodal.base.config import UserError, setting
from xmodal.models.dtypes import DTYPES
from xmodal.models.encoders.encoder import Encoder
from xmodal.models.encoders.text_inputs import read_ids
from xmodal.models.encoders.word_embedding import WordTableConfig, embed_words
from xmodal.models.features import Features
from xmodal.models.initializers import initialize_words
from xmodal.models.mode import Mode


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

    def __post_init__(self) -> None:
        if not self.windows or len(set(self.windows)) < len(self.windows):
            raise UserError(
                f"config.model.text.encoder.windows is {self.windows}; it must name different "
                "numbers of words, such as (3, 4, 5)."
            )


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
        tokens = []
        for window in config.windows:
            filters = _convolution(config, window, dtype)(x)[:, :length]
            inside = mask & (places + window <= ends)
            tokens.append(jnp.where(inside[..., None], nn.relu(filters), 0))
        return Features(jnp.concatenate(tokens, axis=-1), mask, {"words": words})


def _convolution(config: TextCnnConfig, window: int, dtype: DTypeLike) -> nn.Conv:
    init = nn.initializers.lecun_normal()
    if config.kernel_scale is not None:
        init = initialize_words("uniform", config.kernel_scale, 1)
    return nn.Conv(
        config.maps,
        (window,),
        padding="VALID",
        kernel_init=init,
        dtype=dtype,
        name=f"window{window}",
    )

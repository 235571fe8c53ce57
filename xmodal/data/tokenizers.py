"""Tokenisers by name: word pieces for BERT, whole words for tables of word vectors."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from xmodal.config import UserError
from xmodal.data.config import DataConfig, TextConfig
from xmodal.data.text import Tokenizer
from xmodal.data.vocabulary import load_vocabulary
from xmodal.words import find_row, tokenise


class WordTokenizer:
    """Turns captions into padded ids of the words that the vocabulary knows.

    Words are cut by `xmodal.words.tokenise` and looked up as they are written, then, with
    `lower_case`, in lower case; others leave no trace, so that a caption may come out empty.
    Nothing marks its start or end, and only the mask tells padding from the first word.

    Attributes:
      vocabulary: the words, in the order of their ids.
    """

    def __init__(self, vocabulary: Sequence[str], config: TextConfig) -> None:
        if config.max_length < 1:
            raise UserError(f"config.data.text.max_length is {config.max_length}; at least 1")
        self.vocabulary = tuple(vocabulary)
        self._config = config
        # Of a word that stands there twice the first row counts, as in the files of vectors.
        self._rows = {word: row for row, word in reversed(list(enumerate(vocabulary)))}

    def __call__(self, captions: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Tokenises UTF-8 strings of any static shape [...].

        Returns:
          Ids int32 [..., T] and a mask int32 [..., T] that is 1 on known words, with T the
          configured `max_length`.
        """
        flat = tf.reshape(captions, [-1])
        ids, mask = tf.numpy_function(self._look_up, [flat], [tf.int32, tf.int32])
        shape = captions.shape.concatenate(self._config.max_length)
        dynamic = tf.concat([tf.shape(captions), [self._config.max_length]], axis=0)
        return tuple(tf.ensure_shape(tf.reshape(x, dynamic), shape) for x in (ids, mask))

    def _look_up(self, captions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        find = find_row if self._config.lower_case else dict.get
        ids = np.zeros((len(captions), self._config.max_length), np.int32)
        mask = np.zeros_like(ids)
        for row, caption in enumerate(captions):
            found = [find(self._rows, word) for word in tokenise(caption.decode("utf-8", "ignore"))]
            known = [word for word in found if word is not None][: self._config.max_length]
            ids[row, : len(known)] = known
            mask[row, : len(known)] = 1
        return ids, mask


TOKENIZERS: Mapping[str, Callable[[Sequence[str], TextConfig], Tokenizer | WordTokenizer]] = {
    "wordpiece": Tokenizer,
    "words": WordTokenizer,
}


def make_tokenizer(config: DataConfig) -> Tokenizer | WordTokenizer:
    """The tokeniser of a config with the vocabulary that it asks for."""
    return TOKENIZERS[config.text.tokenizer](load_vocabulary(config), config.text)

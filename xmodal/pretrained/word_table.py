"""Published word vectors as the table of the encoder "words"."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from xmodal.core.errors import UserError
from xmodal.pretrained.conversion_report import Mapper, Report, Taken
from xmodal.pretrained.folder import Description
from xmodal.pretrained.vocabularies import read_words
from xmodal.pretrained.weight_files import WeightSource
from xmodal.pretrained.word_vectors import load_word_vectors


def load_word_table(path: str | os.PathLike, vocabulary: str = "") -> WeightSource:
    """Returns a file of word vectors as a source; see `load_word_vectors`.

    Words with blanks, which occur in some published files, are left out: the tokenizer never
    produces them, and a vocabulary has one word per line.

    Args:
      path: see `load_word_vectors`.
      vocabulary: file of the only words to keep, see `vocabularies.read_words`; "" for all.

    Returns:
      A source with the array `vectors` and the words as `vocab.txt`.

    Raises:
      UserError: a file cannot be read, or no word is left.
    """
    table = load_word_vectors(path, read_words(vocabulary) if vocabulary else None)
    rows = {word: row for word, row in table.rows.items() if word.split() == [word]}
    if not rows:
        kept = f" of {vocabulary}" if vocabulary else ""
        raise UserError(f"{path} has no word{kept} with a vector.")
    vectors = table.vectors
    if len(rows) < len(vectors):
        vectors = vectors[list(rows.values())]
    vocabulary = "".join(f"{word}\n" for word in rows)
    return WeightSource(os.fspath(path), {"vectors": vectors}, {"vocab.txt": vocabulary})


def describe_words(source: WeightSource) -> Description:
    """Returns the tower of a table, which averages the vectors of a text's words."""
    vocab_size, width = source.arrays["vectors"].shape
    encoder = {"name": "words", "vocab_size": vocab_size, "width": width}
    files = {"vocab.txt": source.files["vocab.txt"].encode()}
    return Description(encoder, {"name": "mean"}, {"tokenizer": "words"}, files)


def convert_words(
    arrays: Mapping[str, np.ndarray], *, vocab_size: int, width: int, **others: Any
) -> tuple[dict[str, np.ndarray], Report]:
    """Returns the vectors unchanged, under our name.

    Args:
      arrays: `vectors` [V, W].
      vocab_size: V, as in `models.encoders.word_embedding.WordsConfig`.
      width: W.
      **others: keywords of the encoder that do not concern arrays.

    Returns:
      `params/encoder/table`, and the report.

    Raises:
      UserError: the table has another shape.
    """
    del others
    mapper = Mapper(arrays)
    mapper.take("params/encoder/table", Taken("vectors"), (vocab_size, width))
    return mapper.result()

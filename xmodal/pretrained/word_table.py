"""Published word vectors as the table of a bag-of-words tower."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from xmodal.config import UserError
from xmodal.pretrained.folder import Description
from xmodal.pretrained.report import Mapper, Report
from xmodal.pretrained.sources import Source
from xmodal.pretrained.word_vectors import load_word_vectors


def load_word_table(path: str | os.PathLike) -> Source:
    """Reads a file of word vectors, see `load_word_vectors`.

    Words with blanks in them, of which some published files have a few, are left out: no text is
    ever cut into such words, and a vocabulary has one word per line.

    Returns:
      A source with the array `vectors` and the words as `vocab.txt`.

    Raises:
      UserError: the file cannot be read, or has no word.
    """
    table = load_word_vectors(path)
    rows = {word: row for word, row in table.rows.items() if word.split() == [word]}
    if not rows:
        raise UserError(f"{path} has no word with a vector.")
    vectors = table.vectors
    if len(rows) < len(vectors):
        vectors = vectors[list(rows.values())]
    vocabulary = "".join(f"{word}\n" for word in rows)
    return Source(os.fspath(path), {"vectors": vectors}, {"vocab.txt": vocabulary})


def describe_bag_of_words(source: Source) -> Description:
    """The tower of a table; its texts are cut into words and averaged."""
    vocab_size, width = source.arrays["vectors"].shape
    keywords = {"vocab_size": vocab_size, "width": width, "pool": "mean"}
    files = {"vocab.txt": source.files["vocab.txt"]}
    return Description("bag_of_words", keywords, {"tokenizer": "words"}, files)


def convert_bag_of_words(
    arrays: Mapping[str, np.ndarray], *, vocab_size: int, width: int, **others: Any
) -> tuple[dict[str, np.ndarray], Report]:
    """Takes the vectors as they are.

    Args:
      arrays: `vectors` [V, W].
      vocab_size: V, as in `models.bag_of_words.make_tower`.
      width: W.
      **others: keywords of the tower that concern no array.

    Returns:
      `params/table`, and the report.

    Raises:
      UserError: the table has another shape.
    """
    del others
    mapper = Mapper(arrays)
    mapper.take("params/table", "vectors", (vocab_size, width))
    return mapper.result()

"""Texts as words, for tables of published word vectors."""

import re
from collections.abc import Mapping

# In the style of the Penn Treebank, as the corpora of published vectors were cut: "don't" is
# do + n't, "dog's" is dog + 's. Unlike nltk's Treebank tokenizers it separates every period and
# keeps quotation marks and brackets as they are written, as the tables list them.
_WORD = re.compile(
    r"""
    \w+?(?=n't\b) | n't\b | '(?:s|m|d|re|ve|ll)\b
    | \d+(?:[.,:]\d+)+ | \w+(?:-\w+)* | \.{2,} | \S
    """,
    re.VERBOSE | re.IGNORECASE,
)


def split_words(text: str) -> list[str]:
    """Returns the words and punctuation marks of a text, in the case they are written in."""
    return _WORD.findall(text.replace("\u2019", "'"))


def find_row(rows: Mapping[str, int], word: str) -> int | None:
    """Returns the row of a word as written, else in lower case; None if neither is known."""
    row = rows.get(word)
    return rows.get(word.lower()) if row is None else row

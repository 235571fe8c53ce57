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


# Backslash and letter, two characters, where CITE's and Clue's files have escapes as they are.
_SPACED = re.compile(r'([,.;()?!&%:*"])')


def split_at_spaces(text: str) -> list[str]:
    """Returns the pieces of a text between spaces, punctuation apart, as CMCM's authors cut them.

    Of several spaces in a row one counts; the two characters "\\t" are a space of their own, so
    that empty pieces come out, which are words like others; "\\n" cuts as a space does.
    """
    text = _SPACED.sub(r" \1 ", text).replace(r"\xa0", "")
    return re.split(r"\\n| ", re.sub(r" +|\\t", " ", text))


def find_row(rows: Mapping[str, int], word: str) -> int | None:
    """Returns the row of a word as written, else in lower case; None if neither is known."""
    row = rows.get(word)
    return rows.get(word.lower()) if row is None else row

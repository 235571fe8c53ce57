"""Splits texts into words, for tables of published word vectors."""

import re
from collections.abc import Mapping

# In the style of the Penn Treebank, as the corpora of published vectors were split: "don't" is
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
    """Returns the words and punctuation marks of a text, with their original case."""
    return _WORD.findall(text.replace("\u2019", "'"))


# A backslash and a letter, two characters: CITE's and Clue's files have literal escapes.
_SPACED = re.compile(r'([,.;()?!&%:*"])')


def split_at_spaces(text: str) -> list[str]:
    """Splits a text at spaces and around punctuation, as CMCM's authors do.

    Consecutive spaces count as one; the two characters "\\t" are a separate space, which gives
    empty pieces that are words like others; "\\n" splits like a space. Line breaks and other kinds
    of space, which their texts do not have, are spaces: a vocabulary has one word per line.
    """
    text = _SPACED.sub(r" \1 ", text).replace(r"\xa0", "")
    return re.split(r"\\n| ", re.sub(r"\s+|\\t", " ", text))


def cut_text(text: str, *, separators: str, max_words: int) -> str:
    """Returns a text with spaces in place of some characters, and only its first words.

    Args:
      text: any text.
      separators: these characters become spaces.
      max_words: number of words, separated by spaces, that are kept; 0 for all.
    """
    if separators:
        text = text.translate(dict.fromkeys(map(ord, separators), " "))
    return " ".join(text.split()[:max_words]) if max_words else text


def find_row(rows: Mapping[str, int], word: str) -> int | None:
    """Returns the row of a word as written, else in lower case; None if neither is known."""
    row = rows.get(word)
    return rows.get(word.lower()) if row is None else row

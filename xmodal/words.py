"""Texts as words, for tables of word vectors.

A leaf of the package: the data room numbers words as they are cut here, and the readers of
published vectors look them up.
"""

import re
from collections.abc import Mapping

# Penn Treebank style, as the published corpora were cut: "don't" is do + n't, "dog's" dog + 's;
# hyphenated words and numbers stay whole, every other sign is a token.
_TOKEN = re.compile(
    r"""
    \w+?(?=n't\b) | n't\b | '(?:s|m|d|re|ve|ll)\b
    | \d+(?:[.,:]\d+)+ | \w+(?:-\w+)* | \.{2,} | \S
    """,
    re.VERBOSE | re.IGNORECASE,
)


def tokenise(text: str) -> list[str]:
    """Tokens in Penn Treebank style, in the case they are written in."""
    return _TOKEN.findall(text.replace("\u2019", "'"))


def find_row(rows: Mapping[str, int], token: str) -> int | None:
    """Row of a token as it is written, else in lower case; None if it is in neither form."""
    row = rows.get(token)
    return rows.get(token.lower()) if row is None else row

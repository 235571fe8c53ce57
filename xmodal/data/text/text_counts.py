"""Counts what a tokenizer loses of texts: cut texts, and texts without a known word."""

import string
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple, Self

from xmodal.data.text.tokenizers import Tokenizer

_SPACE_MARK = "\N{LOWER ONE EIGHTH BLOCK}"  # A blank in the pieces of SentencePiece.


class TextCounts(NamedTuple):
    """What a tokenizer loses of texts.

    Attributes:
      texts: number of texts.
      unknown: texts without a known word, of which the model reads at most punctuation.
      cut: texts of more than `max_length` ids, including special tokens.
      max_length: T, the most ids of a text.
    """

    texts: int
    unknown: int
    cut: int
    max_length: int

    @classmethod
    def total(cls, parts: Sequence[Self]) -> Self:
        """Returns the counts of all texts of parts that one tokenizer reads."""
        sums = cls(*map(sum, zip(*parts, strict=True)))
        return sums._replace(max_length=parts[0].max_length)

    def describe(self, what: str, setting: str = "max_length") -> str:
        """Returns a sentence for every count that is not 0.

        Args:
          what: the texts, in the plural.
          setting: name of the setting of the length.
        """
        counts = {
            f"are longer than {setting}={self.max_length} and are cut": self.cut,
            "have no known word, so the model cannot tell them from one another": self.unknown,
        }
        found = [f"{n:,} of {self.texts:,} {what} {ending}." for ending, n in counts.items() if n]
        return " ".join(found)


def count_texts(tokenizer: Tokenizer, texts: Sequence[str]) -> TextCounts:
    """Counts what a tokenizer loses of texts."""
    rows = tokenizer.read(texts)
    return TextCounts(
        texts=len(rows),
        unknown=sum(not any(_is_known(tokenizer, number) for number in row) for row in rows),
        cut=sum(len(row) > tokenizer.room for row in rows),
        max_length=tokenizer.max_length,
    )


def _is_known(tokenizer: Tokenizer, number: int) -> bool:
    """Whether an id is that of a word or a part of a word."""
    token = tokenizer.vocabulary[number].replace(_SPACE_MARK, "")
    return number != tokenizer.unknown and not all(
        char in string.punctuation or unicodedata.category(char)[0] in "PZC" for char in token
    )

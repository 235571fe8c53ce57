"""Converts texts to word pieces, with exactly the ids of BERT's own tokenizer.

The rules are those of `tokenization.py` in google-research/bert. Words are first split at spaces
and looked up whole: nearly all were seen before, and a dictionary gives their pieces.
"""

import collections
import itertools
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence

from xmodal.core.errors import UserError

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

_MAX_CHARS_PER_WORD = 200
# Words remembered with their pieces, about 100 bytes each.
_MAX_CACHED_WORDS = 2**20
_CJK = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class WordPieces:
    """Turns texts into ids of word pieces, without special tokens around them."""

    def __init__(self, vocabulary: Sequence[str], lower_case: bool) -> None:
        """Prepares the lookup.

        Args:
          vocabulary: word pieces in the order of their ids.
          lower_case: whether the model is uncased: lower-case letters and strip accents.

        Raises:
          UserError: the vocabulary lacks a special token.
        """
        if missing := [token for token in SPECIAL_TOKENS[:4] if token not in vocabulary]:
            raise UserError(
                f"the vocabulary ({len(vocabulary)} entries) lacks {', '.join(missing)}; "
                "a BERT vocab.txt has one token per line and all of these"
            )
        self._cache = _Cache({token: i for i, token in enumerate(vocabulary)}, lower_case)

    def __call__(self, text: str) -> list[int]:
        """Returns the ids of the word pieces of a text."""
        return list(itertools.chain.from_iterable(map(self._cache.__getitem__, _words(text))))

    def by_word(self, text: str) -> list[list[int]]:
        """Returns the ids of the pieces of every word and every punctuation mark of a text."""
        return list(itertools.chain.from_iterable(map(self._cache.split, _words(text))))


def _words(text: str) -> list[str]:
    return text.split() if text.isascii() and text.isprintable() else _clean(text).split()


def count_words(texts: Sequence[str], lower_case: bool) -> dict[str, int]:
    """Returns how often texts have each of the words and punctuation marks that have pieces."""
    counts: collections.Counter[str] = collections.Counter()
    joined = collections.Counter(itertools.chain.from_iterable(map(_words, texts)))
    for word, count in joined.items():
        for part in _split_punctuation(word, lower_case):
            counts[part] += count
    return counts


class _Cache(dict[str, tuple[int, ...]]):
    """Word between spaces -> ids of its pieces, computed on first lookup."""

    def __init__(self, ids: Mapping[str, int], lower_case: bool) -> None:
        super().__init__()
        self._ids, self._lower_case = ids, lower_case
        self._unknown = ids["[UNK]"]
        self._longest = max(map(len, ids))

    def __missing__(self, word: str) -> tuple[int, ...]:
        if len(self) >= _MAX_CACHED_WORDS:
            self.clear()
        pieces = tuple(itertools.chain.from_iterable(self.split(word)))
        self[word] = pieces
        return pieces

    def split(self, word: str) -> list[list[int]]:
        """Returns the pieces of every part of a word between spaces."""
        parts = _split_punctuation(word, self._lower_case)
        return [list(self._pieces(part)) for part in parts]

    def _pieces(self, word: str) -> Sequence[int]:
        """Splits a word greedily, taking the longest matching piece first."""
        if len(word) > _MAX_CHARS_PER_WORD:
            return (self._unknown,)
        pieces, start = [], 0
        while start < len(word):
            prefix = "##" if start else ""
            for end in range(min(len(word), start + self._longest), start, -1):
                if (piece := self._ids.get(prefix + word[start:end])) is not None:
                    break
            else:
                return (self._unknown,)
            pieces.append(piece)
            start = end
        return pieces


def _clean(text: str) -> str:
    kept = []
    for char in text:
        category = unicodedata.category(char)
        if char in "\t\n\r" or category in ("Zs", "Zl", "Zp"):
            kept.append(" ")
        elif char != "\ufffd" and category not in ("Cc", "Cf"):
            kept.append(char)
    return "".join(kept)


def _split_punctuation(word: str, lower_case: bool) -> Iterator[str]:
    """Yields the parts of a word without spaces; punctuation and ideographs are separate."""
    for part in _spaced(word, _is_cjk).split():
        if lower_case:
            part = _strip_accents(part.lower())
        yield from _spaced(part, _is_punctuation).split()


def _spaced(word: str, stands_alone: Callable[[str], bool]) -> str:
    return "".join(f" {char} " if stands_alone(char) else char for char in word)


def _strip_accents(text: str) -> str:
    decomposed = unicodedata.normalize("NFD", text)
    return "".join(char for char in decomposed if unicodedata.category(char) != "Mn")


def _is_cjk(char: str) -> bool:
    return any(first <= ord(char) <= last for first, last in _CJK)


def _is_punctuation(char: str) -> bool:
    """Returns whether BERT separates a character; every ASCII symbol counts."""
    is_symbol = "!" <= char <= "~" and not char.isalnum()
    return is_symbol or unicodedata.category(char).startswith("P")

"""CLIP's byte-pair encoding, from the merges in a merges.txt.

Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units" (2016), on bytes as
in GPT-2, with openai/CLIP's end-of-word mark, order of ids and pattern of words. Texts are
unescaped from HTML; mended encodings (ftfy) are left to the caller.
"""

import functools
import html
import itertools
import unicodedata
from collections.abc import Iterator, Sequence

START, END, _LAST = "<|startoftext|>", "<|endoftext|>", "</w>"
_CONTRACTIONS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")
_REMEMBERED = 2**16  # Words whose ids a tokenizer caches.


def byte_symbols() -> list[str]:
    """Returns a printable character for each of the 256 bytes, in the order of CLIP's ids."""
    return [character for _, character in _bytes_and_symbols()]


def _bytes_and_symbols() -> list[tuple[int, str]]:
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    pairs = [(byte, chr(byte)) for byte in printable]
    return pairs + [(byte, chr(256 + rank)) for rank, byte in enumerate(others)]


def read_merges(text: str) -> list[tuple[str, str]]:
    """Returns the merges of the content of a merges.txt, the first to apply first.

    Raises:
      ValueError: a line is not two symbols.
    """
    lines = text.rstrip("\n").split("\n")
    lines = lines[1:] if lines[0].startswith("#version") else lines
    merges = []
    for number, line in enumerate(lines, start=1):
        parts = line.split(" ")
        if len(parts) != 2 or not all(parts):
            raise ValueError(f"merge {number} is {line!r}, not two symbols")
        merges.append((parts[0], parts[1]))
    return merges


def merged_tokens(text: str) -> list[str]:
    """Returns the tokens of the content of a merges.txt, in the order of CLIP's ids.

    Bytes, bytes that end a word, merges, and the start and end of a text.

    Raises:
      ValueError: a line is not two symbols.
    """
    symbols = byte_symbols()
    merges = ["".join(pair) for pair in read_merges(text)]
    return [*symbols, *(symbol + _LAST for symbol in symbols), *merges, START, END]


class BytePairs:
    """Turns texts into ids, without markers."""

    def __init__(self, text: str, lower_case: bool) -> None:
        """Reads merges.

        Args:
          text: the content of a merges.txt.
          lower_case: whether texts are lower-cased, as in CLIP.
        """
        self._ids = {token: number for number, token in enumerate(merged_tokens(text))}
        self._ranks = {pair: rank for rank, pair in enumerate(read_merges(text))}
        self._symbols = dict(_bytes_and_symbols())
        self._lower_case = lower_case
        self._word_ids = functools.lru_cache(_REMEMBERED)(self._encode_word)

    def __call__(self, text: str) -> list[int]:
        """Returns the ids of a text."""
        return list(itertools.chain(*self.by_word(text)))

    def by_word(self, text: str) -> list[tuple[int, ...]]:
        """Returns the ids of every word of a text."""
        text = " ".join(html.unescape(html.unescape(text)).split())
        text = text.lower() if self._lower_case else text
        return [self._word_ids(word) for word in split_pattern(text)]

    def _encode_word(self, word: str) -> tuple[int, ...]:
        parts = [self._symbols[byte] for byte in word.encode()]
        parts[-1] += _LAST
        while len(parts) > 1:
            pairs = list(itertools.pairwise(parts))
            best = min(pairs, key=lambda pair: self._ranks.get(pair, len(self._ranks)))
            if best not in self._ranks:
                break
            parts = list(_merge(parts, best))
        return tuple(self._ids[part] for part in parts)


def _merge(parts: Sequence[str], pair: tuple[str, str]) -> Iterator[str]:
    """Joins every occurrence of a pair, from the left."""
    place = 0
    while place < len(parts):
        if tuple(parts[place : place + 2]) == pair:
            yield "".join(pair)
            place += 2
        else:
            yield parts[place]
            place += 1


def split_pattern(text: str) -> list[str]:
    """Returns contractions, runs of letters, single numbers and runs of others; no white space."""
    words: list[str] = []
    place = 0
    while place < len(text):
        found = next((c for c in _CONTRACTIONS if text[place : place + len(c)].lower() == c), None)
        end = place + (len(found) if found else 1)
        kind = _kind(text[place])
        if not found and kind in "LO":
            while end < len(text) and _kind(text[end]) == kind:
                end += 1
        if kind != " ":
            words.append(text[place:end])
        place = end
    return words


def _kind(character: str) -> str:
    """L for letters, N for numbers, a blank for white space, O for others."""
    category = unicodedata.category(character)[0]
    return category if category in "LN" else " " if character.isspace() else "O"

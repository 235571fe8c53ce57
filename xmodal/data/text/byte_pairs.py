"""CLIP's byte-pair encoding, from the merges in a merges.txt.

Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units" (2016), on bytes as
in GPT-2, with openai/CLIP's clean-up, end-of-word mark, order of ids and pattern of words.
"""

import functools
import html
import itertools
from collections.abc import Callable, Iterator, Sequence

import regex

from xmodal.core.errors import UserError

START, END, _LAST = "<|startoftext|>", "<|endoftext|>", "</w>"
# A text that spells a marker has its id.
_WORDS = regex.compile(
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+",
    regex.IGNORECASE,
)
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

        Raises:
          UserError: ftfy, which repairs encodings, is not installed.
        """
        self._mend = _load_mender()
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
        # Of printable ASCII, ftfy changes entities only; it takes longer than all the rest.
        if not (text.isascii() and text.isprintable() and "&" not in text):
            text = html.unescape(html.unescape(self._mend(text)))
        text = " ".join(text.split())
        text = text.lower() if self._lower_case else text
        return [self._word_ids(word) for word in split_pattern(text)]

    def _encode_word(self, word: str) -> tuple[int, ...]:
        if word in (START, END):
            return (self._ids[word],)
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
    """Returns markers, contractions, runs of letters, single numbers and runs of others."""
    return _WORDS.findall(text)


def _load_mender() -> Callable[[str], str]:
    try:
        import ftfy
    except ImportError as error:
        raise UserError(
            "CLIP's byte pairs need ftfy: pip install 'xmodal[tokenizers]', or pip install ftfy."
        ) from error
    return ftfy.fix_text

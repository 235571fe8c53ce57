"""CLIP's byte-pair encoding, from the merges in a merges.txt.

Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units" (2016), on bytes as
in GPT-2, with openai/CLIP's clean-up, end-of-word mark, order of ids and pattern of words.
"""

import functools
import html
from collections.abc import Callable

from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from xmodal.core.errors import UserError
from xmodal.data.text.words import ids_by_word

START, END, _LAST = "<|startoftext|>", "<|endoftext|>", "</w>"
_WORDS = r"(?i)'s|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"
_REMEMBERED = 2**17  # Texts whose ids are cached; less than 100 MB.


def byte_symbols() -> list[str]:
    """Returns a printable character for each of the 256 bytes, in the order of CLIP's ids."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [chr(code) for code in [*printable, *range(256, 512 - len(printable))]]


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
    """Turns texts into ids, without special tokens."""

    def __init__(self, text: str, lower_case: bool) -> None:
        """Reads merges.

        Args:
          text: the content of a merges.txt.
          lower_case: whether texts are lower-cased, as in CLIP.

        Raises:
          UserError: ftfy, which repairs encodings, is not installed.
        """
        self._mend = _load_mender()
        self._lower_case = lower_case
        ids = {token: number for number, token in enumerate(merged_tokens(text))}
        self._tokenizer = Tokenizer(
            models.BPE(ids, read_merges(text), end_of_word_suffix=_LAST, fuse_unk=False)
        )
        # A text that spells a special token has its id.
        self._tokenizer.add_special_tokens([START, END])
        self._tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(_WORDS), behavior="removed", invert=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        # Every epoch has each caption.
        self._ids_of = functools.lru_cache(_REMEMBERED)(self._encode)

    def __call__(self, text: str) -> tuple[int, ...]:
        """Returns the ids of a text."""
        return self._ids_of(text)

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(self._clean(text)).ids)

    def by_word(self, text: str) -> list[list[int]]:
        """Returns the ids of every word of a text."""
        return ids_by_word(self._tokenizer.encode(self._clean(text)))

    def _clean(self, text: str) -> str:
        text = " ".join(html.unescape(html.unescape(self._mend(text))).split())
        return text.lower() if self._lower_case else text


def _load_mender() -> Callable[[str], str]:
    try:
        import ftfy
    except ImportError as error:
        raise UserError(
            "CLIP's byte pairs need ftfy: pip install 'xmodal[tokenizers]', or pip install ftfy."
        ) from error
    return ftfy.fix_text

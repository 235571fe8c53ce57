"""Tokenizers of Hugging Face, from a tokenizer.json, by their library.

The file says everything: normalization, words, pieces, special tokens. Its truncation and padding
are those of the config instead.
"""

import functools
from collections.abc import Callable
from typing import Any

import tokenizers

from xmodal.core.errors import UserError
from xmodal.core.untrusted.json_text import parse_json_text
from xmodal.data.text.words import ids_by_word

_PROBE = "a photo"  # Any text with a token.
_MOST_TOKENS = 2**24  # A tiny file may claim any id, of which the ids below would be made.


def json_tokens(content: bytes) -> list[str]:
    """Returns the tokens of the content of a tokenizer.json, in the order of their ids.

    An id without a token is "".

    Raises:
      ValueError: it is not a tokenizer.json.
    """
    ids = _load(content).get_vocab(with_added_tokens=True)
    count = 1 + max(ids.values(), default=-1)
    if count > _MOST_TOKENS:
        raise ValueError(f"a token has the id {count - 1:,}, more than {_MOST_TOKENS:,}")
    tokens = [""] * count
    for token, number in ids.items():
        tokens[number] = token
    return tokens


class JsonPieces:
    """Turns texts into ids, without special tokens.

    Attributes:
      start: tokens that the file puts before a text.
      end: tokens that the file puts after a text.
      pad: padding token of the file; "" if it does not say.
      unknown: token of unknown words; "" for none.
    """

    def __init__(self, content: bytes, clean: Callable[[str], str]) -> None:
        """Reads a tokenizer.

        Args:
          content: the whole file.
          clean: change of a text before the file's own.

        Raises:
          UserError: the file puts tokens elsewhere than before and after a text.
        """
        self._tokenizer, self._clean = _load(content), clean
        self.start, self.end = _find_special_tokens(self._tokenizer)
        settings = parse_json_text(content.decode("utf-8-sig"))
        self.pad = (settings.get("padding") or {}).get("pad_token", "")
        model = settings["model"]
        number = model.get("unk_id")
        self.unknown = model.get("unk_token") or (
            "" if number is None else self._tokenizer.id_to_token(number)
        )

    def __call__(self, text: str) -> list[int]:
        """Returns the ids of a text.

        Raises:
          UserError: the file is damaged, or lacks a token of this text.
        """
        return self._encode(text).ids

    def by_word(self, text: str) -> list[list[int]]:
        """Returns the ids of every word of a text, as the file splits it into words."""
        return ids_by_word(self._encode(text))

    def _encode(self, text: str) -> Any:
        return _encode(self._tokenizer, self._clean(text), special_tokens=False)


def _find_special_tokens(tokenizer: Any) -> tuple[list[str], list[str]]:
    """Returns the tokens that a tokenizer puts before and after a text."""
    bare = _encode(tokenizer, _PROBE, special_tokens=False).tokens
    marked = _encode(tokenizer, _PROBE, special_tokens=True)
    added = [bool(each) for each in marked.special_tokens_mask]
    before = added.index(False) if False in added else 0
    after = before + len(bare)
    if not bare or marked.tokens[before:after] != bare:
        raise UserError(
            f"The tokenizer.json turns {_PROBE!r} into {marked.tokens}, and into {bare} without "
            "special tokens; a text must have tokens, and they must be before and after it."
        )
    return marked.tokens[:before], marked.tokens[after:]


def _encode(tokenizer: Any, text: str, *, special_tokens: bool) -> Any:
    try:
        return tokenizer.encode(text, add_special_tokens=special_tokens)
    except BaseException as error:
        # The library finds contradictions late, and a panic in it is not an `Exception`.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise UserError(
            f"The tokenizer.json cannot tokenize {text!r:.80} ({error}): it is damaged, "
            "or lacks a token. Download it again."
        ) from error


# A start reads the file several times; large ones take a second.
@functools.lru_cache(2)
def _load(content: bytes) -> Any:
    try:
        tokenizer = tokenizers.Tokenizer.from_str(content.decode("utf-8-sig"))
    except Exception as error:  # The library raises no other class.
        raise ValueError(error) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer

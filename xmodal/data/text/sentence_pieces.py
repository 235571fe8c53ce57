"""SentencePiece, from a model file, by its authors' library.

Kudo and Richardson, "SentencePiece: A simple and language independent subword tokenizer and
detokenizer for Neural Text Processing" (2018).
"""

import functools
from collections.abc import Callable
from typing import Any

from xmodal.core.errors import UserError

_WORD_START = "\N{LOWER ONE EIGHTH BLOCK}"  # A piece's mark of the blank before it.


def sentence_piece_tokens(content: bytes) -> list[str]:
    """Returns the pieces of the content of a model file, in the order of their ids.

    Raises:
      ValueError: it is not a model.
      UserError: the library is not installed.
    """
    model = _load(content)
    return [model.id_to_piece(number) for number in range(len(model))]


class SentencePieces:
    """Turns texts into ids, without special tokens.

    Attributes:
      pad: padding piece of the model; "" for none.
      unknown: piece of unknown characters.
    """

    def __init__(self, content: bytes, clean: Callable[[str], str]) -> None:
        """Reads a model.

        Args:
          content: the whole file.
          clean: change of a text before tokenization.
        """
        self._model, self._clean = _load(content), clean
        pad = self._model.pad_id()
        self.pad = self._model.id_to_piece(pad) if pad >= 0 else ""
        self.unknown = self._model.id_to_piece(self._model.unk_id())

    def __call__(self, text: str) -> list[int]:
        """Returns the ids of a text."""
        return self._model.encode(self._clean(text), out_type=int)

    def by_word(self, text: str) -> list[list[int]]:
        """Returns the ids of every word of a text; a word begins after a blank."""
        words: list[list[int]] = []
        for number in self(text):
            if not words or self._model.id_to_piece(number).startswith(_WORD_START):
                words.append([])
            words[-1].append(number)
        return words


# A start reads the file several times; large models take a second.
@functools.lru_cache(2)
def _load(content: bytes) -> Any:
    try:
        import sentencepiece
    except ImportError as error:
        raise UserError(
            "A SentencePiece model needs sentencepiece: pip install 'xmodal[tokenizers]', or pip "
            "install sentencepiece."
        ) from error
    if not content:  # The library takes this for a model.
        raise ValueError("it is empty")
    try:
        return sentencepiece.SentencePieceProcessor(model_proto=content)
    except RuntimeError as error:
        raise ValueError("sentencepiece cannot read it") from error

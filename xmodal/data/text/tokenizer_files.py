"""Files of tokenizers by kind: what a run, a bundle and a converted model carry.

A kind is one row: the name that its file has there, and a function from its content to the tokens
in the order of their ids.
"""

import dataclasses
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from etils import epath

from xmodal.core.errors import UserError
from xmodal.core.untrusted.json_text import parse_json_text
from xmodal.data.text.byte_pairs import merged_tokens
from xmodal.data.text.published_merges import ARCHIVE, find_packaged, is_packaged, unpack_merges
from xmodal.data.text.sentence_pieces import sentence_piece_tokens
from xmodal.data.text.tokenizer_json import json_tokens


@dataclasses.dataclass(frozen=True, eq=False)
class TokenizerFile(Sequence[str]):
    """The tokens of a tokenizer, in the order of their ids, with the file that they come from.

    Attributes:
      name: name of the file, a key of `FILES`.
      content: the whole file.
      tokens: its tokens.
    """

    name: str
    content: bytes = dataclasses.field(repr=False)
    tokens: tuple[str, ...] = dataclasses.field(repr=False)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: Any) -> Any:
        return self.tokens[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tokens)

    def __eq__(self, other: object) -> bool:
        """Whether another file, or a list of tokens, produces the same ids."""
        if isinstance(other, list | tuple):
            return self.identity == tuple(other)
        return isinstance(other, TokenizerFile) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    @property
    def identity(self) -> tuple[str, ...]:
        """What identifies the file: its tokens or, for kinds with more rules, its hash."""
        return self.tokens if self.name == "vocab.txt" else (self.sha256,)

    @property
    def sha256(self) -> str:
        """The hash of the content."""
        return hashlib.sha256(self.content).hexdigest()


def split_vocabulary(text: str) -> list[str]:
    """Returns the tokens of the content of a vocab.txt: one per line."""
    return [token.strip() for token in text.rstrip("\n").split("\n")]


def _vocabulary_tokens(content: bytes) -> list[str]:
    text = content.decode("utf-8-sig")
    if text.startswith("{") and _is_json(text):
        raise ValueError("it is JSON")
    return split_vocabulary(text)


def _is_json(text: str) -> bool:
    try:
        parse_json_text(text)
    except ValueError:
        return False
    return True


FILES: Mapping[str, Callable[[bytes], Sequence[str]]] = {
    "vocab.txt": _vocabulary_tokens,
    "merges.txt": lambda content: merged_tokens(content.decode("utf-8-sig")),
    "sentencepiece.model": sentence_piece_tokens,
    "tokenizer.json": json_tokens,
}
"""Name of a file -> function of its content that returns the tokens.

The function raises a ValueError if the content is of another kind.
"""
# Published files of a kind have different names: spiece.model, tokenizer.model.
_SUFFIXES = {".model": "sentencepiece.model", ".json": "tokenizer.json"}


def read_vocabulary(path: epath.PathLike) -> TokenizerFile:
    """Returns the file of a tokenizer, whose name determines its kind, see `TextConfig.vocabulary`.

    Raises:
      UserError: there is no such file, or it is not of its kind.
    """
    given = os.fspath(path)
    path = find_packaged(given) if is_packaged(given) else epath.Path(given)
    if not path.is_file():
        raise UserError(
            f"config.data.text.vocabulary names {given!r}, which is not a file. Use the vocab.txt "
            "of the checkpoint, or '' to learn a vocabulary from the training captions."
        )
    if path.name == ARCHIVE:
        return parse_file("merges.txt", unpack_merges(path.read_bytes(), given), given)
    name = path.name if path.name in FILES else _SUFFIXES.get(path.suffix, "vocab.txt")
    return parse_file(name, path.read_bytes(), given)


def parse_file(name: str, content: bytes, where: str) -> TokenizerFile:
    """Returns a tokenizer file from its content.

    Args:
      name: a key of `FILES`.
      content: the whole file.
      where: its origin, for errors.

    Raises:
      UserError: the content is not of this kind.
    """
    try:
        tokens = FILES[name](content)
    except ValueError as error:
        raise UserError(
            f"{where} is not a {name}: {error}. The name of a tokenizer's file defines its kind: "
            "merges.txt, NAME.model (SentencePiece), NAME.json (tokenizer.json), or a vocab.txt."
        ) from error
    if len(tokens) < 2:
        raise UserError(f"{where} is not a {name} with one token per line: it has one line.")
    if name == "vocab.txt":
        return vocabulary_file(tokens)
    return TokenizerFile(name, content, tuple(tokens))


def vocabulary_file(tokens: Sequence[str]) -> TokenizerFile:
    """Returns tokens as the vocab.txt that lists them; a tokenizer file as it is."""
    if isinstance(tokens, TokenizerFile):
        return tokens
    content = "".join(f"{token}\n" for token in tokens).encode()
    return TokenizerFile("vocab.txt", content, tuple(tokens))

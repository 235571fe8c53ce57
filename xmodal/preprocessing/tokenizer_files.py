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

from xmodal.base.config import UserError
from xmodal.preprocessing.byte_pairs import merged_tokens


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


FILES: Mapping[str, Callable[[str], Sequence[str]]] = {
    "vocab.txt": split_vocabulary,
    "merges.txt": merged_tokens,
}
"""Name of a file -> function of its text that returns the tokens."""


def read_vocabulary(path: epath.PathLike) -> TokenizerFile:
    """Returns the file of a tokenizer: a merges.txt by its name, or else a vocab.txt.

    Raises:
      UserError: there is no such file, or it is not of its kind.
    """
    given, path = os.fspath(path), epath.Path(path)
    if not path.is_file():
        raise UserError(
            f"config.data.text.vocabulary names {given!r}, which is not a file. Use the vocab.txt "
            "of the checkpoint, or '' to learn a vocabulary from the training captions."
        )
    return parse_file(path.name if path.name in FILES else "vocab.txt", path.read_bytes(), given)


def parse_file(name: str, content: bytes, where: str) -> TokenizerFile:
    """Returns a tokenizer file from its content.

    Args:
      name: a key of `FILES`.
      content: the whole file.
      where: where it comes from, for errors.

    Raises:
      UserError: the content is not of this kind.
    """
    try:
        text = content.decode("utf-8-sig")
        tokens = FILES[name](text)
    except ValueError as error:
        raise UserError(f"{where} is not a {name}: {error}") from error
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

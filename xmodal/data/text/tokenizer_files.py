"""Files of tokenizers by kind: what a run, a bundle and a converted model carry.

A kind is one row: the name that its file has there, and a function from its content to the tokens
in the order of their ids.
"""

import dataclasses
import functools
import gzip
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from etils import epath
from tokenizers import Tokenizer, pre_tokenizers

from xmodal.core.errors import UserError
from xmodal.core.files import find_in_package

START, END, WORD_END = "<|startoftext|>", "<|endoftext|>", "</w>"
"""Tokens of CLIP's byte pairs: the start and end of a text, and what ends the pieces of a word."""
ARCHIVE = "bpe_simple_vocab_16e6.txt.gz"
"""CLIP's merges in openai/CLIP, and in the packages open-clip-torch and clip-anytorch."""
_SHA256 = "924691ac288e54409236115652ad4aa250f48203de50a9e4722a6ecd48d6804a"
# The archive has 262,144 merges; 512 bytes and 2 special tokens make these a vocabulary of 49,408.
_MERGES = 49_408 - 512 - 2
_PREFIX = "pip:"


@dataclasses.dataclass(frozen=True)
class TokenizerFile(Sequence[str]):
    """The tokens of a tokenizer, in the order of their ids, with the file that they come from.

    Files of equal names and contents are equal.

    Attributes:
      name: name of the file, a key of `FILES`.
      content: the whole file.
      tokens: its tokens.
    """

    name: str
    content: bytes = dataclasses.field(repr=False)
    tokens: tuple[str, ...] = dataclasses.field(repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: Any) -> Any:
        return self.tokens[index]

    @property
    def identity(self) -> tuple[str, ...]:
        """What identifies the file: its tokens or, for kinds with more rules, its hash."""
        has_rules = self.name != "vocab.txt"
        return (hashlib.sha256(self.content).hexdigest(),) if has_rules else self.tokens


def split_vocabulary(text: str) -> list[str]:
    """Returns the tokens of the content of a vocab.txt: one per line."""
    return [token.strip() for token in text.rstrip("\n").split("\n")]


def _merged_tokens(content: bytes) -> list[str]:
    """Returns the tokens of a merges.txt in the order of CLIP's ids.

    Bytes, bytes that end a word, merges, and the start and end of a text.
    """
    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = map("".join, read_merges(content))
    return [*symbols, *(symbol + WORD_END for symbol in symbols), *merges, START, END]


def read_merges(content: bytes) -> list[tuple[str, str]]:
    """Returns the pairs of symbols of a merges.txt, in order."""
    lines = content.decode("utf-8-sig").rstrip("\n").split("\n")
    pairs = (line.partition(" ") for line in lines[lines[0].startswith("#version") :])
    return [(left, right) for left, _, right in pairs]


def _json_tokens(content: bytes) -> list[str]:
    """Returns the tokens of a tokenizer.json; an id without a token is ""."""
    tokens = {number: token for token, number in load_json(content).get_vocab().items()}
    return [tokens.get(number, "") for number in range(1 + max(tokens, default=-1))]


# A start reads the file several times; large ones take a second.
@functools.lru_cache(2)
def load_json(content: bytes) -> Tokenizer:
    """Returns the tokenizer of a tokenizer.json, without truncation and padding."""
    tokenizer = Tokenizer.from_str(content.decode("utf-8-sig"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _sentence_piece_tokens(content: bytes) -> list[str]:
    model = load_sentence_pieces(content)
    return [model.id_to_piece(number) for number in range(len(model))]


# A start reads the file several times; large models take a second.
@functools.lru_cache(2)
def load_sentence_pieces(content: bytes) -> Any:
    """Returns the processor of a model file of SentencePiece.

    Raises:
      UserError: the library is not installed.
    """
    try:
        import sentencepiece
    except ImportError as error:
        raise UserError(
            "A SentencePiece model needs sentencepiece: pip install 'xmodal[tokenizers]', or pip "
            "install sentencepiece."
        ) from error
    return sentencepiece.SentencePieceProcessor(model_proto=content)


FILES: Mapping[str, Callable[[bytes], Sequence[str]]] = {
    "vocab.txt": lambda content: split_vocabulary(content.decode("utf-8-sig")),
    "merges.txt": _merged_tokens,
    "sentencepiece.model": _sentence_piece_tokens,
    "tokenizer.json": _json_tokens,
}
"""Name of a file -> function of its content that returns the tokens."""
# Published files of a kind have different names: spiece.model, tokenizer.model.
_SUFFIXES = {".model": "sentencepiece.model", ".json": "tokenizer.json"}


def read_vocabulary(path: epath.PathLike) -> TokenizerFile:
    """Returns the file of a tokenizer; its name decides the kind, see `TextConfig.vocabulary`."""
    given = os.fspath(path)
    is_file = not is_packaged(given)
    found = epath.Path(given) if is_file else find_in_package(given[len(_PREFIX) :], ARCHIVE)
    if found is None:
        raise UserError(
            f"config.data.text.vocabulary={given!r} names a package that is not installed, or that "
            f"has no {ARCHIVE}: pip install 'xmodal[clip]', or, without torch, pip install "
            "--no-deps open-clip-torch."
        )
    if not found.is_file():
        raise UserError(
            f"config.data.text.vocabulary names {given!r}, which is not a file. Use the vocab.txt "
            "of the checkpoint, or '' to learn a vocabulary from the training captions."
        )
    if found.name == ARCHIVE:
        return parse_file("merges.txt", _unpack_merges(found.read_bytes(), given), given)
    name = found.name if found.name in FILES else _SUFFIXES.get(found.suffix, "vocab.txt")
    return parse_file(name, found.read_bytes(), given)


def is_packaged(vocabulary: str) -> bool:
    """Returns whether a config names an installed package instead of a file."""
    return vocabulary.startswith(_PREFIX)


def _unpack_merges(content: bytes, where: str) -> bytes:
    """Returns the content of the published archive as that of a merges.txt."""
    if hashlib.sha256(content).hexdigest() != _SHA256:
        raise UserError(f"{where} is not the {ARCHIVE} of openai/CLIP: download it again.")
    lines = gzip.decompress(content).split(b"\n")[1 : 1 + _MERGES]
    return b"\n".join([b"#version: 0.2", *lines, b""])


def parse_file(name: str, content: bytes, where: str) -> TokenizerFile:
    """Returns a tokenizer file from its content.

    Args:
      name: a key of `FILES`.
      content: the whole file.
      where: its origin, for errors.
    """
    try:
        tokens = FILES[name](content)
    except Exception as error:  # Libraries raise errors of any type.
        raise UserError(
            f"{where} is not a {name}: {error}. The name of a tokenizer's file defines its kind: "
            "merges.txt, NAME.model (SentencePiece), NAME.json (tokenizer.json), or a vocab.txt."
        ) from error
    if name == "vocab.txt":
        return vocabulary_file(tokens)
    return TokenizerFile(name, content, tuple(tokens))


def vocabulary_file(tokens: Sequence[str]) -> TokenizerFile:
    """Returns tokens as the vocab.txt that lists them; a tokenizer file as it is."""
    if isinstance(tokens, TokenizerFile):
        return tokens
    content = "".join(f"{token}\n" for token in tokens).encode()
    return TokenizerFile("vocab.txt", content, tuple(tokens))

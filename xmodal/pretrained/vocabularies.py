"""Vocabularies and tokenizers as published with models."""

import io
import os
from collections.abc import Collection, Mapping
from typing import Any

from etils import epath

from xmodal.core.errors import UserError
from xmodal.core.untrusted.json_text import parse_json_text
from xmodal.core.untrusted.pickles import ERRORS, Inert, Unpickler
from xmodal.data.text.tokenizer_files import TokenizerFile, parse_file, read_vocabulary
from xmodal.pretrained import torch_files
from xmodal.pretrained.weight_files import WeightSource

TOKENIZER_FILES = {
    "merges.txt": "merges.txt",
    "spiece.model": "sentencepiece.model",
    "tokenizer.model": "sentencepiece.model",
    "sentencepiece.model": "sentencepiece.model",
    "tokenizer.json": "tokenizer.json",
}
"""Names of tokenizers' files in published folders -> our names, see `tokenizer_files.FILES`."""
# CLIP's merges, in a package of PyPI.
_PACKAGED = {"merges.txt": "pip:open-clip-torch"}


def read_words(path: str | os.PathLike) -> list[str]:
    """Returns the words of a published vocabulary in the order of their ids.

    `.pkl` and `.json` hold `word2idx`, as an attribute or a key; so may a torch checkpoint
    (`.pth`, ...). `.bin` is a file of gensim's `KeyedVectors.save`. Any other file has one word per
    line. No code in a pickle runs.

    Raises:
      UserError: the file is missing or damaged, holds no vocabulary, its ids are not 0 to V - 1,
        or a word is empty or contains a line break.
    """
    path = epath.Path(path)
    if not path.exists():
        raise UserError(f"There is no vocabulary at {path}.")
    if path.name.endswith(torch_files.SUFFIXES):
        return _sort(path, torch_files.read_objects(path))
    if path.name.endswith((".pkl", ".bin")):
        try:
            return _sort(path, Unpickler(io.BytesIO(path.read_bytes())).load())
        except ERRORS as error:
            raise UserError(
                f"{path} cannot be read as a pickle ({error}): download it again."
            ) from error
    try:
        text = path.read_bytes().decode("utf-8-sig")
        if path.name.endswith(".json"):
            return _sort(path, parse_json_text(text))
    except ValueError as error:
        raise UserError(f"{path} cannot be read as a vocabulary ({error}).") from error
    return _check(path, [line.strip() for line in text.rstrip("\n").split("\n")])


def has_words(path: str | os.PathLike) -> bool:
    """Returns whether a file is a torch checkpoint that includes its vocabulary."""
    path = epath.Path(path)
    if not torch_files.is_torch(path):
        return False
    objects = torch_files.read_objects(path)
    return isinstance(objects, Mapping) and "word2idx" in objects


def find_tokenizer(
    given: str, source: WeightSource, kinds: Collection[str], rows: int
) -> TokenizerFile:
    """Returns the tokenizer of a model with a token for each row of its table.

    Args:
      given: path of its file; "" for one beside the weights or, for CLIP's merges, in an installed
        package.
      source: the weights, with the files beside them.
      kinds: names of `tokenizer_files.FILES` that the model can have.
      rows: rows of the table.

    Raises:
      UserError: there is none, it is of another kind, or has another number of tokens.
    """
    places = [name for name, kind in TOKENIZER_FILES.items() if kind in kinds]
    there = next((name for name in places if source.content(name) is not None), "")
    packaged = next((_PACKAGED[kind] for kind in kinds if kind in _PACKAGED), "")
    where = given or there or packaged
    if not where:
        raise UserError(
            f"it has no tokenizer: put its {' or '.join(places)} beside it, or use --vocabulary "
            "to name the file."
        )
    if there and not given:
        file = parse_file(TOKENIZER_FILES[there], source.content(there) or b"", there)
    else:
        file = read_vocabulary(where)
    if file.name not in kinds:
        raise UserError(
            f"{where} is a {file.name}, but the model needs {' or '.join(places)}: use the file "
            "that was published with it."
        )
    if len(file) != rows:
        raise UserError(
            f"{where} has {len(file):,} tokens, but the model has {rows:,}: it belongs to another "
            "model; use the file that was published with the weights."
        )
    return file


def _sort(path: epath.Path, holder: Any) -> list[str]:
    fields = holder.state if isinstance(holder, Inert) else holder
    if not isinstance(fields, Mapping):
        fields = {}
    is_gensim = "key_to_index" in fields
    numbers = fields.get("key_to_index" if is_gensim else "word2idx")
    if not isinstance(numbers, Mapping) or not all(isinstance(word, str) for word in numbers):
        raise UserError(f"{path} has no vocabulary: it has no word2idx from words to numbers.")
    words = {number: word for word, number in numbers.items() if type(number) is int}
    if sorted(words) != list(range(len(numbers))):
        raise UserError(f"{path} does not number its {len(numbers):,} words from 0 on.")
    return _check(path, [words[number] for number in range(len(words))], may_be_empty=is_gensim)


def _check(path: epath.Path, words: list[str], may_be_empty: bool = False) -> list[str]:
    # A vocabulary file has one word per line, without surrounding blanks. The empty word, which
    # CMCM's tokenizer produces, is an empty line.
    for number, word in enumerate(words):
        if may_be_empty and not word and number < len(words) - 1:
            continue
        if not word or word.strip() != word or len(word.splitlines()) != 1:
            raise UserError(f"{path}: the word {word!r} of id {number} cannot be one line.")
    return words

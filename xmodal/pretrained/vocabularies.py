"""Vocabularies and tokenizers as published with models."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath

from xmodal.core.errors import UserError
from xmodal.core.untrusted import pickles
from xmodal.data.text.tokenizer_files import parse_file, read_vocabulary, split_vocabulary
from xmodal.pretrained.torch_files import SUFFIXES, attributes, read_objects
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
    """
    path = epath.Path(path)
    try:
        if path.name.endswith((".pkl", ".bin")):
            return _sort(pickles.loads(path.read_bytes()))
        if path.name.endswith(SUFFIXES):
            return _sort(read_objects(path))
        text = path.read_bytes().decode("utf-8-sig")
        return _sort(json.loads(text)) if path.name.endswith(".json") else split_vocabulary(text)
    except (*pickles.DAMAGE, OSError, RuntimeError) as error:
        raise UserError(f"{path} cannot be read as a vocabulary ({error}).") from error


def _sort(holder: Any) -> list[str]:
    fields = attributes(holder)
    numbers = fields.get("key_to_index", fields.get("word2idx"))
    if not isinstance(numbers, Mapping):
        raise ValueError("it has no word2idx from words to numbers")
    return sorted(numbers, key=numbers.__getitem__)


def words_of(
    source: WeightSource, rows: int, first_words: tuple[str, ...] = ()
) -> dict[str, bytes]:
    """Returns the vocabulary of a table of word vectors as the file `vocab.txt`.

    Args:
      source: the weights, whose vocabulary is asked for, in the checkpoint, or in its folder.
      rows: rows of the table.
      first_words: first words of the table that the vocabulary omits.
    """
    beside = epath.Path(source.path) / "vocab.txt"
    if source.vocabulary:
        words = read_words(source.vocabulary)
    elif "word2idx" in source.objects:
        words = _sort(source.objects)
    elif beside.is_file():
        words = read_words(beside)
    else:
        raise UserError(
            f"it has no words for its {rows:,} word vectors: use --vocabulary to name the "
            "vocabulary that was published with it (.pkl, .json, or one word per line)."
        )
    words = [*first_words, *words]
    if len(words) != rows:
        raise UserError(
            f"its vocabulary has {len(words):,} words, but the model has {rows:,} word vectors: "
            "use the vocabulary that was published with it."
        )
    return as_file(words)


def as_file(words: Sequence[str]) -> dict[str, bytes]:
    """Returns words as the file `vocab.txt`."""
    return {"vocab.txt": "".join(f"{word}\n" for word in words).encode()}


def find_tokenizer(
    source: WeightSource, kinds: Mapping[str, Mapping[str, Any]], rows: int
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Returns the settings and the file of a model's tokenizer.

    Args:
      source: the weights, with the files beside them. CLIP's merges may be in an installed package.
      kinds: names of `tokenizer_files.FILES` that the model can have -> the settings of this kind.
      rows: rows of the model's table, one per token.
    """
    places = [name for name, kind in TOKENIZER_FILES.items() if kind in kinds]
    there = next((name for name in places if source.beside(name).exists()), "")
    where = source.vocabulary or there or next((_PACKAGED[k] for k in kinds if k in _PACKAGED), "")
    if not where:
        raise UserError(
            f"it has no tokenizer: put its {' or '.join(places)} beside it, or use --vocabulary "
            "of `xmodal convert` to name the file."
        )
    if where == there:
        file = parse_file(TOKENIZER_FILES[there], source.beside(there).read_bytes(), there)
    else:
        file = read_vocabulary(where)
    if file.name not in kinds or len(file) != rows:
        raise UserError(
            f"{where} is a {file.name} of {len(file):,} tokens, but the model needs "
            f"{' or '.join(places)} of {rows:,}: use the file that was published with the weights."
        )
    return dict(kinds[file.name]), {file.name: file.content}

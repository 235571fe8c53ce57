"""Published word vectors: GloVe, word2vec and fastText files; and as the table of a tower."""

import gzip
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from xmodal.core.errors import UserError
from xmodal.core.untrusted.saved_arrays import DAMAGE, load_arrays
from xmodal.pretrained.folder import Description
from xmodal.pretrained.published_weights import Published, PublishedTower
from xmodal.pretrained.vocabularies import as_file, read_words
from xmodal.pretrained.weight_files import WeightSource


class WordVectors(NamedTuple):
    """A table of words.

    Attributes:
      rows: word -> its row in `vectors`.
      vectors: float32 [V, D].
    """

    rows: Mapping[str, int]
    vectors: np.ndarray


def load_word_vectors(
    path: str | os.PathLike, vocabulary: Collection[str] | None = None
) -> WordVectors:
    """Returns a published table of word vectors.

    `.npz`: arrays `words` [V] and `vectors` [V, D]. `.bin`: word2vec's binary format. Any other
    name: text, one word and its numbers per line, separated by single spaces, with or without a
    first line of two integers (number of words, D). Text and binary files may be gzipped. If a word
    occurs twice, the first vector is used.

    Args:
      path: the file.
      vocabulary: keep only these words, so that a file larger than memory can be read; the numbers
        of other words are not parsed.

    Returns:
      The words in the order of the file.
    """
    path = os.fspath(path)
    name = path.removesuffix(".gz")
    keep = None if vocabulary is None else frozenset(vocabulary)
    try:
        with open(path, "rb") as raw:
            is_packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            file: Any = gzip.GzipFile(fileobj=raw) if is_packed else raw
            if name.endswith(".npz"):
                with load_arrays(file) as arrays:
                    return _collect(zip(arrays["words"], arrays["vectors"], strict=True), keep)
            return _collect((_read_binary if name.endswith(".bin") else _read_text)(file), keep)
    except DAMAGE as error:
        raise UserError(f"{path} cannot be read as word vectors: {error}.") from error


def _collect(entries: Iterable[tuple[str, Any]], keep: frozenset[str] | None) -> WordVectors:
    rows: dict[str, int] = {}
    # Grows in place: a list of arrays would need twice the memory of the table.
    buffer, dim = bytearray(), 0
    for word, values in entries:
        dim = len(values)
        if word not in rows and (keep is None or word in keep):
            rows[str(word)] = len(rows)
            buffer += np.array(values).astype(np.float32).tobytes()
    return WordVectors(rows, np.frombuffer(buffer, np.float32).reshape(len(rows), dim))


def _read_text(file: BinaryIO) -> Iterator[tuple[str, list[bytes]]]:
    # Lines end at a line feed only: words contain every other kind of space.
    first = file.readline()
    count, dim = _parse_header(first)
    if not dim:
        dim = first.rstrip().count(b" ")
        file.seek(0)
    number = 0
    for line in filter(bytes.strip, file):
        number += 1
        # From the right: some words of GloVe 840B contain spaces.
        name, *values = line.rstrip().rsplit(b" ", dim)
        if not dim or len(values) != dim:
            raise ValueError(f"word {number} has {len(values)} numbers, expected {dim or 'some'}")
        yield name.decode("utf-8", "replace"), values
    if count and number != count:
        raise ValueError(f"it has {number} words, its first line says {count}")


def _read_binary(file: BinaryIO) -> Iterator[tuple[str, np.ndarray]]:
    count, dim = _parse_header(file.readline(100))
    for index in range(count):
        name = bytearray()
        while (byte := file.read(1)) not in (b" ", b""):
            name += byte
        data = file.read(4 * dim)
        if len(data) < 4 * dim:
            raise EOFError(f"it has {index} words, its start says {count}")
        # Some writers end every vector with a line feed, others do not.
        yield name.lstrip(b"\n").decode("utf-8", "replace"), np.frombuffer(data, "<f4")


def _parse_header(line: bytes) -> tuple[int, int]:
    """Number of words and D if a line consists of two integers, else zeros."""
    fields = line.split()
    is_header = len(fields) == 2 and all(field.isdigit() for field in fields)
    return (int(fields[0]), int(fields[1])) if is_header else (0, 0)


def find_vectors(path: str | os.PathLike, words: Sequence[str]) -> dict[int, np.ndarray]:
    """Returns the vectors of words in a published table, by their positions in `words`.

    Args:
      path: see `load_word_vectors`.
      words: a vocabulary; looked up as written, and else by `shorten_word`.
    """
    spellings = [(word, shorten_word(word)) for word in words]
    table = load_word_vectors(path, {spelling for each in spellings for spelling in each})
    rows = [table.rows.get(word, table.rows.get(short)) for word, short in spellings]
    return {place: table.vectors[row] for place, row in enumerate(rows) if row is not None}


def shorten_word(word: str) -> str:
    """Returns the form of a word that PVSE's code looks up if GloVe's table lacks the word."""
    return re.sub(r"[-.']", "", word).split("/")[0]


def load_word_table(path: str | os.PathLike, vocabulary: str = "") -> WeightSource:
    """Returns a file of word vectors as a source; see `load_word_vectors`.

    Words with blanks, which occur in some published files, are left out: the tokenizer never
    produces them, and a vocabulary has one word per line.

    Args:
      path: see `load_word_vectors`.
      vocabulary: file of the only words to keep, see `vocabularies.read_words`; "" for all.

    Returns:
      A source with the array `vectors` and the words as `vocab.txt`.
    """
    table = load_word_vectors(path, read_words(vocabulary) if vocabulary else None)
    rows = {word: row for word, row in table.rows.items() if word.split() == [word]}
    if not rows:
        kept = f" of {vocabulary}" if vocabulary else ""
        raise UserError(f"{path} has no word{kept} with a vector.")
    vectors = table.vectors[list(rows.values())]
    return WeightSource(os.fspath(path), {"vectors": vectors}, as_file(list(rows)))


def describe_words(source: WeightSource) -> Published:
    """Returns the tower of a table, which averages the vectors of a text's words."""
    vocab_size, width = source.arrays["vectors"].shape
    encoder = {"name": "words", "vocab_size": vocab_size, "width": width}
    text = Description(encoder, {"name": "mean"}, {"tokenizer": "words"}, source.files)
    return Published(text=PublishedTower(text, {"encoder/table": "vectors"}))

"""Published word vectors: GloVe, word2vec and fastText files."""

import dataclasses
import gzip
import io
import os
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

from xmodal.core.errors import UserError
from xmodal.core.progress import progress
from xmodal.core.untrusted.archives import open_gzip
from xmodal.core.untrusted.saved_arrays import DAMAGE, load_arrays
from xmodal.data.text.words import find_row

# D, and every word with its vector, float32 [D]. Words outside the vocabulary may be omitted.
_Table = tuple[int, Iterator[tuple[str, np.ndarray]]]

_BUFFER = 2**20
_DAMAGED = "the file is damaged or truncated; download it again"


@dataclasses.dataclass(frozen=True)
class WordVectors:
    """A table of words.

    Attributes:
      rows: word -> its row in `vectors`.
      vectors: float32 [V, D].
    """

    rows: Mapping[str, int]
    vectors: np.ndarray

    def find(self, token: str) -> int | None:
        """Returns the row of a token, or else of its lower case; None if neither exists."""
        return find_row(self.rows, token)


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
      vocabulary: keep only these words (see `bag_of_words.make_vocabulary`), so that a file larger
        than memory can be read; the numbers of other words are not parsed.

    Returns:
      The words in the order of the file.

    Raises:
      UserError: the file is missing, unreadable, empty, truncated or in another format, a line has
        a different length from the first, or a value is not a finite number.
    """
    path = os.fspath(path)
    keep = None if vocabulary is None else frozenset(vocabulary)
    try:
        with (
            progress(f"Reading the bytes of {path}", os.path.getsize(path)) as advance,
            io.BufferedReader(_WatchedFile(path, advance), _BUFFER) as raw,
        ):
            magic = raw.read(2)
            raw.seek(0)
            if path.endswith(".npz"):
                return _collect(_read_npz(path, raw), keep)
            if magic == b"PK":
                raise UserError(f"{path} is a zip archive: unpack it and name the file inside.")
            file: Any = open_gzip(raw) if magic == b"\x1f\x8b" else raw
            is_binary = path.removesuffix(".gz").endswith(".bin")
            return _collect((_read_binary if is_binary else _read_text)(path, file, keep), keep)
    except FileNotFoundError as error:
        raise UserError(f"There are no word vectors at {path}.") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{path} cannot be unpacked ({error}): {_DAMAGED}.") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from error


def find_vectors(
    path: str | os.PathLike, words: Sequence[str], misses: str = "shorten"
) -> dict[int, np.ndarray]:
    """Returns the vectors of words in a published table, by their positions in `words`.

    Args:
      path: see `load_word_vectors`.
      words: a vocabulary; looked up as written.
      misses: "shorten" looks the others up by `shorten_word`, "random" leaves them out.

    Raises:
      UserError: see `load_word_vectors`.
    """
    spellings = [(word, shorten_word(word)) if misses == "shorten" else (word,) for word in words]
    table = load_word_vectors(path, {spelling for each in spellings for spelling in each})
    found = {}
    for number, each in enumerate(spellings):
        row = next((table.rows[spelling] for spelling in each if spelling in table.rows), None)
        if row is not None:
            found[number] = table.vectors[row]
    return found


def shorten_word(word: str) -> str:
    """Returns the form of a word that PVSE's code looks up if GloVe's table lacks the word."""
    return re.sub(r"[-.']", "", word).split("/")[0]


class _WatchedFile(io.FileIO):
    """A file that reports how many bytes are read: a table of millions of words takes minutes."""

    def __init__(self, path: str, advance: Callable[[int], None]) -> None:
        super().__init__(path)
        self._advance = advance

    def readinto(self, buffer: Any) -> int:
        count = super().readinto(buffer)
        self._advance(count)
        return count


def _collect(table: _Table, keep: frozenset[str] | None) -> WordVectors:
    dim, entries = table
    rows: dict[str, int] = {}
    # Grows in place: a list of arrays would need twice the memory of the table.
    buffer = bytearray()
    for word, vector in entries:
        if word not in rows and (keep is None or word in keep):
            rows[word] = len(rows)
            buffer += vector.tobytes()
    return WordVectors(rows, np.frombuffer(buffer, np.float32).reshape(len(rows), dim))


def _read_text(path: str, file: BinaryIO, keep: frozenset[str] | None) -> _Table:
    # Lines end at a line feed only: words contain every other kind of space.
    first = file.readline()
    count, dim = _parse_header(path, first)
    if dim is None:
        dim = first.rstrip().count(b" ")
        file.seek(0)
    if not dim:
        raise UserError(f"{path} starts with {first[:40]!r}, not with a word and its numbers.")

    def entries() -> Iterator[tuple[str, np.ndarray]]:
        found = 0
        for number, line in enumerate(file, start=1 if count is None else 2):
            if not line.strip():
                continue
            found += 1
            # From the right: some words of GloVe 840B contain spaces.
            name, *values = line.rstrip().rsplit(b" ", dim)
            place = f"{path} line {number}"
            extra = sum(map(_is_number, name.split(b" ")[1:]))
            if len(values) != dim or extra:
                raise UserError(
                    f"{place} has {len(values) + extra} numbers, expected {dim}: {_DAMAGED}."
                )
            word = name.decode("utf-8", "replace")
            if keep is None or word in keep:
                yield word, _parse_values(f"{place} ({word!r})", values)
        if count is not None and found != count:
            raise UserError(f"{path} has {found} words, its first line says {count}: {_DAMAGED}.")

    return dim, entries()


def _read_binary(path: str, file: BinaryIO, keep: frozenset[str] | None) -> _Table:
    first = file.readline(100)
    count, dim = _parse_header(path, first)
    if not dim:
        raise UserError(f"{path} starts with {first[:40]!r}, not with a number of words and D.")

    def entries() -> Iterator[tuple[str, np.ndarray]]:
        for index in range(count):
            name = bytearray()
            while (byte := file.read(1)) not in (b" ", b""):
                name += byte
            data = file.read(4 * dim)
            if len(data) < 4 * dim:
                raise UserError(f"{path} has {index} words, its start says {count}: {_DAMAGED}.")
            # Some writers end every vector with a line feed, others do not.
            word = name.lstrip(b"\n").decode("utf-8", "replace")
            if keep is None or word in keep:
                vector = np.frombuffer(data, "<f4")
                _check_finite(f"{path} word {index + 1} ({word!r})", vector)
                yield word, vector
        if file.read(2).strip(b"\n"):
            raise UserError(f"{path} has more than the {count} words of its start: {_DAMAGED}.")

    return dim, entries()


def _read_npz(path: str, file: BinaryIO) -> _Table:
    try:
        with load_arrays(file) as arrays:
            words, vectors = arrays["words"], arrays["vectors"]
    except DAMAGE as error:
        raise UserError(
            f"{path} is not an archive of arrays `words` (of strings) and `vectors`: {error}."
        ) from error
    if words.ndim != 1 or vectors.ndim != 2 or len(words) != len(vectors):
        raise UserError(
            f"{path} has words {list(words.shape)} and vectors {list(vectors.shape)}, which must "
            "be [V] and [V, D]."
        )
    if words.dtype.kind != "U" or vectors.dtype.kind != "f":
        raise UserError(
            f"{path} has words of {words.dtype} and vectors of {vectors.dtype}, which must be "
            "strings and floats."
        )
    vectors = vectors.astype(np.float32)
    _check_finite(path, vectors)
    return vectors.shape[1], zip(map(str, words), vectors, strict=True)


def _parse_header(path: str, line: bytes) -> tuple[int | None, int | None]:
    """Number of words and D if a line consists of two integers."""
    fields = line.split()
    if len(fields) == 2 and all(field.isdigit() for field in fields):
        if len(fields[0]) > 12 or len(fields[1]) > 5:
            raise UserError(f"{path} starts with {line[:40]!r}, no size of a table: {_DAMAGED}.")
        return int(fields[0]), int(fields[1])
    return None, None


def _parse_values(place: str, values: list[bytes]) -> np.ndarray:
    try:
        vector = np.array(values).astype(np.float32)
    except ValueError:
        bad = next((value for value in values if not _is_number(value)), values[0])
        raise UserError(f"{place}: {bad.decode(errors='replace')!r} is not a number.") from None
    _check_finite(place, vector)
    return vector


def _check_finite(place: str, vector: np.ndarray) -> None:
    if not np.isfinite(vector).all():
        raise UserError(f"{place} has a value that is not finite: {_DAMAGED}.")


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

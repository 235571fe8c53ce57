"""Readers of lines, JSON and zip archives; a truncated or damaged file is an error."""

import fnmatch
import gzip
import json
import pathlib
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any, TypeAlias

from etils import epath

from xmodal.core.errors import UnexpectedFilesError
from xmodal.core.folders import walk


class DamagedFileError(UnexpectedFilesError):
    """A file is truncated, or not in the format that its name says."""


_ZIP_ERRORS = (
    zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError,
)  # fmt: skip
AnyPath: TypeAlias = pathlib.Path | epath.Path
"""A path on the disk or, as `epath.Path`, in a bucket."""


def read_json(path: pathlib.Path, **hooks: Any) -> Any:
    """Reads a JSON file, gzipped or not; see `parse_json`."""
    return parse_json(b"".join(read_lines(path)), str(path), **hooks)


def parse_json(encoded: bytes, source: str, **hooks: Any) -> Any:
    """Parses JSON that was read from `source`, which is named in errors.

    Args:
      encoded: the text as UTF-8.
      source: source of the text.
      **hooks: see `json.loads`.

    Raises:
      DamagedFileError: it is truncated or not JSON, or an object has a key twice.
    """
    try:
        return json.loads(encoded, **hooks)
    except ValueError as error:
        raise DamagedFileError(f"{source} cannot be read as JSON: {error}") from error


def read_jsonl(path: pathlib.Path) -> Iterator[tuple[str, Any]]:
    """Yields the place of every value in a file with one per line ("captions.jsonl line 3"), and
    the value; see `read_lines` and `parse_json`.
    """
    for number, line in enumerate(read_lines(path), 1):
        if line.strip():
            yield f"{path.name} line {number}", parse_json(line, f"{path} line {number}")


def read_lines(path: AnyPath) -> Iterator[bytes]:
    """Reads the lines of a file, gzipped or not, with their line ends.

    Raises:
      FileNotFoundError: there is no such file.
      DamagedFileError: the gzip stream is truncated or damaged.
    """
    number = 0
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        try:
            for line in gzip.GzipFile(fileobj=file) if packed else file:
                number += 1
                yield line
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise DamagedFileError(
                f"{path} is truncated or damaged after line {number:,} ({error}); download it again"
            ) from error


def open_archive(path: pathlib.Path) -> zipfile.ZipFile:
    """Opens a zip archive.

    Raises:
      UnexpectedFilesError: it is truncated or not a zip archive.
    """
    try:
        return zipfile.ZipFile(path)
    except _ZIP_ERRORS as error:
        raise UnexpectedFilesError(
            f"{path} is truncated or not a zip archive ({error}); download it again"
        ) from error


def read_member(archive: zipfile.ZipFile, member: str) -> bytes:
    """Reads a file in an archive.

    Raises:
      UnexpectedFilesError: it is damaged.
    """
    try:
        return archive.read(member)
    except (OSError, *_ZIP_ERRORS) as error:
        raise UnexpectedFilesError(f"{archive.filename}: {member}: {error}") from error


def files_below(folder: pathlib.Path, *patterns: str) -> list[pathlib.Path]:
    """Sorted paths of the files whose names match one of the patterns, such as `*.tsv`."""
    return sorted(
        parent / name
        for parent, names in walk(folder)
        for name in names
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    )

"""Files of runs, evaluations, indexes and models, in folders or on object stores.

Writing is atomic: a kill or a full disk leaves no incomplete file. Object stores, such as
gs://BUCKET/runs, have files but no folders.
"""

import contextlib
import csv
import hashlib
import importlib.metadata
import io
import json
import math
import os
import pathlib
import secrets
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from etils import epath

from xmodal.core.errors import UserError

# Folder of the final evaluation in the folder of a run.
FINAL = "test"


def cache_folder(*names: str) -> pathlib.Path:
    """Returns the path of a folder below `~/.cache/xmodal`, or `$XDG_CACHE_HOME/xmodal`."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(root, "xmodal", *names)


def is_in_object_store(path: epath.PathLike) -> bool:
    """Returns whether a path is on an object store."""
    return "://" in os.fspath(path)


def absolute(path: epath.PathLike) -> epath.Path:
    """Returns an absolute path; a path on an object store is already absolute.

    `epath.Path.absolute` mistakes gs://BUCKET for a relative path.
    """
    path = epath.Path(path)
    return path if is_in_object_store(path) else path.absolute()


def split_folders(text: str) -> list[str]:
    """Returns the folders of a list `A,B`; a folder that exists may have commas in its name."""
    if "://" not in text and os.path.exists(text):
        return [text]
    return [part.strip() for part in text.split(",") if part.strip()]


@contextlib.contextmanager
def replacing(path: epath.PathLike) -> Iterator[BinaryIO]:
    """Opens a new file that replaces `path` at the end, unless there is an error."""
    path = epath.Path(path)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with temporary.open("wb") as file:
            yield file
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def new_folder(path: epath.PathLike) -> Iterator[epath.Path]:
    """Makes a hidden folder, and renames it to `path` at the end, unless there is an error."""
    path = epath.Path(path)
    hidden = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    hidden.mkdir(parents=True)
    try:
        yield hidden
        hidden.rename(path)
    finally:
        hidden.rmtree(missing_ok=True)


def write_files(
    folder: epath.PathLike, contents: Mapping[str, str | bytes], *, stale: Collection[str] = ()
) -> None:
    """Writes files that belong together: writes all of them under other names, then renames them.

    A full disk or a kill while writing leaves older files unchanged. Renaming is quick and keeps
    the order, so a reader that waits for the last file also finds the others.

    Args:
      folder: created if missing; existing files of the same names are replaced, others are kept.
      contents: file name -> content.
      stale: names of outdated files, removed before the new ones get their names.
    """
    folder = epath.Path(folder)
    with explained(folder), contextlib.ExitStack() as unnamed:
        folder.mkdir(parents=True, exist_ok=True)
        for name in reversed([*contents]):  # The last one entered is named first.
            content, file = contents[name], unnamed.enter_context(replacing(folder / name))
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
        for name in stale:
            (folder / name).unlink(missing_ok=True)


def write_file(path: epath.PathLike, content: str | bytes) -> None:
    """Does what `write_files` does, for one file by its path."""
    place = epath.Path(path)
    write_files(place.parent, {place.name: content})


def check_writable(folder: epath.PathLike) -> None:
    """Raises an error if `write_files` cannot write a folder; leaves nothing behind."""
    with explained(folder):
        place = epath.Path(folder)
        while not (is_in_object_store(place) or place.exists()):
            place = place.parent
        probe = place / f".probe-{secrets.token_hex(4)}"
        probe.write_bytes(b"")
        probe.unlink()


@contextlib.contextmanager
def explained(folder: epath.PathLike) -> Iterator[None]:
    """Explains why a folder cannot be written."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"Cannot write to {folder}: {reason}. Use another folder.") from error


def format_json(content: Mapping[Any, Any]) -> str:
    """JSON of numbers, strings, lists and objects; numbers that JSON lacks become null."""
    return json.dumps(finite_or_none(content), indent=2) + "\n"


def format_csv(model: str, metrics: Mapping[str, float]) -> str:
    """CSV with one row per metric: its value, and its interval and deviation, if any."""
    ends = ("low", "high", "std")
    rows: list[tuple[str | float, ...]] = [("model", "tag", "value", *ends)]
    for tag, value in metrics.items():
        base, _, end = tag.rpartition("_")
        if end in ends and base in metrics:
            continue
        numbers = (value, *(metrics.get(f"{tag}_{end}", math.nan) for end in ends))
        rows.append((model, tag, *("" if math.isnan(number) else number for number in numbers)))
    return csv_text(rows)


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Returns the content of a CSV file with these rows."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def finite_or_none(content: Any) -> Any:
    """Returns JSON content with None in place of NaN and infinity, at any depth."""
    if isinstance(content, Mapping):
        return {name: finite_or_none(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [finite_or_none(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def read_json(path: epath.Path, remedy: str) -> dict[str, Any]:
    """Returns the object in a file.

    Args:
      path: path of the file.
      remedy: the end of the error if it is damaged.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(
            f"{path} is damaged: it cannot be read as JSON ({error}): {remedy}"
        ) from error


def read_numbers(path: epath.Path, remedy: str) -> dict[str, float]:
    """Returns the numbers in a file by tag; null, an undefined number, becomes NaN.

    Args:
      path: path of the file.
      remedy: the end of the error if it is damaged.
    """
    return as_numbers(read_json(path, remedy))


def as_numbers(found: dict[str, Any]) -> dict[str, float]:
    """Does what `read_numbers` does, for an object of a file."""
    return {tag: math.nan if value is None else value for tag, value in found.items()}


def sha256_of(path: epath.Path) -> str:
    """Returns the checksum of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(2**22):
            digest.update(chunk)
    return digest.hexdigest()


def find_in_package(package: str, name: str) -> epath.Path | None:
    """Returns a file of an installed package, which is not imported; None without it."""
    try:
        files = importlib.metadata.files(package) or []
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return None
    return next((epath.Path(str(file.locate())) for file in files if file.name == name), None)


def check_files(folder: epath.Path, checksums: Mapping[str, str], remedy: str) -> None:
    """Raises an error unless files are as they were written.

    Args:
      folder: their folder.
      checksums: file name -> `sha256_of` it when it was written.
      remedy: the end of the error.
    """
    for name, expected in checksums.items():
        path = folder / name
        if not path.exists() or sha256_of(path) != expected:
            state = "damaged or truncated" if path.exists() else "missing"
            raise UserError(f"{path} is {state}: {remedy}")

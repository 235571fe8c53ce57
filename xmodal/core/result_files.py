"""Writes result files together, so that no file is left incomplete."""

import contextlib
import csv
import io
import json
import math
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from etils import epath

from xmodal.core.atomic import replacing
from xmodal.core.errors import UserError
from xmodal.core.object_store import is_in_object_store

# Folder of the final evaluation in the folder of a run.
FINAL = "test"


def write_files(
    folder: epath.PathLike,
    contents: Mapping[str, str | bytes],
    *,
    stale: Collection[str] = (),
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
    with _explained(folder), contextlib.ExitStack() as unnamed:
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
    with _explained(folder):
        place = epath.Path(folder)
        while not (is_in_object_store(place) or place.exists()):
            place = place.parent
        probe = place / f".probe-{secrets.token_hex(4)}"
        probe.write_bytes(b"")
        probe.unlink()


@contextlib.contextmanager
def _explained(folder: epath.PathLike) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"Cannot write to {folder}: {error}. Use another folder.") from error


def format_json(content: Mapping[str, Any]) -> str:
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

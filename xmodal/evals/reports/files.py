"""Result files: computed before anything is written, and nothing is left half there."""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from etils import epath

from xmodal.options import UserError


def write_files(
    folder: epath.PathLike, contents: Mapping[str, str | Callable[[epath.Path], None]]
) -> None:
    """Writes the files of one evaluation: first all of them beside the folder, then moves them in.

    A full disk or a kill while writing leaves the folder as it was. Moving is quick and keeps the
    order, so whoever waits for the last file finds the others.

    Args:
      folder: made if it is not there; other files in it stay, those of the same names are
        replaced.
      contents: file name -> its text, or a function that writes it to the path it is given.

    Raises:
      UserError: the folder cannot be written.
    """
    folder = epath.Path(folder)
    staging = folder.parent / f"{folder.name}.tmp"
    try:
        if staging.exists():  # of a process that was killed
            staging.rmtree()
        staging.mkdir(parents=True)
        try:
            for name, content in contents.items():
                if isinstance(content, str):
                    (staging / name).write_text(content)
                else:
                    content(staging / name)
            folder.mkdir(parents=True, exist_ok=True)
            for name in contents:
                (staging / name).replace(folder / name)
        finally:
            staging.rmtree()
    except OSError as error:
        raise UserError(f"Cannot write to {folder}: {error}. Name another folder.") from error


def write_text(path: epath.PathLike, text: str) -> None:
    """Writes a file so that it is there whole or not at all."""
    path = epath.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f"{path.name}.tmp"
    temporary.write_text(text)
    temporary.replace(path)


def format_json(content: Mapping[str, Any]) -> str:
    """JSON of numbers, texts, lists and objects; NaN, which JSON lacks, becomes null."""
    return json.dumps(_without_nan(content), indent=2) + "\n"


def _without_nan(content: Any) -> Any:
    if isinstance(content, Mapping):
        return {name: _without_nan(value) for name, value in content.items()}
    return None if isinstance(content, float) and math.isnan(content) else content

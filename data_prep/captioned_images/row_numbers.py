"""Finds tables whose captions are shifted against images named by number, or are numbers."""

import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from data_prep.captioned_images.captioned_pictures import is_empty
from data_prep.captioned_images.options import FILE
from data_prep.errors import UnexpectedFilesError

_NUMBER = re.compile(r"\s*[-+]?\d+([.,]\d+)?\s*")

_SHOWN = 3


def check_numbers(named: Iterable[str], missing: Iterable[str], unused: Iterable[str]) -> None:
    """Checks that images named by number are not counted from another number than the rows.

    Args:
      named: names of images in the tables.
      missing: those of them without an image.
      unused: paths of images without a row.

    Raises:
      UnexpectedFilesError: the names are successive numbers; the image of the first is missing,
        and there is one after the last, or the reverse.
    """
    numbers = {number for name in named if (number := _number(name)) is not None}
    if not numbers or len(numbers) <= max(numbers) - min(numbers):
        return
    without = {number: name for name in missing if (number := _number(name)) is not None}
    extra = {number: path for path in unused if (number := _number(path)) is not None}
    low, high = min(numbers), max(numbers)
    for lost, more in ((low, high + 1), (high, low - 1)):
        if lost in without and more in extra:
            raise UnexpectedFilesError(
                f"the tables name the images {low} to {high}, but {without[lost]} does not exist, "
                f"and {extra[more]} has no row: all images may be shifted against their captions; "
                "count both from the same number"
            )


def _number(path: str) -> int | None:
    """The number that a file is named by."""
    stem = pathlib.PurePosixPath(path).stem
    return int(stem) if stem.isdecimal() and stem.isascii() else None


class NumericColumns:
    """Finds columns of captions that hold only numbers, such as an index.

    Args:
      columns: the columns.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._examples: dict[str, list[str]] = {column: [] for column in columns}

    def see(self, cells: Mapping[str, Any]) -> None:
        """Takes note of a row."""
        for column in list(self._examples):
            value = cells.get(column)
            if is_empty(value):
                continue
            if not _NUMBER.fullmatch(str(value)):
                del self._examples[column]
            elif len(self._examples[column]) < _SHOWN:
                self._examples[column].append(str(value))

    def check(self, path: pathlib.Path, others: Sequence[str]) -> None:
        """Checks that no column had only numbers.

        Raises:
          UnexpectedFilesError: one had, in more than one row.
        """
        for column, examples in self._examples.items():
            if len(examples) > 1:
                listed = ", ".join(map(repr, others)) or "none"
                raise UnexpectedFilesError(
                    f"{path}: the column of captions {column!r} has only numbers "
                    f"({', '.join(examples)}, ...); name the column of the captions with "
                    f'{{"captions": "COLUMN"}} in {FILE}; others are {listed}'
                )

"""Finds captions that are only numbers, such as an index, a class or a box."""

import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from data_prep.captioned_images.captioned_pictures import is_empty
from data_prep.captioned_images.options import FILE
from xmodal.core.errors import UnexpectedFilesError

_NUMBER = re.compile(r"\s*[-+]?\d+([.,]\d+)?\s*")
_NUMBERS = re.compile(r"[-+.,;:\s\d]+")
_SHOWN = 3


def is_number(value: Any) -> bool:
    """Returns whether the value of a cell is a number, which may be written as text."""
    return _NUMBER.fullmatch(str(value)) is not None


def check_captions(examples: Sequence[Sequence[str]]) -> None:
    """Checks that the captions of some pictures are not only numbers, such as labels and boxes.

    Raises:
      UnexpectedFilesError: all of them are, of more than one picture.
    """
    captions = [caption for each in examples for caption in each]
    if len(examples) > 1 and all(map(_NUMBERS.fullmatch, captions)):
        shown = ", ".join(map(repr, captions[:_SHOWN]))
        raise UnexpectedFilesError(
            f"the captions are only numbers ({shown}, ...), as of classes or boxes; name their "
            f'column or key with {{"captions": "NAME"}} in {FILE}, or write them in words'
        )


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
            if not is_number(value):
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

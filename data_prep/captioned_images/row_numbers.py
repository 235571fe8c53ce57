"""Finds tables whose captions are shifted against images named by number, or are numbers."""

import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from data_prep.captioned_images.captioned_pictures import is_empty
from data_prep.captioned_images.options import FILE
from data_prep.errors import UnexpectedFilesError
from data_prep.reading.picture_names import composed

_NUMBER = re.compile(r"\s*[-+]?\d+([.,]\d+)?\s*")

_NUMBERS = re.compile(r"[-+.,;:\s\d]+")
_NUMBERED = re.compile(r"(?P<word>.*?)(?P<number>[0-9]{1,18})")
_SHOWN = 3


def check_numbers(named: Iterable[str], missing: Iterable[str], unused: Iterable[str]) -> None:
    """Checks that images named by number are not counted from another number than their captions.

    The number may follow a word, as in `img_0007.jpg`.

    Args:
      named: names of images with captions.
      missing: those of them without an image.
      unused: paths of images without captions.

    Raises:
      UnexpectedFilesError: the names are successive numbers; the image of the first is missing,
        and there is one after the last, or the reverse.
    """
    without, extra = _by_word(missing), _by_word(unused)
    for word, names in _by_word(named).items():
        low, high = min(names), max(names)
        if len(names) <= high - low:
            continue
        for lost, more in ((low, high + 1), (high, low - 1)):
            if (name := without.get(word, {}).get(lost)) and (
                path := extra.get(word, {}).get(more)
            ):
                raise UnexpectedFilesError(
                    f"there are captions of the images {low} to {high}, but no image for {name}, "
                    f"and no caption for {path}: all images may be shifted against their captions; "
                    "count both from the same number"
                )


def _by_word(paths: Iterable[str]) -> dict[str, dict[int, str]]:
    """The paths of files that are named by a number, by the word before it and the number."""
    found: dict[str, dict[int, str]] = {}
    for path in paths:
        if match := _NUMBERED.fullmatch(pathlib.PurePosixPath(path).stem):
            found.setdefault(composed(match["word"]), {})[int(match["number"])] = path
    return found


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

"""A picture with its captions, as read from a user's files, and the user's names for columns."""

import contextlib
import dataclasses
import json
import math
import pathlib
import re
from collections.abc import Callable, Iterable
from typing import Any, Self

from data_prep.building.record_counts import LeftOut
from data_prep.reading.split_names import check_split_names, split_of_name
from data_prep.reading.text_files import read_json
from xmodal.core.errors import UnexpectedFilesError

FILE = "captioned_images.json"
NO_TABLE = "none"
"""Value of `table` for a folder whose tables are not read."""
BY_CONTENT = f', or split by content with {{"split": "none"}} in {FILE}'
"""End of errors about splits."""

# What a spreadsheet shows in place of a value, in any language: #REF! and #BEZUG!, #N/A and #NV.
_ERROR_VALUE = re.compile(r"#[¡¿]?[^\W\d_a-z][^\Wa-z]*(/[^\Wa-z]+)?[!?]|#N/?[AV]")
# As in COCO's `train2017`, and in `train00001.tar`.
_YEAR_OR_SHARD = re.compile(r"(?<=\D)\d{3,}$")


@dataclasses.dataclass(frozen=True)
class ReadingOptions:
    """Names given by the user in `captioned_images.json`; "" for the documented ones.

    Attributes:
      table: path of the table, relative to the folder; "none" for shards and files beside images.
      image: the column of image file names or images.
      captions: the columns of captions, or the keys of JSON files.
      split: the column or key of splits; "none" to split by content even if there is one.
    """

    table: str = ""
    image: str = ""
    captions: tuple[str, ...] = ()
    split: str = ""

    @classmethod
    def read(cls, folder: pathlib.Path) -> Self:
        """Reads the options of a folder, or returns the defaults if it has none."""
        path = folder / FILE
        content = read_json(path) if path.is_file() else {}
        try:
            captions = content.pop("captions", ())
            content["captions"] = (captions,) if isinstance(captions, str) else tuple(captions)
            options = cls(**content)
            "".join([options.table, options.image, *options.captions, options.split])
        except (AttributeError, TypeError) as error:
            raise UnexpectedFilesError(
                f"{path} must be an object with the keys table, image, captions, split, whose "
                f"values are strings, or a list of strings for captions ({error})"
            ) from error
        return options


@dataclasses.dataclass(frozen=True)
class CaptionedPicture:
    """A picture with its captions.

    Attributes:
      name: unique name: the path of its file, or shard and member, or table and row.
      captions: its captions, at least one.
      split: `train`, `validation` or `test`, or "" if the files do not say.
      read: returns its bytes; call it before requesting the next picture. Raises `BadImageError`
        if there are none.
      is_file: whether it is a file. If not, only its content identifies it, and all rows or
        samples with the same content are one picture.
    """

    name: str
    captions: tuple[str, ...]
    split: str
    read: Callable[[], bytes]
    is_file: bool = True


def split_of_path(path: str, *, is_image: bool = False) -> str:
    """Returns the split that the path of a table or shard names; "" if there is none.

    The last folder or file that names a split decides: `val/...` or `captions_val.csv`;
    `train_val.csv` names none, as it has two. For an image, only whole names of folders count.
    """
    parts = path.split("/")
    for part in reversed(parts[:-1] if is_image else parts):
        words = [part] if is_image else re.split(r"[-_.]", part)
        found = {split_of_name(_YEAR_OR_SHARD.sub("", word)) for word in words} - {""}
        if found:
            return found.pop() if len(found) == 1 else ""
    return ""


def split_of_cell(value: Any, where: str) -> str:
    """Returns the split that a cell at `where` names; "" for an empty cell.

    Raises:
      UnexpectedFilesError: the cell names no known split.
    """
    name = "" if is_empty(value) else str(value)
    check_split_names({name: 1}, where, BY_CONTENT)
    return split_of_name(name)


def is_empty(value: Any) -> bool:
    """Returns whether a cell is blank, a missing number, or a spreadsheet's error value."""
    if isinstance(value, str):
        return not value.strip() or _ERROR_VALUE.fullmatch(value.strip()) is not None
    return value is None or (isinstance(value, float) and math.isnan(value))


def read_captions(cells: Iterable[Any], where: str) -> tuple[str, ...] | LeftOut:
    """Returns the different captions in cells, or why they are not read.

    A cell is a text, a list of texts, or a JSON list of texts. Some cells may be empty.

    Args:
      cells: the cells of a picture or a row.
      where: their place.
    """
    written: list[Any] = []
    for cell in cells:
        if isinstance(cell, str) and re.fullmatch(r"\[.*\]", cell.strip(), re.DOTALL):
            items: Any = [(cell,)]  # A list in another notation is no text.
            with contextlib.suppress(ValueError):
                items = json.loads(cell)
        else:
            items = cell if isinstance(cell, list) else [cell]
        written += items
    items = [item for item in written if not is_empty(item)]
    for item in items:
        if not isinstance(item, str):
            detail = f"{item!r:.60}: captions are texts, or lists of texts in JSON"
            return LeftOut(where, "caption is no text", detail)
    found = tuple(dict.fromkeys(map(str.strip, items)))
    return found or LeftOut(where, "empty caption", " ".join(filter(None, map(str, written))))

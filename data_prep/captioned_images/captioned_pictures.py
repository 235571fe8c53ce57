"""A picture with its captions, as read from a user's files."""

import contextlib
import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from data_prep.building.record_counts import LeftOut
from data_prep.captioned_images.options import BY_CONTENT
from data_prep.reading.split_names import check_split_names, split_of_name
from xmodal.core.untrusted.json_text import parse_json_text

# As in COCO's `train2017`, and in `train00001.tar`.
_YEAR_OR_SHARD = re.compile(r"(?<=\D)\d{3,}$")


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


def split_of_path(path: str) -> str:
    """Returns the split in a path such as `val/...` or `captions_val.csv`; "" if there is none.

    The last folder or file that names a split decides; `train_val.csv` names none, as it has two.
    """
    for part in reversed(path.split("/")):
        found = {_split_of_word(word) for word in re.split(r"[-_.]", part)} - {""}
        if found:
            return found.pop() if len(found) == 1 else ""
    return ""


def split_of_folder(path: str) -> str:
    """Returns the split of a file in a folder called `train`, `val`, ...; "" if there is none."""
    folders = path.split("/")[:-1]
    return next((split for split in map(_split_of_word, reversed(folders)) if split), "")


def _split_of_word(word: str) -> str:
    return split_of_name(_YEAR_OR_SHARD.sub("", word))


def split_of_cell(value: Any, where: str) -> str:
    """Returns the split that a cell at `where` names; "" for an empty cell.

    Raises:
      UnexpectedFilesError: the cell names no known split.
    """
    name = "" if is_empty(value) else str(value)
    check_split_names({name: 1}, where, BY_CONTENT)
    return split_of_name(name)


def is_empty(value: Any) -> bool:
    """Returns whether a cell is blank or a missing number."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, float) and math.isnan(value))


def read_captions(cells: Iterable[Any], where: str) -> tuple[tuple[str, ...], list[LeftOut]]:
    """Returns the different captions in cells, and why others are not read.

    A cell is a text, a list of texts, or a JSON list of texts. Some cells may be empty.

    Args:
      cells: the cells of a picture or a row.
      where: their place.
    """
    texts: list[str] = []
    for cell in cells:
        for item in _items(cell):
            if is_empty(item):
                continue
            if not isinstance(item, str):
                detail = f"{cell!r:.60}: captions are texts, or lists of texts in JSON"
                return (), [LeftOut(where, "caption is no text", detail)]
            texts.append(item.strip())
    if not texts:
        return (), [LeftOut(where, "empty caption")]
    different = tuple(dict.fromkeys(texts))
    copy = LeftOut(where, "caption appears twice", is_record=False)
    return different, [copy] * (len(texts) - len(different))


def _items(cell: Any) -> Sequence[Any]:
    if isinstance(cell, list):
        return cell
    if isinstance(cell, str) and re.fullmatch(r"\[.*\]", cell.strip(), re.DOTALL):
        with contextlib.suppress(ValueError):
            return list(parse_json_text(cell))
        return [(cell,)]  # A list in another notation is no text.
    return [cell]

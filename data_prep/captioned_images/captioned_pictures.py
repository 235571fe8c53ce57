"""A picture with its captions, as read from a user's files."""

import ast
import contextlib
import dataclasses
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from data_prep.building.record_counts import LeftOut
from data_prep.errors import UnexpectedFilesError
from data_prep.reading.text_lines import read_caption

SPLITS = ("train", "validation", "test")
_SPLIT_NAMES = {
    **dict.fromkeys(("train", "training", "trn", "restval"), "train"),
    **dict.fromkeys(("validation", "val", "valid", "dev", "eval"), "validation"),
    **dict.fromkeys(("test", "testing"), "test"),
}
APPEARS_TWICE = "caption appears twice"
_LIST = re.compile(r"""\s*\[\s*['"].*['"]\s*,?\s*\]\s*""", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class CaptionedPicture:
    """A picture with its captions.

    Attributes:
      name: unique name: the path of its file, or shard and member.
      captions: its captions; none if all were empty.
      split: `train`, `validation` or `test`, or "" if the files do not say.
      read: returns its bytes; call it before requesting the next picture. Raises `BadImageError`
        if there are none.
      by_content: whether its content alone identifies it, so that several rows or samples with the
        same content are one picture.
    """

    name: str
    captions: tuple[str, ...]
    split: str
    read: Callable[[], bytes]
    by_content: bool = False


def split_of_name(name: str) -> str:
    """Returns the split that a word stands for; "" if it is none."""
    return _SPLIT_NAMES.get(name.strip().lower(), "")


def split_of_path(path: str) -> str:
    """Returns the split in a path such as `val/...` or `captions_val.csv`; "" if there is none."""
    words = re.split(r"[-_./]", path)
    return next((split for split in map(split_of_name, reversed(words)) if split), "")


def split_of_folder(path: str) -> str:
    """Returns the split of a file in a folder called `train`, `val`, ...; "" if there is none."""
    folders = path.split("/")[:-1]
    return next((split for split in map(split_of_name, reversed(folders)) if split), "")


def split_of_value(value: Any, where: str) -> str:
    """Returns the split that a cell of a table names; "" for an empty cell.

    Raises:
      UnexpectedFilesError: it does not name a split.
    """
    text = "" if is_empty(value) else str(value).strip()
    if text and not (split := split_of_name(text)):
        raise UnexpectedFilesError(
            f"{where}: the split {text!r} is not train, validation (val, dev) or test; rename it, "
            'or ignore the column with {"split": "none"} in captioned_images.json'
        )
    return split if text else ""


def is_empty(value: Any) -> bool:
    """Whether a cell of a table is empty."""
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def cell_captions(values: Iterable[Any], where: str) -> Iterator[str | LeftOut]:
    """Yields the captions in the cells of a row: texts, or lists of texts.

    In text files, lists are JSON or as written by pandas, `['a dog', 'a cat']`. A row may omit some
    of several captions, but not all.
    """
    cells = [each for value in values for each in _items(value)]
    filled = [cell for cell in cells if not is_empty(cell)]
    if not filled:
        yield LeftOut(where, "empty caption", is_record=False)
    for cell in filled:
        if not isinstance(cell, str):
            detail = f"{cell!r:.60} is a {type(cell).__name__}"
            yield LeftOut(where, "caption is no text", detail, is_record=False)
        else:
            yield caption_of(cell.encode("utf-8", "surrogatepass"), where)


def _items(value: Any) -> list[Any]:
    """The items of a list, or the single value."""
    if isinstance(value, str) and _LIST.fullmatch(value):
        for parse in (json.loads, ast.literal_eval):
            with contextlib.suppress(ValueError, SyntaxError):
                found = parse(value.strip())
                if isinstance(found, list) and all(isinstance(each, str) for each in found):
                    return found
    return value if isinstance(value, list) else [value]


def caption_of(line: bytes, where: str) -> str | LeftOut:
    """Returns a caption without surrounding spaces, or why it is invalid."""
    caption = read_caption(line, where)
    if isinstance(caption, LeftOut):
        return dataclasses.replace(caption, is_record=False)
    return caption.strip()


def without_copies(captions: Sequence[str], where: str) -> tuple[tuple[str, ...], list[LeftOut]]:
    """Returns the distinct captions of a picture, and an entry for every repetition."""
    different = tuple(dict.fromkeys(captions))
    copies = len(captions) - len(different)
    return different, [LeftOut(where, APPEARS_TWICE, is_record=False)] * copies

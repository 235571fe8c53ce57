"""A picture with its captions, as read from a user's files."""

import collections
import contextlib
import dataclasses
import math
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from data_prep.building.record_counts import LeftOut
from data_prep.reading.split_names import SYNONYMS, check_split_names, split_of_name
from data_prep.reading.text_lines import read_caption
from xmodal.core.untrusted.cells import is_error_value
from xmodal.core.untrusted.json_text import parse_json_text

# As in COCO's `train2017`, and in `train00001.tar`.
_YEAR_OR_SHARD = re.compile(r"(?<=\D)\d{3,}$")
# How writers of tables spell a missing value; the last is R's.
_NOTHING = ("nan", "NaN", "None", "null", "NULL", "NaT", "<NA>", "NA")
# Lists as Python, NumPy, R or Spark write them, also of numbers and texts or of objects, and bytes.
_LIKE_A_LIST = re.compile(
    r"""(\[|\{|array\(\[|c\(|["']\[)[\s\[({]*([-+.\d]+[\s,:]+)*\\?[ub]?['"]"""
    r"""|\([ub]?('[^']*'|"[^"]*"),.*\)$|\[[^\[\]]*,[^\[\]]*\]$|b('[^']*'|"[^"]*")$""",
    re.DOTALL,
)
APPEARS_TWICE = "caption appears twice"
UNREADABLE = ("unreadable list", "caption is no text")
BY_CONTENT = ', or split by content with {"split": "none"} in captioned_images.json'


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
    """The split that a word stands for, perhaps with a number at the end; or ""."""
    return split_of_name(_YEAR_OR_SHARD.sub("", word))


def similar_split(path: str) -> str:
    """Returns the split whose word begins or ends a word of a file's name, as in `mytrain.csv`."""
    words = re.split(r"[\W\d_]+", path.rpartition("/")[2].lower())
    found = {
        split
        for split, known in SYNONYMS.items()
        for word in words
        for each in known
        if word.startswith(each) or word.endswith(each)
    }
    return found.pop() if len(found) == 1 else ""


def split_of_value(value: Any) -> str:
    """Returns the split that a cell of a table names; "" for an empty cell."""
    return split_of_name(str(value))


def check_splits(cells: Iterable[tuple[str, Any]], folder: pathlib.Path) -> None:
    """Checks the cells of a column of splits.

    Args:
      cells: the place of each cell in `folder`, and its value.
      folder: folder of the table.

    Raises:
      UnexpectedFilesError: one does not name a split; says where the first one is.
    """
    counts: collections.Counter[str] = collections.Counter()
    first: dict[str, str] = {}
    for where, value in cells:
        name = "" if is_empty(value) else str(value).strip()
        counts[name] += 1
        first.setdefault(name, where)
    unknown = next((name for name in counts if name and not split_of_name(name)), "")
    check_split_names(counts, str(folder / first.get(unknown, "")), BY_CONTENT)


def is_empty(value: Any) -> bool:
    """Whether a cell is empty, or holds a word for a missing value or a spreadsheet's error."""
    if isinstance(value, str):
        text = value.strip()
        return not text or text in _NOTHING or is_error_value(text)
    return value is None or (isinstance(value, float) and math.isnan(value))


def image_name(value: Any) -> str:
    """Returns the file name in a cell, which may be a number; "" if it has none."""
    if isinstance(value, dict):
        value = value.get("path")
    if isinstance(value, bool) or not isinstance(value, (str, int, float)) or is_empty(value):
        return ""
    return str(value).strip()


def cell_captions(values: Iterable[Any], where: str) -> Iterator[str | LeftOut]:
    """Yields the captions in the cells of a row: texts, or lists of texts, which may be JSON.

    A row may omit some of several captions, but not all. Missing values in a list, and words for a
    missing value, are reported.
    """
    filled = False
    missing: list[LeftOut] = []
    for value in values:
        try:
            items = _items(value)
        except ValueError as error:
            filled = True
            yield LeftOut(where, UNREADABLE[0], str(error), is_record=False)
            continue
        for item in items:
            if is_empty(item):
                if item or item is not value:
                    detail = f"{item!r:.60}"
                    missing.append(LeftOut(where, "empty caption", detail, is_record=False))
            elif not isinstance(item, str):
                filled = True
                detail = f"{item!r:.60} is a {type(item).__name__}"
                yield LeftOut(where, UNREADABLE[1], detail, is_record=False)
            else:
                filled = True
                yield caption_of(item.encode("utf-8", "surrogatepass"), where)
    if not filled and not missing:
        missing.append(LeftOut(where, "empty caption", is_record=False))
    yield from missing


def _items(value: Any) -> list[Any]:
    """The values in a cell, which may be a list or a list in JSON.

    Raises:
      ValueError: it looks like a list in another notation.
    """
    if isinstance(value, list):
        return value
    text = value.strip() if isinstance(value, str) else ""
    if text.startswith("["):
        with contextlib.suppress(ValueError):
            return list(parse_json_text(text))
    if _LIKE_A_LIST.match(text):
        raise ValueError(
            f"{text!r:.80} looks like a list; write lists as JSON, and captions without brackets"
        )
    return [value]


def caption_of(line: bytes, where: str) -> str | LeftOut:
    """Returns a caption without surrounding spaces, or why it is invalid."""
    caption = read_caption(line, where)
    if isinstance(caption, LeftOut):
        return dataclasses.replace(caption, is_record=False)
    return caption.strip()


def without_copies(
    found: Sequence[str | LeftOut], where: str
) -> tuple[tuple[str, ...], list[LeftOut]]:
    """Returns the distinct captions of a picture; and its bad ones, with one for every copy."""
    captions = [caption for caption in found if isinstance(caption, str)]
    bad = [caption for caption in found if isinstance(caption, LeftOut)]
    different = tuple(dict.fromkeys(captions))
    copies = len(captions) - len(different)
    return different, bad + [LeftOut(where, APPEARS_TWICE, is_record=False)] * copies

"""Determines which columns of a table hold the image, the captions and the split."""

import dataclasses
import re
from collections.abc import Sequence

from data_prep.captioned_images.options import FILE, ReadingOptions
from data_prep.errors import UnexpectedFilesError
from data_prep.reading.picture_names import IMAGE_ENDINGS

# In order of preference if a table has several.
_IMAGES = (
    "image", "image_path", "image_file", "image_filename", "image_file_name", "image_name", "img",
    "img_path", "img_file", "img_name", "file_name", "filename", "file_path", "filepath",
    "picture", "photo", "path", "file", *(ending[1:] for ending in IMAGE_ENDINGS), "image_id",
)  # fmt: skip
_CAPTIONS = (
    "caption", "captions", "text", "texts", "sentence", "sentences", "description",
    "descriptions", "alt_text", "alt", "comment", "raw", "title",
)  # fmt: skip
_LINKS = ("url", "image_url", "img_url", "picture_url", "photo_url", "link", "image_link")
_SPLITS = ("split", "set", "subset", "partition")
# Numbered columns: caption_1, caption2, Caption 3.
_NUMBERED = re.compile(r"(?P<name>.*?)_?(?P<number>\d*)")


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns to read from a table.

    Attributes:
      image: the column of file names or images.
      captions: one or several columns.
      split: the column of splits; None if there is none.
      others: columns that are not read.
    """

    image: str
    captions: tuple[str, ...]
    split: str | None
    others: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [f"image: {self.image}", f"captions: {', '.join(self.captions)}"]
        parts += [f"split: {self.split}"] if self.split else []
        others = ", ".join(filter(None, self.others))  # Spreadsheets also write unnamed ones.
        parts += [f"not read: {others}"] if others else []
        return "; ".join(parts)


def image_columns(names: Sequence[str]) -> list[str]:
    """Returns the columns with a common name of images."""
    return [name for name in names if _usual(name) in _IMAGES]


def find_columns(names: Sequence[str], options: ReadingOptions, where: str) -> Columns:
    """Returns the columns of a table: those named in the options, or those with common names.

    Args:
      names: the columns of the table.
      options: names given by the user.
      where: the table, for errors.

    Raises:
      UnexpectedFilesError: there is no column of images or captions, a named one is missing, or
        two that are read have the same name.
    """
    given = (options.image, *options.captions, options.split if options.split != "none" else "")
    listed = ", ".join(map(repr, names)) or "none"
    for name in filter(None, given):
        if name not in names:
            raise UnexpectedFilesError(
                f"{where} has no column {name!r}, as named in {FILE}; its columns are {listed}"
            )
    usual = {_usual(name): name for name in reversed(names)}
    image = options.image or next((usual[name] for name in _IMAGES if name in usual), "")
    captions = options.captions or _captions(names, image)
    for found, kind, key in ((image, "image", "image"), (captions, "caption", "captions")):
        if not found:
            if kind == "image" and (links := next((usual[x] for x in _LINKS if x in usual), "")):
                raise UnexpectedFilesError(
                    f"{where} has the column {links!r} but none of image files; download the "
                    "images first, for example with img2dataset, and pass the folder that it writes"
                )
            raise UnexpectedFilesError(
                f"{where} has no {kind} column with a known name; its columns are "
                f'{listed}: rename one, or add {{"{key}": "COLUMN"}} to {FILE} in the same folder, '
                'or {"names": [...]} if the first line is no header'
            )
    split = split_column(names, options)
    read = set(filter(None, (image, *captions, split)))
    if twice := [name for name in names if name in read and names.count(name) > 1]:
        raise UnexpectedFilesError(
            f"{where} has several columns {twice[0]!r}, of which only one can be read; rename them"
        )
    others = tuple(name for name in names if name not in read)
    return Columns(image, tuple(captions), split or None, others)


def split_column(names: Sequence[str], options: ReadingOptions) -> str:
    """Returns the column of splits, or the key in a JSON file; "" if there is none."""
    if options.split:
        return "" if options.split == "none" else options.split
    usual = {_usual(name): name for name in reversed(names)}
    return next((usual[name] for name in _SPLITS if name in usual), "")


def _captions(names: Sequence[str], image: str) -> tuple[str, ...]:
    """The columns with the first common name that occurs, including numbered ones."""
    found = caption_groups([name for name in names if name != image])
    return found[0] if found else ()


def caption_groups(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Returns the names of captions, in order of preference; numbered ones are a group."""
    found: dict[str, list[str]] = {}
    for name in names:
        match = _NUMBERED.fullmatch(_usual(name))
        if match is not None:
            found.setdefault(match["name"], []).append(name)
    return [tuple(found[name]) for name in _CAPTIONS if name in found]


def _usual(name: str) -> str:
    """A name in lower case, with words joined by underscores."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)  # imagePath
    return re.sub(r"[\W_]+", "_", words).strip("_").lower()

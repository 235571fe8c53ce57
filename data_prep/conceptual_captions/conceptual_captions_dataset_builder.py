"""Conceptual Captions: 3.3 million web images, each with its cleaned alt text as the caption."""

import pathlib
from collections.abc import Mapping
from typing import Any, ClassVar

import tensorflow_datasets as tfds

from data_prep import schema
from data_prep.building.random_access import configs
from data_prep.linked_captions import (
    LinkedCaptionsBuilder,
    LinkedRecords,
    LinkedRow,
    LinkList,
    linked_records,
)
from data_prep.reading.text_lines import TextLines
from xmodal.core.errors import UnexpectedFilesError

# Split -> published list, names of its image folder, and id of its first row: ids of two splits
# never collide.
_SPLITS = {
    "train": ("Train_GCC-training.tsv", ("training", "train"), 0),
    "validation": ("Validation_GCC-1.1.0-Validation.tsv", ("validation", "val"), 10_000_000),
}
# The header line that img2dataset requires, and tells users to add.
_HEADER = (b"caption", b"url")


class Builder(LinkedCaptionsBuilder):
    """TFDS builder of Conceptual Captions.

    Image and caption ids are the row numbers of the published files, counted from 0. The files list
    urls, many of them dead by now: the dataset holds the rows that have a valid image.
    """

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = configs(images="Web images with one caption each.")
    HOMEPAGE = "https://ai.google.com/research/ConceptualCaptions"
    EXPECTED: ClassVar[dict[str, int]] = {"train": 3318333, "validation": 15840}

    def _metadata(self) -> dict[str, Any]:
        return {"complete": True}

    def _splits(self, folder: pathlib.Path) -> Mapping[str, LinkedRecords]:
        splits = {}
        for split, (name, names, first_id) in _SPLITS.items():
            if (path := folder / name).exists():
                table = _Table(path, first_id)
                images = next((name for name in names if (folder / name).is_dir()), names[0])
                splits[split] = linked_records(table, folder / images, in_parts=self.in_parts)
                schema.check_counts({split: len(table)}, {split: self.EXPECTED[split]}, str(path))
        if not splits:
            raise FileNotFoundError(f"{folder} has no list of Conceptual Captions")
        self.info.metadata["complete"] = len(splits) == len(_SPLITS)
        return splits


class _Table(LinkList):
    """A list of `caption<tab>url`, possibly below this header.

    Raises:
      UnexpectedFilesError: the first line is neither a row nor such a header.
    """

    def __init__(self, path: pathlib.Path, first_id: int) -> None:
        self._lines, self._first_id = TextLines(path), first_id
        top = tuple(self._lines[0].strip(b"\r\n ").split(b"\t")) if len(self._lines) else ()
        self._first = int(tuple(name.lower() for name in top) == _HEADER)
        is_row = len(top) == 2 and b"://" in top[1] and b"://" not in top[0].partition(b" ")[0]
        if top and not (self._first or is_row):
            # Every row is numbered by its line: an unknown header or index would shift all.
            raise UnexpectedFilesError(
                f"{path} line 1 is {self._lines[0].strip()[:80]!r}: neither CAPTION<tab>URL nor "
                "the header caption<tab>url; remove other columns, or the header"
            )

    def __len__(self) -> int:
        return len(self._lines) - self._first

    def __getitem__(self, number: int) -> LinkedRow:
        line = number + self._first
        caption, _, url = self._lines[line].partition(b"\t")
        where, row_id = f"{self._lines.path.name} line {line + 1}", self._first_id + number
        return LinkedRow(where, row_id, url, [(row_id, caption)])

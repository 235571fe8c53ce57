"""Files that hold captions with their images or the names of these."""

import dataclasses
import pathlib
from collections.abc import Iterator
from typing import Any

from data_prep.building.record_counts import LeftOut
from data_prep.captioned_images.column_choice import Columns, find_columns
from data_prep.captioned_images.json_tables import CocoTable, is_by_image, is_coco, is_karpathy
from data_prep.captioned_images.options import ReadingOptions
from data_prep.captioned_images.parquet_columns import embedded_column
from data_prep.captioned_images.picture_files import PictureFiles
from data_prep.captioned_images.tables import Table, ending, open_table
from data_prep.reading.text_files import read_json
from xmodal.core.errors import UnexpectedFilesError


@dataclasses.dataclass(frozen=True)
class KarpathyFile:
    """A file in Karpathy's format."""

    path: pathlib.Path
    kind: str = "Karpathy's format"


@dataclasses.dataclass(frozen=True)
class TableFile:
    """A table.

    Attributes:
      table: its rows.
      columns: those to read.
      embedded: whether it holds the images.
    """

    table: Table
    columns: Columns
    embedded: bool = False

    @property
    def path(self) -> pathlib.Path:
        """Path of the file."""
        return self.table.path

    @property
    def kind(self) -> str:
        """What tables that are read as one have in common."""
        if isinstance(self.table, CocoTable):
            return "COCO's format"
        return "a table with the images" if self.embedded else "a table of files"

    @property
    def read_columns(self) -> tuple[Any, ...]:
        """Names of the columns of images and captions."""
        return self.columns.image, self.columns.captions

    def names(self) -> Iterator[str]:
        """Yields the names of images as they are in the table."""
        for row in self.table.rows():
            if not isinstance(row, LeftOut):
                yield str(row[1].get(self.columns.image))


Source = KarpathyFile | TableFile


def open_source(path: pathlib.Path, options: ReadingOptions, pictures: PictureFiles) -> Source:
    """Determines the kind of a file from its form and its columns.

    Args:
      path: path of the file.
      options: names given by the user.
      pictures: images of the folder, by which names are known.

    Raises:
      UnexpectedFilesError: it is damaged, or has no images with captions.
    """
    if ending(path) == ".json":
        # Captions by image may repeat an image; the readers of other forms refuse a key twice.
        content = read_json(path, object_pairs_hook=dict)
        if is_karpathy(content):
            return KarpathyFile(path)
        if is_coco(content):
            has_splits = any(
                isinstance(each, dict) and each.get("split") for each in content["images"]
            )
            split = "split" if has_splits and options.split != "none" else None
            return TableFile(_coco_table(path, content), Columns("image", ("caption",), split))
        if isinstance(content, dict) and not is_by_image(content, pictures.knows):
            raise UnexpectedFilesError(
                f"{path} is an object with the keys {_shown(content)}; an object is read if its "
                "keys are the names of images, or if it is in COCO's or Karpathy's format: write a "
                "list of objects with the keys 'image' and 'caption'"
            )
    column = embedded_column(path, options) if ending(path) == ".parquet" else ""
    table = open_table(path, options.names)
    return TableFile(table, find_columns(table, options, pictures, column), bool(column))


def _shown(content: dict[str, Any]) -> str:
    return ", ".join(f"{key!r:.60}" for key in list(content)[:3]) + ", ..." * (len(content) > 3)


def _coco_table(path: pathlib.Path, content: Any) -> CocoTable:
    annotations = content["annotations"]
    if not any(isinstance(each, dict) and "caption" in each for each in annotations):
        raise UnexpectedFilesError(f"{path} has annotations, but none has a caption")
    return CocoTable(path)

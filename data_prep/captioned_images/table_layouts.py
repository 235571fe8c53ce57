"""Tables with an image file name or an image in every row."""

import dataclasses
import functools
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from data_prep.building.record_counts import LeftOut
from data_prep.captioned_images.captioned_pictures import (
    BY_CONTENT,
    CaptionedPicture,
    cell_captions,
    check_splits,
    image_name,
    split_of_folder,
    split_of_path,
    split_of_value,
    without_copies,
)
from data_prep.captioned_images.column_choice import Columns
from data_prep.captioned_images.layouts import Layout
from data_prep.captioned_images.numeric_captions import NumericColumns
from data_prep.captioned_images.options import FILE
from data_prep.captioned_images.picture_files import MissingPicture, PictureFiles
from data_prep.captioned_images.tables import Table
from data_prep.captioned_images.unused_files import unused_files, without_row
from data_prep.reading.image_files import ImageFile
from xmodal.core.errors import BadImageError, UnexpectedFilesError

Source = tuple[Table, Columns]


@dataclasses.dataclass(slots=True)
class _Picture:
    """An image that rows of tables name.

    Attributes:
      image: its file.
      split: its split; "" if the files do not say.
      table: the first table that names it.
      row: the first row that names it.
      captions: the captions of all its rows.
      rows: how many of its rows have a caption.
      in_several: whether several tables name it.
    """

    image: ImageFile
    split: str
    table: Table
    row: str
    captions: list[str] = dataclasses.field(default_factory=list)
    rows: int = 0
    in_several: bool = False


class TableLayout(Layout):
    """Tables with one row per image or one per caption.

    Args:
      folder: folder of the user.
      sources: the tables; if there are several, they are named after their splits.
      with_splits: whether splits are used, and an image must be in only one.
    """

    TITLE = "a table of file names and captions"

    def __init__(
        self, folder: pathlib.Path, sources: Sequence[Source], *, with_splits: bool
    ) -> None:
        self._folder, self._sources, self._with_splits = folder, sources, with_splits
        self._files = PictureFiles(folder)
        self._rows = self._lost = 0
        self._left_out: list[LeftOut] = []
        self._pictures: dict[str, _Picture] = {}
        for table, columns in sources:
            self._read(table, columns)

    def describe(self) -> dict[str, str]:
        """See `Layout`."""
        paths = [self._place(table) for table, _ in self._sources]
        rows = f"{self._rows:,} rows"
        if several := sum(picture.in_several for picture in self._pictures.values()):
            rows += f"; {several:,} images have captions in several tables"
        return {
            "files": f"{', '.join(paths)} ({rows}), {len(self._files):,} image files",
            "columns": str(self._sources[0][1]),
        }

    def read(self, part: None) -> Iterator[CaptionedPicture | LeftOut]:
        """See `Layout`."""
        del part
        yield from self._left_out
        used = {self._place(table) for table, _ in self._sources} | self._pictures.keys()
        for name, picture in self._pictures.items():
            captions, copies = without_copies(picture.captions, name)
            yield from copies
            yield CaptionedPicture(name, captions, picture.split, picture.image.read)
            if isinstance(picture.image, MissingPicture):
                used |= set(picture.image.places)
        yield from without_row(self._files, used)

    def _place(self, table: Table) -> str:
        return table.path.relative_to(self._folder).as_posix()

    def rows_lost(self, unusable: Sequence[str]) -> tuple[int, int]:
        """See `Layout`."""
        rows = (self._pictures[name].rows for name in unusable if name in self._pictures)
        return self._lost + sum(rows), self._rows

    def explain(self, fault: LeftOut) -> str:
        """See `Layout`."""
        picture = self._pictures.get(fault.where)
        if picture is None:
            return super().explain(fault)
        columns = {columns.image for table, columns in self._sources if table is picture.table}
        said = f"{super().explain(fault)} in {picture.row}, column {', '.join(columns)}"
        if fault.reason != "no image":
            return said
        remedy = f'name another column with {{"image": "COLUMN"}} in {FILE}'
        return f"{said}; correct the names, or {remedy}"

    def _leave_out(self, row: LeftOut) -> None:
        self._left_out.append(row)
        self._lost += 1

    def _read(self, table: Table, columns: Columns) -> None:
        if columns.split is not None:
            _check_splits(table, columns.split)
        split_of_table = split_of_path(self._place(table))
        numeric = NumericColumns(columns.captions)
        rows = table.columns(columns.image)
        names = [name for _, cells in rows if (name := image_name(cells.get(columns.image)))]
        is_beside = self._files.are_beside(names, table.path)
        has_twins = self._files.are_of_splits(names, table.path, split_of_table)
        of_split = split_of_table if has_twins else ""
        for row in table.rows(columns.image, self._files.knows):
            self._rows += 1
            if isinstance(row, LeftOut):
                self._leave_out(row)
                continue
            where, cells = row
            name = image_name(cells.get(columns.image))
            if not name:
                value = cells.get(columns.image)
                detail = f"{columns.image} is {value!r:.60}"
                self._leave_out(LeftOut(where, "no image name", detail))
                continue
            if name.startswith(("http://", "https://")):
                raise UnexpectedFilesError(
                    f"{table.path.parent / where}: {name:.80} is a url; download the images first, "
                    "for example with img2dataset, and pass the folder that it writes"
                )
            numeric.see(cells)
            image = self._files.find(name, table.path, is_beside=is_beside, split=of_split)
            split = split_of_table or split_of_folder(image.where) if self._with_splits else ""
            if columns.split is not None:
                split = split_of_value(cells.get(columns.split))
            picture = self._add(image, split, table, where)
            found = list(cell_captions(map(cells.get, columns.captions), where))
            captions = [each for each in found if isinstance(each, str)]
            picture.captions += captions
            self._left_out += [each for each in found if isinstance(each, LeftOut)]
            if captions:
                picture.rows += 1
            else:
                self._lost += 1
        numeric.check(table.path, columns.others)

    def _add(self, image: ImageFile, split: str, table: Table, where: str) -> _Picture:
        """Returns the picture of the row at `where`, which other rows may share."""
        name, is_missing = image.where, isinstance(image, MissingPicture)
        row = f"{table.path.parent / where}"
        first = self._pictures.get(name)
        if is_missing and first is not None and first.table is not table:
            # The same name in two tables may stand for two pictures.
            name = f"{self._place(table)}: {name}"
        picture = self._pictures.setdefault(name, _Picture(image, split, table, row))
        if picture.split != split and not is_missing:
            raise UnexpectedFilesError(
                f"{row}: {name} is in the split {split or 'none'!r}, but in "
                f"{picture.split or 'none'!r} above; an image must be in only one split{BY_CONTENT}"
            )
        picture.in_several |= picture.table is not table
        return picture


class EmbeddedLayout(Layout):
    """Parquet tables with images, as in Hugging Face datasets: bytes, or a struct with `bytes`.

    Args:
      folder: folder of the user.
      sources: the tables.
    """

    TITLE = "Parquet with pictures and captions"

    def __init__(self, folder: pathlib.Path, sources: Sequence[Source]) -> None:
        self._folder, self._sources = folder, sources
        for table, columns in sources:
            if columns.split is not None:
                _check_splits(table, columns.split)

    def describe(self) -> dict[str, str]:
        """See `Layout`."""
        paths = [table.path.relative_to(self._folder).as_posix() for table, _ in self._sources]
        return {"files": ", ".join(paths), "columns": str(self._sources[0][1])}

    def parts(self) -> Sequence[Source | None]:
        """See `Layout`; the last part is all files that are not read."""
        return [*self._sources, None]

    def read(self, part: Source | None) -> Iterator[CaptionedPicture | LeftOut]:
        """See `Layout`."""
        if part is None:
            used = {table.path.relative_to(self._folder).as_posix() for table, _ in self._sources}
            yield from unused_files(self._folder, used)
            return
        table, columns = part
        path = table.path.relative_to(self._folder).as_posix()
        for row in table.rows():
            if isinstance(row, LeftOut):
                place = row.where.removeprefix(table.path.name)
                yield dataclasses.replace(row, where=f"{path}{place}")
                continue
            where, cells = row
            name = f"{path}{where.removeprefix(table.path.name)}"
            found = list(cell_captions(map(cells.get, columns.captions), name))
            captions, left_out = without_copies(found, name)
            yield from left_out
            split = split_of_path(path)
            if columns.split is not None:
                split = split_of_value(cells.get(columns.split))
            # Downloaders say why there is no image.
            why = str(cells.get("error_message") or "")
            read = functools.partial(_embedded, cells.get(columns.image), why)
            yield CaptionedPicture(name, captions, split, read, by_content=True)


def _embedded(value: Any, why: str) -> bytes:
    content = value.get("bytes") if isinstance(value, dict) else value
    if not isinstance(content, bytes):
        raise BadImageError("no image", why or f"{content!r:.60} is not an encoded image")
    return content


def _check_splits(table: Table, column: str) -> None:
    cells = ((where, row.get(column)) for where, row in table.columns(column))
    check_splits(cells, table.path.parent)

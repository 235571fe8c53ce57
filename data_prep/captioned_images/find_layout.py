"""Determines the layout of a folder from its files."""

import os
import pathlib
from collections.abc import Iterator

from data_prep.captioned_images.column_names import find_columns
from data_prep.captioned_images.layouts import FetchedLayout, KarpathyLayout, Layout
from data_prep.captioned_images.options import FILE, ReadingOptions
from data_prep.captioned_images.table_layouts import EmbeddedLayout, Source, TableLayout
from data_prep.captioned_images.tables import TABLE_ENDINGS, ending, open_table
from data_prep.errors import UnexpectedFilesError
from data_prep.reading.fetched_files import IMAGE_ENDINGS, TAR_ENDINGS, has_images
from data_prep.reading.folders import walk

RATINGS = "ratings"
# Tables may be in the folder or in its subfolders.
_DEPTH = 1


def find_layout(folder: pathlib.Path, options: ReadingOptions) -> Layout:
    """Returns the layout of a folder: tables first, then shards and files beside images.

    Raises:
      UnexpectedFilesError: no layout fits, or there are several tables that do not match.
    """
    if options.table:
        path = folder / options.table
        if not path.is_file():
            raise UnexpectedFilesError(f"{path}, named in {FILE}, does not exist")
        return _of_tables(folder, [_source(path, options)])
    files = [
        (parent, names)
        for parent, names in walk(folder)
        if len(parent.relative_to(folder).parts) <= _DEPTH
    ]
    sources, reasons = [], []
    for path in _candidates(files):
        if path.name.startswith("dataset_") and ending(path) == ".json":
            return KarpathyLayout(folder, path, with_splits=options.split != "none")
        try:
            sources.append(_source(path, options))
        except UnexpectedFilesError as error:
            reasons.append(str(error))
    if sources:
        _check_together(sources)
        return _of_tables(folder, sources)
    if _has_shards(folder) or _has_neighbors(folder):
        return FetchedLayout(folder)
    if reasons:
        raise UnexpectedFilesError("; ".join(reasons))
    images = any(name.lower().endswith(IMAGE_ENDINGS) for _, names in files for name in names)
    lack = "images but no captions" if images else "neither images nor captions"
    raise UnexpectedFilesError(
        f"{folder} has {lack}; add a table with the columns `image` and `caption`, or a text file "
        "with the captions beside each image (photo.txt for photo.jpg)"
    )


def find_ratings(folder: pathlib.Path) -> pathlib.Path | None:
    """Returns a folder's table of rated pairs; None if there is none."""
    found = (
        path
        for path in sorted(folder.iterdir())
        if path.name.partition(".")[0].lower() == RATINGS and ending(path) in TABLE_ENDINGS
    )
    return next(found, None)


def _candidates(files: list[tuple[pathlib.Path, list[str]]]) -> Iterator[pathlib.Path]:
    """Files that may be tables, except those of tools or with the name of an adjacent image."""
    for parent, names in files:
        images = {
            os.path.splitext(name)[0] for name in names if name.lower().endswith(IMAGE_ENDINGS)
        }
        for name in names:
            path = parent / name
            stem = name.partition(".")[0]
            is_table = ending(path) in TABLE_ENDINGS and stem.lower() != RATINGS
            is_note = name == FILE or name.endswith("_stats.json") or path.stem in images
            if is_table and not is_note:
                yield path


def _source(path: pathlib.Path, options: ReadingOptions) -> Source:
    if ending(path) == ".parquet" and has_images(path):
        raise UnexpectedFilesError(f"{path} is a shard")
    table = open_table(path, options.names)
    return table, find_columns(table.names, options, str(path))


def _check_together(sources: list[Source]) -> None:
    """Raises an error if the tables cannot be parts of one table, judging by their columns."""
    (first, columns), *others = sources
    for table, other in others:
        if (other.image, other.captions) != (columns.image, columns.captions):
            raise UnexpectedFilesError(
                f"{first.path} and {table.path} both have images and captions, in columns with "
                f'different names; choose one with {{"table": "{first.path.name}"}} in {FILE}'
            )


def _of_tables(folder: pathlib.Path, sources: list[Source]) -> Layout:
    table, columns = sources[0]
    if ending(table.path) == ".parquet":
        import pyarrow
        import pyarrow.parquet

        kind = pyarrow.parquet.read_schema(table.path).field(columns.image).type
        is_struct = pyarrow.types.is_struct(kind) and kind.get_field_index("bytes") >= 0
        if is_struct or pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind):
            return EmbeddedLayout(folder, sources)
    return TableLayout(folder, sources)


def _has_shards(folder: pathlib.Path) -> bool:
    return any(
        name.endswith(TAR_ENDINGS) or (name.endswith(".parquet") and has_images(parent / name))
        for parent, names in walk(folder)
        for name in names
    )


def _has_neighbors(folder: pathlib.Path) -> bool:
    """Whether an image has a text or JSON file of the same name."""
    for _, names in walk(folder):
        stems = {os.path.splitext(n)[0] for n in names if n.lower().endswith((".txt", ".json"))}
        for name in names:
            if name.lower().endswith(IMAGE_ENDINGS) and os.path.splitext(name)[0] in stems:
                return True
    return False

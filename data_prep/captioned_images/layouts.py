"""The four layouts of a user's folder, and which of them a folder has.

Tables of file names, COCO's or Karpathy's JSON, and Parquet with images are read by `tables`; texts
beside images and shards by `data_prep.reading`.
"""

import dataclasses
import functools
import itertools
import pathlib
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from data_prep.building.record_counts import LeftOut
from data_prep.captioned_images.captioned_pictures import (
    BY_CONTENT,
    FILE,
    NO_TABLE,
    CaptionedPicture,
    ReadingOptions,
    is_empty,
    read_captions,
    split_of_cell,
    split_of_folder,
    split_of_path,
)
from data_prep.captioned_images.picture_files import PictureFiles
from data_prep.captioned_images.tables import (
    TABLE_ENDINGS,
    Table,
    ending,
    open_table,
    parquet_schema,
)
from data_prep.reading.fetched import (
    SIDECAR_ENDINGS,
    TAR_ENDINGS,
    Fetched,
    FetchedPart,
    read_images,
    read_meta,
)
from xmodal.core import picture_names
from xmodal.core.errors import BadImageError, DamagedFileError, UnexpectedFilesError

RATINGS = "ratings"
Items = Iterator[CaptionedPicture | LeftOut]

# What tools write beside data: Hugging Face's and img2dataset's descriptions, ours.
_DESCRIPTIONS = (FILE, "dataset_infos.json", "dataset_info.json", "dataset_dict.json", "state.json")
_NOTES = ("readme", "license", "licence", "copying", "notice", "citation", "changelog", "authors")


@dataclasses.dataclass(frozen=True)
class Layout:
    """Pictures and captions of a folder.

    Attributes:
      title: the layout in words.
      files: the files that are read, in words.
      read: yields the pictures, always in the same order, and what is not read; an entry that is
        a record does not fit the layout.
      columns: the columns of a table, in words.
    """

    title: str
    files: str
    read: Callable[[], Items]
    columns: str = ""


def find_layout(folder: pathlib.Path, options: ReadingOptions) -> Layout:
    """Returns the layout of a folder, which must have only one.

    Raises:
      UnexpectedFilesError: no layout fits, or several do.
    """
    files = PictureFiles(folder)
    if options.table == NO_TABLE:
        return _beside_layout(files, options)
    if options.table:
        return _table_layout(files, [open_table(folder / options.table, options)], options)
    tables, reasons = [], []
    texts = set(itertools.chain.from_iterable(files.texts.values()))
    for path in (folder / each for each in files.paths if each not in texts):
        is_table = ending(path) in TABLE_ENDINGS and path.is_file()
        if is_table and not (_is_description(path.name) or _is_shard(path)):
            try:
                tables.append(open_table(path, options))
            except DamagedFileError:
                raise
            except UnexpectedFilesError as error:
                reasons.append(str(error))
    beside = _captioned_file(files)
    if tables and beside:
        place = tables[0].path.relative_to(folder)
        raise UnexpectedFilesError(
            f"{folder} has captions in two places: {place} ({tables[0].kind}) and {beside}; with "
            f'{{"table": "{place}"}} in {FILE} that table is read, with {{"table": "{NO_TABLE}"}} '
            "shards and files beside images"
        )
    if tables:
        return _table_layout(files, tables, options)
    if beside:
        return _beside_layout(files, options)
    lack = "images but no captions" if files.texts else "neither images nor captions"
    raise UnexpectedFilesError(
        "; ".join(reasons[:3])
        or f"{folder} has {lack}; add a table with the columns `image` and `caption`, or a text "
        "file with the captions beside each image (photo.txt for photo.jpg); if its folders are "
        "classes, build --dataset=class_folders"
    )


def find_ratings(folder: pathlib.Path) -> pathlib.Path | None:
    """Returns a folder's table of rated pairs; None if there is none."""
    found = sorted(path for path in folder.iterdir() if ending(path) in TABLE_ENDINGS)
    return next((each for each in found if each.name.partition(".")[0].lower() == RATINGS), None)


def _is_shard(path: pathlib.Path) -> bool:
    """Whether a file is a tar, or a table of img2dataset, with the images or their status."""
    if ending(path) != ".parquet":
        return path.name.lower().endswith(TAR_ENDINGS)
    columns = {"status", *(end[1:] for end in picture_names.IMAGE_ENDINGS)}
    return not columns.isdisjoint(parquet_schema(path).names)


def _captioned_file(files: PictureFiles) -> str:
    """A shard, or an image with its text; "" if there are none."""
    for path in files.paths:
        if _is_shard(files.folder / path):
            return f"the shard {path}"
    for image, texts in files.texts.items():
        for text in texts:
            if _has_caption(files.folder / text):
                return f"{image} with {pathlib.PurePosixPath(text).name}"
    return ""


def _has_caption(path: pathlib.Path) -> bool:
    """Whether a file is a text, or a JSON object with captions."""
    if path.suffix.lower() != ".json":
        return path.name.lower().endswith(SIDECAR_ENDINGS)
    return bool({"caption", "captions"} & read_meta(path.read_bytes())[0].keys())


def _table_layout(files: PictureFiles, tables: Sequence[Table], options: ReadingOptions) -> Layout:
    """The layout of tables that are read as one.

    Raises:
      UnexpectedFilesError: they have different formats or columns.
    """
    first = tables[0]
    paths = _places(files, tables)
    for table in tables:
        if (table.kind, table.image, table.captions) != (first.kind, first.image, first.captions):
            raise UnexpectedFilesError(
                f"{first.path} ({first.kind}; {first}) and {table.path} ({table.kind}; {table}) "
                f'both have images and captions; choose one with {{"table": "{paths[0]}"}} in '
                f"{FILE}"
            )
    if first.embedded:
        title = "Parquet with pictures and captions"
        read: Callable[[], Items] = functools.partial(_embedded_pictures, files, tables)
    else:
        title = "a table of file names and captions"
        title = title if first.kind == "a table of files" else f"a file in {first.kind}"
        found = list(_named_pictures(files, tables, with_splits=options.split != "none"))

        def read() -> Items:
            return iter(found)

    return Layout(title, ", ".join(paths), read, str(first))


def _named_pictures(files: PictureFiles, tables: Sequence[Table], *, with_splits: bool) -> Items:
    """Yields the pictures that tables name, each with the captions of all its rows.

    Raises:
      UnexpectedFilesError: a picture is in two splits.
    """
    found: dict[str, tuple[str, list[str]]] = {}
    for table in tables:
        place = table.path.relative_to(files.folder)
        of_table = split_of_path(place.as_posix()) if with_splits and not table.split else ""
        rows = list(table.rows())
        names = [str(row[1].get(table.image)) for row in rows if not isinstance(row, LeftOut)]
        scope = files.scope(names, place.parent.as_posix(), of_table)
        for row in rows:
            if isinstance(row, LeftOut):
                yield row
                continue
            where, cells = row
            name = "" if is_empty(cells.get(table.image)) else str(cells[table.image])
            image = files.find(name, place.parent.as_posix(), scope, where)
            captions = read_captions(map(cells.get, table.captions), where)
            if isinstance(image, LeftOut):
                yield image
                continue
            if isinstance(captions, LeftOut):
                yield captions
                continue
            split = of_table or (split_of_folder(image) if with_splits else "")
            if table.split:
                split = split_of_cell(cells.get(table.split), f"{table.path.parent / where}")
            before, texts = found.setdefault(image, (split, []))
            if before != split:
                raise UnexpectedFilesError(
                    f"{table.path.parent / where}: {image} is in the split {split or 'none'!r}, "
                    f"but in {before or 'none'!r} above; an image must be in only one "
                    f"split{BY_CONTENT}"
                )
            texts += captions
    for image, (split, texts) in found.items():
        read = functools.partial(picture_names.read_picture, files.folder / image)
        yield CaptionedPicture(image, tuple(dict.fromkeys(texts)), split, read)
    yield from _unused(files, {*_places(files, tables), *found})


def _places(files: PictureFiles, tables: Sequence[Table]) -> list[str]:
    return [table.path.relative_to(files.folder).as_posix() for table in tables]


def _embedded_pictures(files: PictureFiles, tables: Sequence[Table]) -> Items:
    """Yields the pictures in Parquet tables: bytes, or Hugging Face's structs with `bytes`."""
    for path, table in zip(_places(files, tables), tables, strict=True):
        for row in table.rows():
            assert not isinstance(row, LeftOut)  # Rows of Parquet are read or damaged.
            where = f"{path}{row[0].removeprefix(table.path.name)}"
            captions = read_captions(map(row[1].get, table.captions), where)
            split = split_of_path(path)
            if table.split:
                split = split_of_cell(row[1].get(table.split), f"{files.folder / where}")
            read = functools.partial(_content, row[1].get(table.image))
            yield (
                captions
                if isinstance(captions, LeftOut)
                else CaptionedPicture(where, captions, split, read, is_file=False)
            )
    yield from _unused(files, _places(files, tables))


def _content(value: Any) -> bytes:
    content = value.get("bytes") if isinstance(value, dict) else value
    if not content:
        raise BadImageError("no image", "the cell is empty")
    return content


def _beside_layout(files: PictureFiles, options: ReadingOptions) -> Layout:
    shards = [path for path in files.paths if _is_shard(files.folder / path)]
    images = len(files.texts) - len(files.links)
    described = [f"{len(shards):,} shards"] * bool(shards)
    described += [f"{images:,} images, with text or JSON files of the same name"] * bool(images)
    read = functools.partial(_fetched_pictures, files, sorted(shards, key=pathlib.Path), options)
    return Layout("shards, or text and JSON files beside pictures", "; ".join(described), read)


def _fetched_pictures(files: PictureFiles, shards: Sequence[str], options: ReadingOptions) -> Items:
    """Yields the pictures of shards, and images with a text or JSON file of the same name."""
    folder = files.folder
    for shard in shards:
        for item in FetchedPart(folder, folder / shard).read():
            yield from _captioned(folder, item, options, is_file=False)
    paths = [path for path in files.paths if path not in files.links]
    for item in read_images(folder, paths, folder):
        if picture_names.is_picture(item.name):
            yield from _captioned(folder, item, options, is_file=True)
    texts = itertools.chain.from_iterable(files.texts.values())
    used = {*shards, *files.texts, *texts} - files.links.keys()
    yield from _unused(files, used, beside=True)


def _captioned(
    folder: pathlib.Path, item: Fetched | LeftOut, options: ReadingOptions, *, is_file: bool
) -> Items:
    name = item.where.removeprefix(f"{folder.name}/")
    if isinstance(item, LeftOut):
        yield dataclasses.replace(item, where=name)
        return
    if item.error:  # A downloader's record of a dead link.
        yield LeftOut(name, "no image", item.error, is_record=False)
        return
    captions = _captions_of(item, name, options)
    if isinstance(captions, LeftOut):
        yield captions
        return
    # The name of a loose image may describe its content: `train.jpg` may show a train.
    split = split_of_path(name.replace(":", "/").rpartition("/")[0])
    key = options.split or "split"
    if key in item.meta:
        split = split_of_cell(item.meta[key], f"{folder / name}, {key!r} in its JSON file")
    yield CaptionedPicture(name, captions, split, item.read, is_file)


def _captions_of(item: Fetched, name: str, options: ReadingOptions) -> tuple[str, ...] | LeftOut:
    """The captions of a JSON or a text file, which must agree, or why there are none."""
    if item.fault:
        return LeftOut(name, "unread text", item.fault)
    try:
        lines = [line.decode("utf-8-sig") for line in item.text.splitlines()]
    except UnicodeDecodeError as error:
        return LeftOut(name, "not UTF-8", f"{error.reason}; save the text as UTF-8")
    keys = options.captions or [key for key in ("caption", "captions") if key in item.meta]
    own, of_text = (read_captions(c, name) for c in (map(item.meta.get, keys), lines))
    if options.captions or isinstance(of_text, LeftOut):
        return own
    if isinstance(own, LeftOut):
        return of_text
    if " ".join(own).split() != " ".join(of_text).split():
        return LeftOut(name, "unread text", f"{of_text[0]!r}, but {own[0]!r} in JSON")
    return own


def _is_description(name: str) -> bool:
    """Whether a file is known to hold neither pictures nor captions, by its name."""
    stem = name.partition(".")[0].lower()
    is_known = name in _DESCRIPTIONS or name.endswith("_stats.json")
    return is_known or name.startswith(".") or stem in (RATINGS, *_NOTES)


def _unused(
    files: PictureFiles, used: Collection[str], *, beside: bool = False
) -> Iterator[LeftOut]:
    """Yields an entry for every file that is not used, except descriptions of the data.

    Args:
      files: files of the folder.
      used: paths of files that are used.
      beside: whether texts without an image, and pictures that are not read, are records that do
        not fit.
    """
    for place in files.paths:
        path = files.folder / place
        if place in used or (path.is_file() and _is_description(path.name)):
            continue
        reason, _, detail = picture_names.fault_of_file(path).partition(": ")
        is_lost = picture_names.is_unread_picture(place) or (path.is_file() and _has_caption(path))
        if place in files.links:
            reason, detail, is_lost = "link", f"another path of {files.links[place]}", False
        yield LeftOut(place, reason or "not used", detail, is_record=beside and is_lost)

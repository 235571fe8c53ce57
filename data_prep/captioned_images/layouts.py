"""The four layouts of a user's folder, and which of them a folder has.

Tables of file names, COCO's or Karpathy's JSON, and Parquet with images are read by `tables`; texts
beside images and shards by `data_prep.reading`.
"""

import dataclasses
import functools
import itertools
import pathlib
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from data_prep.building.record_counts import BadImageError, LeftOut
from data_prep.captioned_images.captioned_pictures import (
    BY_CONTENT,
    FILE,
    NO_TABLE,
    CaptionedPicture,
    ReadingOptions,
    is_empty,
    read_captions,
    split_of_cell,
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
from data_prep.reading import picture_names
from data_prep.reading.fetched import (
    SIDECAR_ENDINGS,
    TAR_ENDINGS,
    Fetched,
    FetchedPart,
    read_images,
    read_meta,
)
from data_prep.reading.text_files import DamagedFileError
from xmodal.core.errors import UnexpectedFilesError
from xmodal.core.untrusted.picture_formats import IMAGE_ENDINGS, is_picture

Items = Iterator[CaptionedPicture | LeftOut]

# What people and tools write beside data: hidden files, notes, Hugging Face's and img2dataset's
# descriptions, ours.
_DESCRIPTIONS = re.compile(
    r"\..*|(readme|licen[cs]e|copying|notice|citation|changelog|authors|ratings)(\..*)?"
    rf"|{re.escape(FILE)}|dataset_(infos?|dict)\.json|state\.json|.*_stats\.json",
    re.IGNORECASE,
)


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
    texts = set(itertools.chain.from_iterable(files.texts.values()))
    places = [place for place in files.paths if place not in texts and _is_table(folder / place)]
    if options.table:
        places = [] if options.table == NO_TABLE else [options.table]
    tables, reasons = [], []
    for place in places:
        try:
            tables.append(open_table(folder / place, options))
        except UnexpectedFilesError as error:
            if options.table or isinstance(error, DamagedFileError):
                raise
            reasons.append(str(error))
    beside = "" if options.table and tables else _captioned_file(files)
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
    return next((each for each in found if each.name.partition(".")[0].lower() == "ratings"), None)


def _is_table(path: pathlib.Path) -> bool:
    is_file = ending(path) in TABLE_ENDINGS and path.is_file()
    return is_file and not (_DESCRIPTIONS.fullmatch(path.name) or _is_shard(path))


def _is_shard(path: pathlib.Path) -> bool:
    """Whether a file is a tar, or a table of img2dataset, with the images or their status."""
    if ending(path) != ".parquet":
        return path.name.lower().endswith(TAR_ENDINGS)
    columns = {"status", *(end[1:] for end in IMAGE_ENDINGS)}
    return not columns.isdisjoint(parquet_schema(path).names)


def _captioned_file(files: PictureFiles) -> str:
    """A shard, or an image with its text; "" if there are none."""
    shards = (f"the shard {path}" for path in files.paths if _is_shard(files.folder / path))
    texts = (
        f"{image} with {pathlib.PurePosixPath(text).name}"
        for image, texts in files.texts.items()
        for text in texts
        if _has_caption(files.folder / text)
    )
    return next(itertools.chain(shards, texts), "")


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
    paths = [table.path.relative_to(files.folder).as_posix() for table in tables]
    for table in tables:
        if (table.kind, table.image, table.captions) != (first.kind, first.image, first.captions):
            raise UnexpectedFilesError(
                f"{first.path} ({first.kind}; {first}) and {table.path} ({table.kind}; {table}) "
                f'both have images and captions; choose one with {{"table": "{paths[0]}"}} in '
                f"{FILE}"
            )
    by_path = dict(zip(paths, tables, strict=True))
    read: Callable[[], Items] = functools.partial(
        _table_pictures, files, by_path, with_splits=options.split != "none"
    )
    if not first.embedded:
        read = list(read()).__iter__
    return Layout(first.kind, ", ".join(paths), read, str(first))


def _table_pictures(files: PictureFiles, tables: dict[str, Table], *, with_splits: bool) -> Items:
    """Yields the pictures of tables: those in their cells, or named files with all their captions.

    Raises:
      UnexpectedFilesError: a picture is in two splits.
    """
    found: dict[str, tuple[str, list[str]]] = {}
    for path, table in tables.items():
        parent = pathlib.PurePosixPath(path).parent.as_posix()
        of_table = split_of_path(path) if with_splits and not table.split else ""
        for row in table.rows():
            if isinstance(row, LeftOut):
                yield row
                continue
            where, cells = row
            captions = read_captions(map(cells.get, table.captions), where)
            image: str | LeftOut = f"{path}{where.removeprefix(table.path.name)}"
            if not table.embedded:
                name = cells.get(table.image)
                image = files.find("" if is_empty(name) else str(name), parent, where)
            if isinstance(image, LeftOut):
                yield image
                continue
            if isinstance(captions, LeftOut):
                yield captions
                continue
            split = of_table
            if table.split:
                split = split_of_cell(cells.get(table.split), f"{table.path.parent / where}")
            elif with_splits and not split and not table.embedded:
                split = split_of_path(image, is_image=True)
            if table.embedded:
                read = functools.partial(_content, cells.get(table.image))
                yield CaptionedPicture(image, captions, split, read, is_file=False)
                continue
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
    yield from _unused(files, {*tables, *found})


def _content(value: Any) -> bytes:
    content = value.get("bytes") if isinstance(value, dict) else value
    if not content:
        raise BadImageError("no image", "the cell is empty")
    return content


def _beside_layout(files: PictureFiles, options: ReadingOptions) -> Layout:
    shards = [path for path in files.paths if _is_shard(files.folder / path)]
    described = f"{len(shards):,} shards; {len(files.texts):,} images"
    read = functools.partial(_fetched_pictures, files, sorted(shards, key=pathlib.Path), options)
    return Layout("shards, or text and JSON files beside pictures", described, read)


def _fetched_pictures(files: PictureFiles, shards: Sequence[str], options: ReadingOptions) -> Items:
    """Yields the pictures of shards, and images with a text or JSON file of the same name."""
    folder = files.folder
    for shard in shards:
        for item in FetchedPart(folder, folder / shard).read():
            yield from _captioned(folder, item, options, is_file=False)
    for image in read_images(folder, files.paths, folder):
        if is_picture(image.name):
            yield from _captioned(folder, image, options, is_file=True)
    texts = itertools.chain.from_iterable(files.texts.values())
    yield from _unused(files, {*shards, *files.texts, *texts}, beside=True)


def _captioned(
    folder: pathlib.Path, item: Fetched | LeftOut, options: ReadingOptions, *, is_file: bool
) -> Items:
    name = item.where.removeprefix(f"{folder.name}/")
    if isinstance(item, LeftOut):
        # Nobody knows how many pictures damage hides.
        is_record = item.is_record or item.reason.startswith("damaged")
        yield dataclasses.replace(item, where=name, is_record=is_record)
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
    if not (item.text or item.meta):
        return LeftOut(name, "empty caption", "no text or JSON file, adjacent to it in a shard")
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
        if place in used or (path.is_file() and _DESCRIPTIONS.fullmatch(path.name)):
            continue
        reason, detail = picture_names.fault_of_file(path)
        is_lost = picture_names.is_unread_picture(place)
        if beside and path.is_file() and _has_caption(path):
            reason, detail, is_lost = "no image", "none has the name of this text", True
        yield LeftOut(place, reason or "not used", detail, is_record=beside and is_lost)

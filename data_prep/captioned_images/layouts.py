"""The four layouts of a user's folder, and which of them a folder has.

Tables of file names, COCO's or Karpathy's JSON, and Parquet with images are read by `tables`; texts
beside images and shards by `data_prep.reading`.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Container, Iterator, Mapping, Sequence

from data_prep.building.record_counts import LeftOut
from data_prep.captioned_images.captioned_pictures import (
    BY_CONTENT,
    CaptionedPicture,
    is_empty,
    read_captions,
    split_of_cell,
    split_of_folder,
    split_of_path,
)
from data_prep.captioned_images.options import FILE, NO_TABLE, ReadingOptions
from data_prep.captioned_images.picture_files import PictureFiles
from data_prep.captioned_images.tables import (
    KARPATHY,
    TABLE_ENDINGS,
    Table,
    ending,
    open_table,
    parquet_schema,
)
from data_prep.reading.fetched_files import SIDECAR_ENDINGS, Fetched, read_meta, texts_of_images
from data_prep.reading.fetched_images import FetchedPart, fetched_parts
from data_prep.reading.tar_samples import TAR_ENDINGS
from xmodal.core.errors import BadImageError, DamagedFileError, UnexpectedFilesError
from xmodal.core.folders import walk
from xmodal.core.picture_names import (
    IMAGE_ENDINGS,
    fault_of_file,
    is_picture,
    is_unread_picture,
    read_picture,
)

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
    if options.table == NO_TABLE:
        return _beside_layout(folder, options)
    if options.table:
        if not (folder / options.table).is_file():
            raise UnexpectedFilesError(f"{folder / options.table}, named in {FILE}, does not exist")
        return _table_layout(folder, [open_table(folder / options.table, options)], options)
    tables, reasons = [], []
    for path in _candidates(folder):
        try:
            tables.append(open_table(path, options))
        except DamagedFileError:
            raise
        except UnexpectedFilesError as error:
            reasons.append(str(error))
    beside = _captioned_file(folder)
    if tables and beside:
        place = tables[0].path.relative_to(folder)
        raise UnexpectedFilesError(
            f"{folder} has captions in two places: {place} ({tables[0].kind}) and {beside}; with "
            f'{{"table": "{place}"}} in {FILE} that table is read, with {{"table": "{NO_TABLE}"}} '
            "shards and files beside images"
        )
    if tables:
        return _table_layout(folder, tables, options)
    if beside:
        return _beside_layout(folder, options)
    has_images = any(is_picture(name) for _, names in walk(folder) for name in names)
    lack = "images but no captions" if has_images else "neither images nor captions"
    raise UnexpectedFilesError(
        "; ".join(reasons[:3])
        or f"{folder} has {lack}; add a table with the columns `image` and `caption`, or a text "
        "file with the captions beside each image (photo.txt for photo.jpg); if its folders are "
        "classes, build --dataset=class_folders"
    )


def find_ratings(folder: pathlib.Path) -> pathlib.Path | None:
    """Returns a folder's table of rated pairs; None if there is none."""
    found = (
        path
        for path in sorted(folder.iterdir())
        if path.name.partition(".")[0].lower() == RATINGS and ending(path) in TABLE_ENDINGS
    )
    return next(found, None)


def _candidates(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Files that may be tables: no shards, and no texts of images."""
    for parent, names in walk(folder):
        texts = {text for own in texts_of_images(names).values() for text in own}
        for name in names:
            path = parent / name
            is_table = ending(path) in TABLE_ENDINGS and path.is_file()
            if is_table and not (_is_description(name) or name in texts or _is_shard(path)):
                yield path


def _is_shard(path: pathlib.Path) -> bool:
    """Whether a file is a tar, or a table of img2dataset, with the images or their status."""
    if ending(path) != ".parquet":
        return path.name.lower().endswith(TAR_ENDINGS)
    columns = {"status", *(end[1:] for end in IMAGE_ENDINGS)}
    return not columns.isdisjoint(parquet_schema(path).names)


def _captioned_file(folder: pathlib.Path) -> str:
    """A shard, or an image with its text; "" if there are none."""
    for parent, names in walk(folder):
        for name in names:
            if _is_shard(parent / name):
                return f"the shard {(parent / name).relative_to(folder)}"
        for image, texts in texts_of_images(names).items():
            for text in texts:
                if is_picture(image) and _has_caption(parent / text):
                    return f"{(parent / image).relative_to(folder)} with {text}"
    return ""


def _has_caption(path: pathlib.Path) -> bool:
    """Whether a file is a text, or a JSON object with captions."""
    if path.suffix.lower() != ".json":
        return path.name.lower().endswith(SIDECAR_ENDINGS)
    return bool({"caption", "captions"} & read_meta(path.read_bytes())[0].keys())


def _table_layout(folder: pathlib.Path, tables: Sequence[Table], options: ReadingOptions) -> Layout:
    """The layout of tables that are read as one.

    Raises:
      UnexpectedFilesError: they have different formats or columns.
    """
    first = tables[0]
    for table in tables:
        if (table.kind, table.image, table.captions) != (first.kind, first.image, first.captions):
            raise UnexpectedFilesError(
                f"{first.path} ({first.kind}; {first}) and {table.path} ({table.kind}; {table}) "
                "both have images and captions; choose one with "
                f'{{"table": "{first.path.relative_to(folder)}"}} in {FILE}'
            )
    files = ", ".join(table.path.relative_to(folder).as_posix() for table in tables)
    if first.embedded:
        read = functools.partial(_embedded_pictures, folder, tables)
        return Layout("Parquet with pictures and captions", files, read, str(first))
    found = list(_named_pictures(folder, tables, with_splits=options.split != "none"))
    title = "a table of file names and captions"
    title = title if first.kind == "a table of files" else f"a file in {first.kind}"
    return Layout(title, files, lambda: iter(found), str(first))


def _named_pictures(folder: pathlib.Path, tables: Sequence[Table], *, with_splits: bool) -> Items:
    """Yields the pictures that tables name, each with the captions of all its rows.

    Raises:
      UnexpectedFilesError: a picture is in two splits.
    """
    files = PictureFiles(folder)
    found: dict[str, tuple[str, list[str]]] = {}
    for table in tables:
        place = table.path.relative_to(folder).as_posix()
        of_table = split_of_path(place) if with_splits and not table.split else ""
        rows = list(table.rows())
        read = [cells for row in rows if not isinstance(row, LeftOut) for cells in row[1:]]
        if table.kind == KARPATHY and not any(files.knows(cells["image"]) for cells in read):
            for cells in read:  # All images have been put into another folder.
                cells["image"] = cells["image"].rpartition("/")[2]
        named = [str(cells.get(table.image)) for cells in read]
        scope = files.scope(named, table.path, of_table)
        for row in rows:
            if isinstance(row, LeftOut):
                yield row
                continue
            where, cells = row
            if is_empty(cells.get(table.image)):
                yield LeftOut(where, "no image name", f"{table.image} is empty")
                continue
            image = files.find(str(cells[table.image]), table.path, scope, where)
            captions, left_out = read_captions(map(cells.get, table.captions), where)
            yield from left_out
            if isinstance(image, LeftOut):
                yield image
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
        captions, copies = read_captions(texts, image)
        if captions:
            yield from copies
            yield CaptionedPicture(
                image, captions, split, functools.partial(read_picture, folder / image)
            )
    used = {table.path.relative_to(folder).as_posix() for table in tables}
    yield from _unused(folder, used | found.keys(), files.links, "in no row of a table")


def _embedded_pictures(folder: pathlib.Path, tables: Sequence[Table]) -> Items:
    """Yields the pictures in Parquet tables: bytes, or Hugging Face's structs with `bytes`."""
    for table in tables:
        path = table.path.relative_to(folder).as_posix()
        for row in table.rows():
            assert not isinstance(row, LeftOut)  # Rows of Parquet are read or damaged.
            where = f"{path}{row[0].removeprefix(table.path.name)}"
            captions, left_out = read_captions(map(row[1].get, table.captions), where)
            yield from left_out
            split = split_of_path(path)
            if table.split:
                split = split_of_cell(row[1].get(table.split), f"{folder / where}")
            read = functools.partial(_content, row[1].get(table.image))
            if captions:
                yield CaptionedPicture(where, captions, split, read, is_file=False)
    used = {table.path.relative_to(folder).as_posix() for table in tables}
    yield from _unused(folder, used, {}, "in no row of a table")


def _content(value: bytes | dict[str, bytes] | None) -> bytes:
    content = value.get("bytes") if isinstance(value, dict) else value
    if not isinstance(content, bytes):
        raise BadImageError("no image", f"{content!r:.60} is not an encoded image")
    return content


def _beside_layout(folder: pathlib.Path, options: ReadingOptions) -> Layout:
    names = [name for _, names in walk(folder) for name in names]
    shards = sum(name.lower().endswith(TAR_ENDINGS) for name in names)
    images = sum(map(is_picture, names)) - len(PictureFiles(folder).links)
    files = [f"{shards:,} shards"] * bool(shards)
    files += [f"{images:,} images, with text or JSON files of the same name"] * bool(images)
    read = functools.partial(_fetched_pictures, folder, options)
    return Layout("shards, or text and JSON files beside pictures", "; ".join(files), read)


def _fetched_pictures(folder: pathlib.Path, options: ReadingOptions) -> Items:
    """Yields the pictures of shards, and images with a text or JSON file of the same name."""
    used, captioned = set[str](), set[str]()
    for parent, names in walk(folder):
        start = parent.relative_to(folder)
        used |= {(start / name).as_posix() for name in names if is_picture(name)}
        used |= {(start / name).as_posix() for name in names if _is_shard(parent / name)}
        for image, texts in texts_of_images(names).items():
            if texts and is_picture(image):
                captioned.add((start / image).as_posix())
                used |= {(start / text).as_posix() for text in texts}
    links = PictureFiles(folder, captioned).links
    for part in fetched_parts(folder):
        for item in part.read():
            name = item.where.removeprefix(f"{folder.name}/")
            if isinstance(item, LeftOut):
                yield dataclasses.replace(item, where=name)
            elif name in links:
                yield LeftOut(name, "link", f"another path of {links[name]}", is_record=False)
            elif item.error:  # A downloader's record of a dead link.
                yield LeftOut(name, "no image", item.error, is_record=False)
            elif is_picture(item.name) or not part.path.is_dir():
                yield from _captioned(item, name, options, part)
    yield from _unused(folder, used, {}, "")


def _captioned(item: Fetched, name: str, options: ReadingOptions, part: FetchedPart) -> Items:
    if item.fault:
        yield LeftOut(name, "unread text", item.fault)
        return
    if not item.text and not item.meta:
        yield LeftOut(name, "no caption", "no text of the same name, or an empty one")
        return
    try:
        lines = [line.decode("utf-8-sig") for line in item.text.splitlines()]
    except UnicodeDecodeError as error:
        yield LeftOut(name, "not UTF-8", f"{error.reason}; save the text as UTF-8")
        return
    keys = options.captions or [key for key in ("caption", "captions") if key in item.meta]
    own, of_text = (read_captions(c, name) for c in (map(item.meta.get, keys), lines))
    if options.captions or not of_text[0]:
        captions, left_out = own
    elif not own[0] or " ".join(own[0]).split() == " ".join(of_text[0]).split():
        captions, left_out = of_text if not own[0] else own
    else:
        yield LeftOut(name, "unread text", f"{of_text[0][0]!r}, but {own[0][0]!r} in JSON")
        return
    yield from left_out
    is_member = not part.path.is_dir()
    # The name of a loose image may describe its content: `train.jpg` may show a train.
    split = split_of_path(name.replace(":", "/").rpartition("/")[0])
    key = options.split or "split"
    if key in item.meta:
        split = split_of_cell(item.meta[key], f"{part.folder / name}, {key!r} in its JSON file")
    if captions:
        yield CaptionedPicture(name, captions, split, item.read, is_file=not is_member)


def _is_description(name: str) -> bool:
    """Whether a file is known to hold neither pictures nor captions, by its name."""
    stem = name.partition(".")[0].lower()
    is_known = name in _DESCRIPTIONS or name.endswith("_stats.json")
    return is_known or name.startswith(".") or stem in (RATINGS, *_NOTES)


def _unused(
    folder: pathlib.Path, used: Container[str], links: Mapping[str, str], unread: str
) -> Iterator[LeftOut]:
    """Yields an entry for every file that is not used, except descriptions of the data.

    Args:
      folder: folder of the user.
      used: paths of files, relative to the folder.
      links: other paths of pictures -> the one by which they are known.
      unread: the reason why a picture is not used; "" if texts and pictures that are not read are
        records that do not fit.
    """
    for parent, names in walk(folder):
        for name in names:
            path = parent / name
            place = path.relative_to(folder).as_posix()
            reason, _, detail = fault_of_file(path).partition(": ")
            is_deep_rating = parent != folder and name.partition(".")[0].lower() == RATINGS
            is_known = _is_description(name) and not is_deep_rating
            if place in used or (is_known and reason != "skipped folder"):
                continue
            is_record = not unread and is_unread_picture(name)
            if place in links:
                reason, detail = "link", f"another path of {links[place]}"
            elif is_picture(name) and not reason:
                reason = unread
            elif path.is_file() and not unread and _has_caption(path):
                reason, detail, is_record = "no image", "no image has the name of this text", True
            elif path.is_file() and ending(path) in TABLE_ENDINGS:
                reason, detail = "unread file", "no table of images and captions"
            yield LeftOut(place, reason, detail, is_record=is_record)

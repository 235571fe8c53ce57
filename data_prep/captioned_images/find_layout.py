"""Determines the layout of a folder from its files."""

import pathlib
from collections.abc import Iterator, Sequence

from data_prep.captioned_images.caption_files import KarpathyFile, Source, TableFile, open_source
from data_prep.captioned_images.captioned_pictures import BY_CONTENT, similar_split, split_of_path
from data_prep.captioned_images.fetched_layout import FetchedLayout
from data_prep.captioned_images.layouts import KarpathyLayout, Layout
from data_prep.captioned_images.options import FILE, NO_TABLE, ReadingOptions
from data_prep.captioned_images.picture_files import PictureFiles
from data_prep.captioned_images.sidecars import (
    captioned_files,
    has_caption,
    is_caption,
    is_sidecar,
)
from data_prep.captioned_images.table_layouts import EmbeddedLayout, TableLayout
from data_prep.captioned_images.tables import TABLE_ENDINGS, ending
from data_prep.captioned_images.unused_files import RATINGS, is_description
from data_prep.reading.fetched_files import stem_of
from data_prep.reading.image_files import is_archive
from data_prep.reading.tar_samples import TAR_ENDINGS, captioned_sample
from xmodal.core.errors import ConflictingColumnsError, DamagedFileError, UnexpectedFilesError
from xmodal.core.folders import files_below, walk
from xmodal.core.picture_names import is_picture

# A damaged file of these formats was a part of the table; other texts may be anything.
_CERTAIN = (".parquet", ".jsonl", ".ndjson")
_SHEETS = (".xlsx", ".xls", ".ods", ".numbers")
_SHOWN = 3


def find_layout(folder: pathlib.Path, options: ReadingOptions) -> Layout:
    """Returns the layout of a folder, which must have only one.

    Raises:
      UnexpectedFilesError: no layout fits, or several do.
    """
    if options.table == NO_TABLE:
        return FetchedLayout(folder, options)
    pictures, with_splits = PictureFiles(folder), options.split != "none"
    if options.table:
        path = folder / options.table
        if not path.is_file():
            raise UnexpectedFilesError(f"{path}, named in {FILE}, does not exist")
        source = open_source(path, options, pictures)
        return _of_sources(folder, [source], with_splits=with_splits)
    sources, reasons = _sources(folder, options, pictures)
    beside = _beside_pictures(folder, bool(sources))
    if sources and beside:
        raise _two(folder, _shown(folder, sources[0]), beside, sources[0])
    if sources:
        return _of_sources(folder, sources, with_splits=with_splits)
    if beside:
        return FetchedLayout(folder, options)
    raise _no_layout(folder, reasons)


def find_ratings(folder: pathlib.Path) -> pathlib.Path | None:
    """Returns a folder's table of rated pairs; None if there is none."""
    found = (
        path
        for path in sorted(folder.iterdir())
        if path.name.partition(".")[0].lower() == RATINGS and ending(path) in TABLE_ENDINGS
    )
    return next(found, None)


def _sources(
    folder: pathlib.Path, options: ReadingOptions, pictures: PictureFiles
) -> tuple[list[Source], list[str]]:
    """The tables of a folder, and why other files are none."""
    sources: list[Source] = []
    reasons: list[str] = []
    damaged: list[str] = []
    for path, image in _candidates(folder):
        try:
            source = open_source(path, options, pictures)
        except UnexpectedFilesError as error:
            if not image:
                if isinstance(error, ConflictingColumnsError):
                    raise
                certain = isinstance(error, DamagedFileError) and ending(path) in _CERTAIN
                (damaged if certain else reasons).append(str(error))
            continue
        if not image or _is_of_others(source, image, pictures):
            sources.append(source)
    if damaged and sources:
        raise UnexpectedFilesError(damaged[0])
    return sources, damaged + reasons


def _candidates(folder: pathlib.Path) -> Iterator[tuple[pathlib.Path, str]]:
    """Files that may be tables, each with the adjacent image that it may describe, or ""."""
    for parent, names in walk(folder):
        images = {stem_of(name): name for name in names if is_picture(name)}
        for name in names:
            path = parent / name
            if ending(path) in TABLE_ENDINGS and path.is_file() and not is_description(name):
                yield path, images.get(stem_of(name), "") if is_sidecar(name) else ""


def _is_of_others(source: Source, image: str, pictures: PictureFiles) -> bool:
    """Whether a file beside an image names another image, so that it is no text of the former."""
    if isinstance(source, KarpathyFile):
        return True
    name = next(source.names(), "")
    return stem_of(pathlib.PurePath(name).name) != stem_of(image) and pictures.knows(name)


def _beside_pictures(folder: pathlib.Path, certain: bool) -> str:
    """An image with its text, or two members of a shard; "" if there are none.

    Args:
      folder: folder of the user.
      certain: whether a JSON file must have a caption.
    """
    for image, text in captioned_files(folder):
        if not certain or has_caption(text):
            return f"{image.relative_to(folder)} with {text.name}"
    for path in files_below(folder, "*"):
        if not path.name.lower().endswith(TAR_ENDINGS):
            continue
        if found := captioned_sample(path, is_caption if certain else lambda name, content: True):
            return f"{path.relative_to(folder)} with {found}"
    return ""


def _of_sources(folder: pathlib.Path, sources: Sequence[Source], *, with_splits: bool) -> Layout:
    """The layout of tables that are parts of one table, or of Karpathy's file.

    Raises:
      UnexpectedFilesError: there are several tables, judging by their forms and columns.
    """
    first, *others = sources
    for other in others:
        if first.kind != other.kind or isinstance(first, KarpathyFile):
            raise _two(folder, _shown(folder, first), _shown(folder, other), first)
    if isinstance(first, KarpathyFile):
        return KarpathyLayout(folder, first.path, with_splits=with_splits)
    tables = [source for source in sources if isinstance(source, TableFile)]
    for table in tables:
        if table.read_columns != first.read_columns:
            raise UnexpectedFilesError(
                f"{first.path} and {table.path} both have images and captions, in columns with "
                f'different names; choose one with {{"table": "{first.path.name}"}} in {FILE}'
            )
        twins = [each for each in tables if each.path.with_suffix("") == table.path.with_suffix("")]
        if len(twins) > 1:  # One table in two formats.
            raise _two(folder, _shown(folder, twins[0]), _shown(folder, twins[1]), first)
    if with_splits:
        _check_names([table.path for table in tables if table.columns.split is None], folder)
    pairs = [(each.table, each.columns) for each in tables]
    if first.embedded:
        return EmbeddedLayout(folder, pairs)
    return TableLayout(folder, pairs, with_splits=with_splits)


def _check_names(paths: Sequence[pathlib.Path], folder: pathlib.Path) -> None:
    """Raises an error if tables look like splits, but have no names of splits.

    Raises:
      UnexpectedFilesError: names two of them.
    """
    places = [path.relative_to(folder).as_posix() for path in paths]
    similar = {
        similar_split(place): place for place in reversed(places) if not split_of_path(place)
    }
    found = [(split, place) for split, place in similar.items() if split]
    if len(found) > 1:
        (one, first), (other, second) = found[:2]
        raise UnexpectedFilesError(
            f"{folder}: {first} and {second} may be splits, or parts of one table: put {one!r} and "
            f"{other!r} in their names, as in {one}_1{pathlib.PurePath(first).suffix}{BY_CONTENT}"
        )


def _shown(folder: pathlib.Path, source: Source) -> str:
    return f"{source.path.relative_to(folder)} ({source.kind})"


def _two(folder: pathlib.Path, first: str, second: str, table: Source) -> UnexpectedFilesError:
    place = table.path.relative_to(folder)
    return UnexpectedFilesError(
        f'{folder} has captions in two places: {first}, and {second}; with {{"table": "{place}"}} '
        f'in {FILE} that table is read, with {{"table": "{NO_TABLE}"}} shards and files beside '
        "images"
    )


def _text_elsewhere(folder: pathlib.Path) -> tuple[str, str] | None:
    """The first image with a text of the same name in another folder, and that text."""
    images: dict[str, str] = {}
    texts: dict[str, str] = {}
    for parent, names in walk(folder):
        for name in names:
            found = images if is_picture(name) else texts if is_sidecar(name) else {}
            found.setdefault(stem_of(name), (parent / name).relative_to(folder).as_posix())
    return next(((images[stem], texts[stem]) for stem in texts if stem in images), None)


def _folders_of_pictures(folder: pathlib.Path) -> list[pathlib.Path]:
    below = (parent for parent, names in walk(folder) if any(map(is_picture, names)))
    return [parent for parent in below if parent != folder]


def _no_layout(folder: pathlib.Path, reasons: Sequence[str]) -> UnexpectedFilesError:
    if apart := _text_elsewhere(folder):
        image, text = apart
        return UnexpectedFilesError(
            f"{folder} has texts with the names of images in other folders, such as {text} for "
            f"{image}: put every text into the folder of its image"
        )
    if reasons:
        more = len(reasons) - _SHOWN
        rest = f"; and {more:,} more files" if more > 0 else ""
        return UnexpectedFilesError("; ".join(reasons[:_SHOWN]) + rest)
    names = [name for _, names in walk(folder) for name in names]
    archives = [name for name in names if is_archive(name)]
    has_images = any(map(is_picture, names)) or archives
    lack = "images but no captions" if has_images else "neither images nor captions"
    remedy = f", or unpack {archives[0]} if they are in it" if archives else ""
    if sheets := [name for name in names if name.lower().endswith(_SHEETS)]:
        remedy += f", or save {sheets[0]} as CSV (UTF-8)"
    if len(_folders_of_pictures(folder)) > 1:
        remedy += "; if the folders are classes, build --dataset=class_folders"
    return UnexpectedFilesError(
        f"{folder} has {lack}; add a table with the columns `image` and `caption`, or a text file "
        f"with the captions beside each image (photo.txt for photo.jpg){remedy}"
    )

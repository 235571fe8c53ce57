"""Pictures with captions beside them: in tar shards, or as text and JSON files."""

import dataclasses
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from data_prep.building.record_counts import LeftOut
from data_prep.captioned_images.captioned_pictures import (
    CaptionedPicture,
    check_splits,
    split_of_folder,
    split_of_path,
    split_of_value,
    without_copies,
)
from data_prep.captioned_images.column_names import SPLITS, find_usual
from data_prep.captioned_images.layouts import Layout
from data_prep.captioned_images.options import FILE, ReadingOptions
from data_prep.captioned_images.parquet_columns import parquet_schema
from data_prep.captioned_images.sample_captions import sample_captions
from data_prep.captioned_images.sidecars import (
    captioned_files,
    has_caption,
    is_sidecar,
    same_stem,
)
from data_prep.captioned_images.unused_files import is_description, unused_files
from data_prep.reading.fetched_files import Fetched, stem_of
from data_prep.reading.fetched_images import FetchedPart, fetched_parts
from data_prep.reading.tar_samples import TAR_ENDINGS
from xmodal.core.errors import UnexpectedFilesError
from xmodal.core.folders import paths_by_file, walk
from xmodal.core.picture_names import is_picture, is_unread_picture

Part = FetchedPart | None


class FetchedLayout(Layout):
    """Tar shards, and images with a text or JSON file for each.

    Args:
      folder: folder of the user.
      options: names given by the user.
    """

    TITLE = "shards, or text and JSON files beside pictures"

    def __init__(self, folder: pathlib.Path, options: ReadingOptions) -> None:
        self._folder, self._options = folder, options
        self._links = _links(folder)

    def describe(self) -> dict[str, str]:
        """See `Layout`."""
        names = [name for _, names in walk(self._folder) for name in names]
        shards = [name for name in names if name.lower().endswith(TAR_ENDINGS)]
        images = sum(map(is_picture, names)) - len(self._links)
        kinds = {
            f"{len(shards):,} shards ({', '.join(shards[:1])}, ...)": len(shards),
            f"{images:,} images, with text or JSON files of the same name": images,
        }
        return {"files": "; ".join(text for text, count in kinds.items() if count)}

    def parts(self) -> Sequence[Part]:
        """See `Layout`; the last part is all files that are not read."""
        return [*fetched_parts(self._folder), None]

    def read(self, part: Part) -> Iterator[CaptionedPicture | LeftOut]:
        """See `Layout`."""
        if part is None:
            yield from self._unused()
            return
        twins = same_stem(part.path) if part.path.is_dir() else {}
        for item in part.read():
            if isinstance(item, LeftOut):
                yield dataclasses.replace(item, where=self._name(item))
            elif first := self._links.get(self._name(item)):
                own = "; its own text is not read" if item.text or item.meta else ""
                detail = f"another path of {first}{own}"
                yield LeftOut(self._name(item), "link", detail, is_record=False)
            elif part.path.is_dir() and not _is_image(self._folder / item.name):
                continue  # It is among the files that are not used.
            elif fault := twins.get(item.name.rpartition("/")[2]):
                yield LeftOut(self._name(item), *fault)
            else:
                yield from self._captioned(item, is_member=not part.path.is_dir())

    def _captioned(self, item: Fetched, *, is_member: bool) -> Iterator[CaptionedPicture | LeftOut]:
        name = self._name(item)
        if item.error:
            yield LeftOut(name, "no image", item.error)
            return
        found = sample_captions(item, self._options, name)
        if isinstance(found, LeftOut):
            yield found
            return
        captions, left_out = without_copies(found, name)
        yield from left_out
        # The name of a loose image may describe its content: `train.jpg` may show a train.
        shard, _, member = name.rpartition(":") if is_member else ("", "", name)
        split = split_of_path(f"{shard}/{member}".rpartition("/")[0])
        given = self._options.split
        keys = [given] * (given in item.meta) if given else find_usual(list(item.meta), SPLITS)
        if keys:
            split = self._split(name, {key: item.meta[key] for key in keys})
        yield CaptionedPicture(name, captions, split, item.read, is_member)

    def _split(self, name: str, values: Mapping[str, Any]) -> str:
        """The split in the JSON file of a picture.

        Raises:
          UnexpectedFilesError: it is not known, or the keys name several.
        """
        found = {split_of_value(value) for value in values.values()} - {""}
        if len(found) > 1:
            raise UnexpectedFilesError(
                f"{self._folder / name}: its JSON file names several splits, {dict(values)}; "
                f'choose one with {{"split": "KEY"}} in {FILE}'
            )
        if not found:
            cells = ((f"{name}, {key!r} in its JSON file", value) for key, value in values.items())
            check_splits(cells, self._folder)
        return "".join(found)

    def _name(self, item: Fetched | LeftOut) -> str:
        return item.where.removeprefix(f"{self._folder.name}/")

    def _unused(self) -> Iterator[LeftOut]:
        used: set[str] = set()
        for parent, names in walk(self._folder):
            pictures = (name for name in names if is_picture(name) or is_unread_picture(name))
            stems = set(map(stem_of, pictures))
            for name in names:
                place = (parent / name).relative_to(self._folder).as_posix()
                if is_sidecar(name) and not is_description(name):
                    used.add(place)
                    if not (parent / name).is_file():
                        yield LeftOut(place, "broken link", is_record=False)
                    elif stem_of(name) not in stems:
                        yield _without_image(parent / name, place)
                elif _is_image(parent / name) or _is_shard(parent / name):
                    used.add(place)
        yield from unused_files(self._folder, used)


def _links(folder: pathlib.Path) -> dict[str, str]:
    """The other paths of images -> the one that is read, which has a text if one of them has."""
    captioned = {path.relative_to(folder).as_posix() for path, _ in captioned_files(folder)}
    images = (parent / name for parent, names in walk(folder) for name in names if is_picture(name))
    groups = paths_by_file(
        folder,
        (path.relative_to(folder).as_posix() for path in images),
        lambda path: (path not in captioned, not split_of_folder(path)),
    )
    return {link: first for first, *others in groups.values() for link in others}


def _without_image(path: pathlib.Path, place: str) -> LeftOut:
    if has_caption(path):
        return LeftOut(place, "no image", "no image has the name of this text")
    return LeftOut(place, "unread file", "neither an image of this name nor a caption", False)


def _is_image(path: pathlib.Path) -> bool:
    return is_picture(path.name) and path.is_file()


def _is_shard(path: pathlib.Path) -> bool:
    """Whether a file is a shard, or a downloader's table of its attempts."""
    if path.name.lower().endswith(TAR_ENDINGS):
        return True
    if path.suffix.lower() != ".parquet":
        return False
    try:
        return "status" in parquet_schema(path).names
    except UnexpectedFilesError:  # Listed as damaged.
        return True

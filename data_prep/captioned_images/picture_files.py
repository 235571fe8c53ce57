"""Finds the image file that a name in a table stands for."""

import dataclasses
import functools
import os
import pathlib
from collections.abc import Iterable, Sequence

from data_prep.captioned_images.captioned_pictures import split_of_folder
from data_prep.captioned_images.path_index import PathIndex
from data_prep.reading.image_files import ImageFile
from xmodal.core.errors import BadImageError, UnexpectedFilesError
from xmodal.core.folders import file_id, paths_by_file, walk
from xmodal.core.picture_names import (
    IMAGE_ENDINGS,
    composed,
    is_picture,
    is_unread_picture,
    read_picture,
)

_LONGEST = 4096  # A path on Linux.


@dataclasses.dataclass(frozen=True)
class MissingPicture(ImageFile):
    """A name that stands for no image, or for several; reading it raises an error.

    Attributes:
      places: the images that the name may stand for.
    """

    places: Sequence[str] = ()


class PictureFiles:
    """The images in a folder and its subfolders.

    A name is a path relative to the table or the folder, or the end of the path of exactly one
    image, such as the name of a file in a subfolder; see `PathIndex`. An image with several paths
    is known by one of them, in a folder of a split if there is one, and not a link if possible.

    Args:
      folder: folder of the user.

    Attributes:
      places: the paths of all images.
      links: other paths of images -> the one by which they are known.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        found = [
            (parent / name).relative_to(folder).as_posix()
            for parent, names in walk(folder)
            for name in names
            if is_picture(name) or is_unread_picture(name)
        ]
        self._paths = paths_by_file(folder, found, lambda path: not split_of_folder(path))
        self.links = {link: first for first, *others in self._paths.values() for link in others}
        self.places = [path for path in found if path not in self.links]

    def __len__(self) -> int:
        return sum(map(is_picture, self.places))

    def knows(self, name: str) -> bool:
        """Returns whether a name stands for at least one image."""
        return bool(name.strip() and self._index.find(name.strip()))

    def are_beside(self, names: Iterable[str], table: pathlib.Path) -> bool:
        """Returns whether one of the names in a table fits an image below its folder."""
        folder = f"{table.parent.relative_to(self.folder).as_posix()}/"
        if folder == "./":
            return False  # All images are below it.
        found = (self.find(name, table) for name in names)
        return any(
            place.startswith(folder)
            for image in found
            for place in (image.places if isinstance(image, MissingPicture) else [image.where])
        )

    def are_of_splits(self, names: Iterable[str], table: pathlib.Path, split: str) -> bool:
        """Returns whether folders of splits repeat the names in a table of one of them.

        Then its `1.jpg` is none of another split.
        """
        found = (self.find(name, table) for name in names if split)
        places = (image.places for image in found if isinstance(image, MissingPicture))
        return any(split in {*map(split_of_folder, each)} for each in places if len(each) > 1)

    def find(
        self, name: str, table: pathlib.Path, *, is_beside: bool = False, split: str = ""
    ) -> ImageFile:
        """Returns the image with a name, or a `MissingPicture`.

        Args:
          name: name in the table.
          table: the table, to whose folder the name may be relative.
          is_beside: whether a single image that fits must be below that folder, unless the name is
            its whole path: if a table of cats is beside its images, its `1.jpg` is no dog.
          split: the split in whose folder an image must be, unless the name is its whole path; see
            `are_of_splits`.

        Raises:
          UnexpectedFilesError: the name points outside the folder, or is no name.
        """
        name = name.strip()
        if len(name) > _LONGEST:
            raise UnexpectedFilesError(
                f"{table} has {name!r:.40}... in place of the name of an image: images as text, in "
                "base64, are not read; write their bytes to Parquet, or to files"
            )
        places = [self.links.get(place, place) for place in self._places(name, table)]
        if not any(places) or pathlib.PureWindowsPath(name).is_absolute():
            raise UnexpectedFilesError(
                f"{table} names the image {name!r}, which is not in {self.folder}: copy or "
                "link the images into that folder, and give their paths relative to it"
            )
        found = self.matches(name, table)
        if is_beside:
            found = self._beside(found, table, places)
        if split:
            found = [each for each in found if split_of_folder(each) == split or each in places]
        if len(found) > 1:
            read = functools.partial(
                _fail, "ambiguous name", f"{name} is {' and '.join(found[:2])}"
            )
            return MissingPicture(name, read, found)
        if not found:
            detail = f"{table.parent if is_beside else self.folder} has no {name}"
            return MissingPicture(name, functools.partial(_fail, "no image", detail))
        (place,) = found
        if is_unread_picture(place):
            detail = f"convert it to one of {', '.join(IMAGE_ENDINGS)}"
            return ImageFile(place, functools.partial(_fail, "unread ending", detail))
        return ImageFile(place, functools.partial(read_picture, self.folder / place))

    def matches(self, name: str, table: pathlib.Path) -> list[str]:
        """Returns the images that a name in a table may stand for; see `find`."""
        if not name or len(name) > _LONGEST:
            return []
        places, end = self._places(name, table), os.path.normpath(_with_slashes(name))
        if linked := [self.links[place] for place in places if place in self.links]:
            return list(dict.fromkeys(linked))
        is_end = not os.path.isabs(end) and end.partition("/")[0] != os.pardir
        # A file whose own name has a backslash is found by the name as it is.
        keys = [key for key in (name, end) if is_end] or list(filter(None, places))
        found = next(filter(None, (self._index.find(key, places) for key in keys)), [])
        return found or self._behind_links(filter(None, places))

    def _places(self, name: str, table: pathlib.Path) -> list[str]:
        """The paths of a name that is relative to a table or the folder; "" for one outside."""
        return [self._below(start, _with_slashes(name)) for start in (table.parent, self.folder)]

    def _behind_links(self, places: Iterable[str]) -> list[str]:
        """The images to which places lead by links of files or folders."""
        of_files = (self._paths.get(file_id(self.folder / place)) for place in places)
        return list(dict.fromkeys(paths[0] for paths in of_files if paths))

    def _beside(
        self, found: Sequence[str], table: pathlib.Path, places: Sequence[str]
    ) -> list[str]:
        """The images below the folder of a table, or at one of the places in any case."""
        folder = f"{table.parent.relative_to(self.folder).as_posix()}/"
        whole = {composed(place.lower()) for place in places}
        return [
            path for path in found if path.startswith(folder) or composed(path.lower()) in whole
        ]

    def _below(self, start: pathlib.Path, name: str) -> str:
        """The path of a name relative to the folder, or "" if it points outside."""
        path = os.path.normpath(os.path.join(os.path.abspath(start), name))
        relative = pathlib.PurePath(os.path.relpath(path, os.path.abspath(self.folder)))
        return "" if relative.parts[:1] == (os.pardir,) else relative.as_posix()

    @functools.cached_property
    def _index(self) -> PathIndex:
        return PathIndex(self.places)


def _with_slashes(name: str) -> str:
    return name.replace("\\", "/")  # Tables written on Windows have backslashes.


def _fail(reason: str, detail: str) -> bytes:
    raise BadImageError(reason, detail)

"""Finds the image file that a name in a table stands for."""

import functools
import os
import pathlib
from collections.abc import Iterable, Iterator

from data_prep.building.image_check import BadImageError
from data_prep.errors import UnexpectedFilesError
from data_prep.reading.fetched_files import IMAGE_ENDINGS, TAR_ENDINGS
from data_prep.reading.folders import walk
from data_prep.reading.image_files import ImageFile, ImageFiles, find_images


class PictureFiles:
    """The images in a folder and its subfolders, including those in archives.

    A name is a path relative to the table or the folder, or the end of the path of exactly one
    image, such as the name of a file in a subfolder, even without extension or in different case.

    Args:
      folder: folder of the user.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self._paths = [
            (parent / name).relative_to(folder).as_posix()
            for parent, names in walk(folder)
            for name in names
            if name.lower().endswith(IMAGE_ENDINGS)
        ]

    def __len__(self) -> int:
        return len(self._paths)

    def find(self, name: str, table: pathlib.Path) -> ImageFile:
        """Returns the image with a name; if there is none, reading it raises an error.

        Args:
          name: name in the table.
          table: the table, to whose folder the name may be relative.

        Raises:
          UnexpectedFilesError: the name points outside the folder.
        """
        name = name.strip()
        tried = [self._below(table.parent, name), self._below(self._folder, name)]
        if not any(tried):
            raise UnexpectedFilesError(
                f"{table} names the image {name!r}, which is not in {self._folder}: copy or "
                "link the images into that folder, and give their paths relative to it"
            )
        for path in filter(None, tried):
            if path in self._known:
                return self._file(path)
        for path in filter(None, tried):
            for key in (path, pathlib.PurePosixPath(path).name):
                found = self._by_end.get(key.lower(), ())
                if len(found) == 1:
                    return self._file(found[0])
                if found:
                    return _missing(name, "ambiguous name", f"{name} is {' and '.join(found[:2])}")
        return self._in_archives(name)

    def places(self) -> Iterator[str]:
        """Yields the paths of all images, and the places of those in archives."""
        yield from self._paths
        for archive in self._archives:
            yield from archive.names()

    def knows(self, name: str) -> bool:
        """Whether a name is that of a picture, in any of its `spellings`."""
        return name.strip().lower() in self._by_end

    def _in_archives(self, name: str) -> ImageFile:
        """An archive counts as a folder: `train/1.jpg` may be `1.jpg` in `train.zip`."""
        path = pathlib.PurePosixPath(name.replace("\\", "/"))
        found = [
            (f"{archive.path.name.partition('.')[0]}/{member}", archive, member)
            for archive in self._archives
            for member in archive.paths_of(path.name)
        ]
        if len(found) > 1:  # Then the folders in the name decide.
            end = "/" + "/".join(part for part in path.parts if part not in (".", "/"))
            found = [each for each in found if f"/{each[0]}".endswith(end)] or found
        if len(found) > 1:
            both = " and ".join(place for place, _, _ in found[:2])
            return _missing(name, "ambiguous name", f"{name} is {both}")
        for place, archive, member in found:
            return ImageFile(place, functools.partial(archive.read, member))
        return _missing(name, "no image", f"{self._folder} has no {name}")

    def _below(self, start: pathlib.Path, name: str) -> str:
        """The path of a name relative to the folder, or "" if it points outside."""
        root, relative = os.path.abspath(self._folder), ""
        # Tables written on Windows have backslashes.
        for spelling in (name, name.replace("\\", "/")):
            path = os.path.normpath(os.path.join(os.path.abspath(start), spelling))
            relative = pathlib.PurePath(os.path.relpath(path, root)).as_posix()
            if relative.split("/")[0] == os.pardir:
                return ""
            if relative in self._known:
                break
        return relative

    def _file(self, path: str) -> ImageFile:
        return ImageFile(path, (self._folder / path).read_bytes)

    @functools.cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self._paths)

    @functools.cached_property
    def _by_end(self) -> dict[str, list[str]]:
        """Paths by `spellings`."""
        found: dict[str, list[str]] = {}
        for path in self._paths:
            for key in spellings(path):
                found.setdefault(key, []).append(path)
        return found

    @functools.cached_property
    def _archives(self) -> list[ImageFiles]:
        return list(_open_archives(self._folder))


def spellings(path: str) -> set[str]:
    """Returns a path in lower case, its file name, and both without extension."""
    lower = path.lower()
    name = pathlib.PurePosixPath(lower).name
    return {lower, name, os.path.splitext(lower)[0], os.path.splitext(name)[0]}


def _open_archives(folder: pathlib.Path) -> Iterable[ImageFiles]:
    for path in sorted(folder.iterdir()):
        for ending in (".zip", *TAR_ENDINGS):
            if path.name.endswith(ending) and path.is_file():
                found = find_images(folder, path.name.removesuffix(ending))
                if found is not None:
                    yield found


def _missing(name: str, reason: str, detail: str) -> ImageFile:
    def read() -> bytes:
        raise BadImageError(reason, detail)

    return ImageFile(name, read)

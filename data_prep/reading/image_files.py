"""Image files of a dataset, in a folder or in the archive in which they were published."""

import abc
import collections
import dataclasses
import functools
import os
import pathlib
import tarfile
from collections.abc import Callable, Iterable

from data_prep.reading.tar_samples import TAR_ENDINGS, open_tar
from data_prep.reading.text_files import open_archive, read_member
from xmodal.core.errors import BadImageError, UnexpectedFilesError
from xmodal.core.folders import is_note
from xmodal.core.untrusted.archives import TAR_ERRORS, read_part, tar_members
from xmodal.core.untrusted.names import is_inside

ENDINGS = ("", ".zip", *TAR_ENDINGS)


@dataclasses.dataclass(frozen=True)
class ImageFile:
    """An image that is read on demand.

    Attributes:
      where: its name in reports.
      read: returns its bytes; raises `BadImageError` if there are none.
    """

    where: str
    read: Callable[[], bytes]


class ImageFiles(abc.ABC):
    """Encoded images by file name.

    Attributes:
      path: path of the folder or the archive.
    """

    path: pathlib.Path

    @abc.abstractmethod
    def __contains__(self, name: str) -> bool: ...

    @abc.abstractmethod
    def _read(self, name: str) -> bytes: ...

    def image(self, name: str) -> ImageFile:
        """The image with a file name, which is looked up later."""
        return ImageFile(name, functools.partial(self.read, name))

    def read(self, name: str) -> bytes:
        """Content of a file.

        Raises:
          BadImageError: there is no such image, or the archive is damaged there.
        """
        if name not in self:
            raise BadImageError("no image", f"{self.path} has no {name}")
        try:
            return self._read(name)
        except UnexpectedFilesError as error:
            raise BadImageError("damaged in the archive", str(error)) from error


def open_images(folder: pathlib.Path, *names: str) -> ImageFiles:
    """Opens the first folder or archive that exists.

    Args:
      folder: folder of the manually downloaded files.
      names: names without extension: `train2014` is the folder `train2014`, or the archive
        `train2014.zip`, `.tar`, `.tar.gz` or `.tgz`. A folder may hold its images in a subfolder
        with one of these names, as some archives unpack.

    Raises:
      FileNotFoundError: there is none.
      UnexpectedFilesError: the archive is truncated.
    """
    found = find_images(folder, *names)
    if found is None:
        raise FileNotFoundError(
            f"{folder} has none of {', '.join(names)}, as a folder or with "
            f"{', '.join(ENDINGS[1:])} at the end"
        )
    return found


def find_images(folder: pathlib.Path, *names: str) -> ImageFiles | None:
    """Opens the first folder or archive that exists, see `open_images`; None if there is none."""
    candidates = (folder / f"{name}{ending}" for name in names for ending in ENDINGS)
    path = next((path for path in candidates if path.exists()), None)
    if path is None:
        return None
    if path.is_dir():
        inner = (path / name for name in names if (path / name).is_dir())
        return _Folder(next(inner, path))
    return _Zip(path) if path.suffix.lower() == ".zip" else _Tar(path)


def is_archive(name: str) -> bool:
    """Returns whether a file is an archive, according to its ending."""
    return name.lower().endswith(ENDINGS[1:])


class _Folder(ImageFiles):
    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

    def __contains__(self, name: str) -> bool:
        return is_inside(name) and os.path.isfile(self.path / name)  # Also of a name too long.

    def _read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()


class ArchivedImages(ImageFiles):
    """An archive, whose files are known by their names and by their paths.

    Args:
      paths: paths of all files; of equal names the last one counts.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._known = dict.fromkeys(paths)
        self._paths: dict[str, list[str]] = collections.defaultdict(list)
        for path in self._known:
            self._paths[pathlib.PurePosixPath(path).name].append(path)

    def __contains__(self, name: str) -> bool:
        return name in self._paths or name in self._known

    def _path(self, name: str) -> str:
        return name if name in self._known else self._paths[name][-1]


class _Zip(ArchivedImages):
    def __init__(self, path: pathlib.Path) -> None:
        self.path, self._archive = path, open_archive(path)
        # Archives put the images in a folder, and macOS adds another one with the same names.
        super().__init__(m for m in self._archive.namelist() if not is_note(m))

    def _read(self, name: str) -> bytes:
        return read_member(self._archive, self._path(name))


class _Tar(ArchivedImages):
    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        try:
            self._file = open_tar(path)
            with tarfile.open(fileobj=self._file, mode="r:") as archive:
                self._members = {
                    member.name: (member.offset_data, member.size)
                    for member in tar_members(archive)
                    if member.isfile() and not is_note(member.name)
                }
        except TAR_ERRORS as error:
            raise UnexpectedFilesError(
                f"{path} is truncated or not a tar archive ({error}); download it again"
            ) from error
        super().__init__(self._members)

    def _read(self, name: str) -> bytes:
        start, size = self._members[self._path(name)]
        content = read_part(self._file, start, size)
        if content is None:
            raise BadImageError("truncated image", f"its {size:,} bytes are not all there")
        return content

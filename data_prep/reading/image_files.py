"""Image files of a dataset, in a folder or in the archive in which they were published."""

import dataclasses
import functools
import pathlib
import tarfile
from collections.abc import Callable

from data_prep.building.record_counts import BadImageError
from data_prep.reading.fetched import TAR_ENDINGS, TAR_ERRORS, open_tar, read_member_at, tar_members
from data_prep.reading.text_files import open_archive, read_member
from xmodal.core.errors import UnexpectedFilesError
from xmodal.core.folders import is_note

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


class ImageFiles:
    """Encoded images by file name, which in archives may be without the folders above.

    Args:
      path: path of the folder or the archive.

    Raises:
      UnexpectedFilesError: the archive is truncated.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        # Archives put the images in a folder.
        members = _members(path) if path.is_file() else {}
        self._members = members | {
            pathlib.PurePosixPath(name).name: read for name, read in members.items()
        }

    def __contains__(self, name: str) -> bool:
        return name in self._members or (self.path / name).is_file()

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
            return self._members.get(name, (self.path / name).read_bytes)()
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
    inner = (path / name for name in names if (path / name).is_dir())
    return ImageFiles(next(inner, path))


def _members(path: pathlib.Path) -> dict[str, Callable[[], bytes]]:
    """The files of an archive by their paths, without the notes that macOS adds."""
    if path.suffix.lower() == ".zip":
        packed = open_archive(path)
        found = {name: functools.partial(read_member, packed, name) for name in packed.namelist()}
        return {name: read for name, read in found.items() if not is_note(name)}
    try:
        file = open_tar(path)
        with tarfile.open(fileobj=file, mode="r:") as archive:
            return {
                each.name: functools.partial(read_member_at, file, each)
                for each in tar_members(archive)
            }
    except TAR_ERRORS as error:
        raise UnexpectedFilesError(
            f"{path} is truncated or not a tar archive ({error}); download it again"
        ) from error

"""Image files of a dataset, in a folder or still in the archive they were published in."""

import pathlib

from data_prep.building.image_check import BadImageError
from data_prep.errors import UnexpectedFilesError
from data_prep.reading.text_files import open_archive, read_member


class ImageFiles:
    """Encoded images by file name.

    Args:
      candidates: folders or zip archives that may hold the images; the first that exists is used.

    Raises:
      FileNotFoundError: none of them exists.
      UnexpectedFilesError: the archive is cut.
    """

    def __init__(self, *candidates: pathlib.Path) -> None:
        present = [path for path in candidates if path.exists()]
        if not present:
            raise FileNotFoundError(f"none of {', '.join(map(str, candidates))} exists")
        self.path = present[0]
        self._archive = open_archive(self.path) if self.path.is_file() else None
        if self._archive is not None:
            # Archives put the images into a folder, and macOS adds another with the same names.
            members = (m for m in self._archive.namelist() if not m.startswith("__MACOSX"))
            self._members = {pathlib.PurePosixPath(member).name: member for member in members}

    def __contains__(self, name: str) -> bool:
        if self._archive is not None:
            return name in self._members
        return (self.path / name).is_file()

    def read(self, name: str) -> bytes:
        """Content of a file.

        Raises:
          BadImageError: there is no such image, or the archive is damaged at this place.
        """
        if name not in self:
            raise BadImageError("no image", f"{self.path} has no {name}")
        if self._archive is None:
            return (self.path / name).read_bytes()
        try:
            return read_member(self._archive, self._members[name])
        except UnexpectedFilesError as error:
            raise BadImageError("damaged in the archive", str(error)) from error

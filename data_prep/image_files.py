"""Image files of a dataset, in a folder or still in the archive they were published in."""

import pathlib
import zipfile


class ImageFiles:
    """Encoded images by file name.

    Args:
      candidates: folders or zip archives that may hold the images; the first that exists is used.

    Raises:
      FileNotFoundError: none of them exists.
    """

    def __init__(self, *candidates: pathlib.Path) -> None:
        present = [path for path in candidates if path.exists()]
        if not present:
            raise FileNotFoundError(f"none of {', '.join(map(str, candidates))} exists")
        self.path = present[0]
        self._archive = zipfile.ZipFile(self.path) if self.path.is_file() else None
        if self._archive is not None:
            # Archives put the images into a folder, and macOS adds another with the same names.
            members = (m for m in self._archive.namelist() if not m.startswith("__MACOSX"))
            self._members = {pathlib.PurePosixPath(member).name: member for member in members}

    def __contains__(self, name: str) -> bool:
        if self._archive is not None:
            return name in self._members
        return (self.path / name).exists()

    def read(self, name: str) -> bytes:
        """Content of a file.

        Raises:
          FileNotFoundError: there is no such image.
        """
        if name not in self:
            raise FileNotFoundError(f"{self.path} has no image {name}")
        if self._archive is not None:
            return self._archive.read(self._members[name])
        return (self.path / name).read_bytes()

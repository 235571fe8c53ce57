"""The files of a user's folder, and the image file that a name in a table stands for."""

import functools
import os
import pathlib
from collections.abc import Iterable

from data_prep.building.record_counts import LeftOut
from data_prep.reading.fetched import texts_of_images
from data_prep.reading.picture_names import composed, is_unread_picture
from xmodal.core.folders import walk
from xmodal.core.untrusted.picture_formats import IMAGE_ENDINGS, is_picture


class PathIndex:
    """Paths by their last components, in any case, Unicode form and kind of slashes.

    Args:
      paths: relative paths.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._by_name: dict[str, list[str]] = {}
        for path in paths:
            self._by_name.setdefault(_key(path).rpartition("/")[2], []).append(path)

    def find(self, name: str) -> list[str]:
        """Returns the paths that end in all components of a name, as it is written if possible."""
        end = f"/{_key(name)}"
        found = [
            path
            for path in self._by_name.get(end.rpartition("/")[2], ())
            if f"/{_key(path)}".endswith(end)
        ]
        return [path for path in found if f"/{path}".endswith(f"/{name}")] or found


def _key(path: str) -> str:
    # Some letters in lower case are composed of other characters.
    return composed(composed(path.replace("\\", "/")).lower())


class PictureFiles:
    """The files in a folder and its subfolders, listed once.

    Args:
      folder: folder of the user.

    Attributes:
      folder: see above.
      paths: relative paths of all files, and of folders that are not entered.
      texts: path of every image -> those of the text and JSON files about it.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.paths = [
            (parent / name).relative_to(folder).as_posix()
            for parent, names in walk(folder)
            for name in names
        ]
        texts = texts_of_images(self.paths)
        self.texts = {path: found for path, found in texts.items() if is_picture(path)}
        self._images = [path for path in self.paths if is_picture(path) or is_unread_picture(path)]
        self._index = PathIndex(self._images)

    def find(self, name: str, parent: str, where: str) -> str | LeftOut:
        """Returns the path of the image with a name, or why there is not one.

        A name is a path relative to the table or the folder, or the end of the path of exactly one
        image. If there are images below the folder of the table, it is one of these.

        Args:
          name: name in the table.
          parent: folder of the table, relative to that of the user.
          where: place of the name.
        """
        path = os.path.normpath(name.strip().replace("\\", "/"))
        places = sorted({os.path.normpath(os.path.join(start, path)) for start in (parent, "")})
        whole = [
            each
            for place in places
            for each in self._index.find(place)
            if each.count("/") == place.count("/")
        ]
        near = f"{parent}/" if self._has_images(parent) else ""
        found = whole or [each for each in self._index.find(path) if each.startswith(near)]
        if len(found) > 1:
            return LeftOut(where, "ambiguous name", f"{name} is {' and '.join(found[:2])}")
        if not found:
            return LeftOut(where, "no image", f"{self.folder} has no {name!r:.200}")
        if is_unread_picture(found[0]):
            detail = f"convert {found[0]} to one of {', '.join(IMAGE_ENDINGS)}"
            return LeftOut(where, "unread ending", detail)
        return found[0]

    @functools.cache  # noqa: B019
    def _has_images(self, parent: str) -> bool:
        """Returns whether there are images below a folder; the user's own does not count."""
        return any(image.startswith(f"{parent}/") for image in self._images)

"""The files of a user's folder, and the image file that a name in a table stands for."""

import functools
import os
import pathlib
from collections.abc import Callable, Iterable

from data_prep.building.record_counts import LeftOut
from data_prep.captioned_images.captioned_pictures import split_of_folder
from data_prep.reading.fetched import texts_of_images
from xmodal.core.folders import file_id, paths_by_file, walk
from xmodal.core.picture_names import IMAGE_ENDINGS, composed, is_picture, is_unread_picture

Scope = Callable[[str], bool]
"""Whether a path may be meant by a name that is not a whole path."""


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

    A name is a path relative to the table or the folder, or the end of the path of exactly one
    image. An image with several paths is known by one of them: with texts if there is one, in a
    folder of a split, and not a link if possible.

    Args:
      folder: folder of the user.

    Attributes:
      folder: see above.
      paths: relative paths of all files, and of folders that are not entered.
      texts: path of every image -> those of the text and JSON files about it.
      links: other paths of images -> the one by which they are known.
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
        images = [path for path in self.paths if is_picture(path) or is_unread_picture(path)]
        self._of_file = paths_by_file(
            folder, images, lambda path: (not self.texts.get(path), not split_of_folder(path))
        )
        self.links = {link: first for first, *others in self._of_file.values() for link in others}
        self._index = PathIndex(images)

    def scope(self, names: Iterable[str], parent: str, split: str) -> Scope:
        """Returns where the images of a table are.

        If one is below the folder of the table, all are: `cats/all.csv` names no dogs. If one is
        in a folder of the split of the table, all are: the `1.jpg` of `val.csv` is none in `train`.

        Args:
          names: names in the table.
          parent: its folder, relative to that of the user.
          split: its split; "" for none.
        """
        names = list(names)
        scopes: list[Scope] = []
        if parent != ".":
            scopes.append(lambda path: path.startswith(f"{parent}/"))
        if split:
            scopes.append(lambda path: split_of_folder(path) == split)
        for scope in scopes:
            if any(self._matches(name, parent, scope) for name in names):
                return scope
        return lambda path: True

    def find(self, name: str, parent: str, scope: Scope, where: str) -> str | LeftOut:
        """Returns the path of the image with a name, or why there is not one.

        Args:
          name: name in the table.
          parent: see `scope`.
          scope: see `scope`.
          where: place of the name.
        """
        found = self._matches(name, parent, scope) if name else []
        if len(found) > 1:
            return LeftOut(where, "ambiguous name", f"{name} is {' and '.join(found[:2])}")
        if not found:
            return LeftOut(where, "no image", f"{self.folder} has no {name!r:.200}")
        if is_unread_picture(found[0]):
            detail = f"convert {found[0]} to one of {', '.join(IMAGE_ENDINGS)}"
            return LeftOut(where, "unread ending", detail)
        return found[0]

    def _matches(self, name: str, parent: str, scope: Scope) -> list[str]:
        name = os.path.normpath(name.strip().replace("\\", "/"))
        places = {os.path.normpath(os.path.join(start, name)) for start in (parent, "")}
        whole = [path for place in sorted(places) for path in self._at(place)]
        found = whole or [path for path in self._index.find(name) if scope(path)]
        return list(dict.fromkeys(self.links.get(path, path) for path in found))

    @functools.cache  # noqa: B019
    def _at(self, place: str) -> list[str]:
        """The images with a whole path, which may lead through links of folders."""
        parts = place.count("/")
        found = [path for path in self._index.find(place) if path.count("/") == parts]
        return found or self._of_file.get(file_id(self.folder / place), [])[:1]

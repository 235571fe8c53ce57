"""Files of COCO as they are handed out: JSON and images, unpacked or still in their archives."""

import itertools
import pathlib
from collections.abc import Callable
from typing import Any

from data_prep.building.image_check import BadImageError
from data_prep.errors import UnexpectedFilesError
from data_prep.reading.image_files import ENDINGS, find_images
from data_prep.reading.text_files import open_archive, parse_json, read_json, read_member

# The official annotations, and Karpathy's splits of three datasets.
_ARCHIVES = (
    "annotations_trainval2014.zip",
    "annotations_trainval2017.zip",
    "caption_datasets.zip",
)
_FOLDERS = (".", "annotations")
_YEARS = (("train2014", "val2014"), ("train2017", "val2017"))
# Names of an image in the releases, the last that of 2017.
_NAMES = ("COCO_train2014_{:012d}.jpg", "COCO_val2014_{:012d}.jpg", "{:012d}.jpg")


def has_json(folder: pathlib.Path, name: str) -> bool:
    """Whether a JSON file exists, unpacked or in an archive.

    Raises:
      UnexpectedFilesError: an archive is cut.
    """
    return _find(folder, name) is not None


def read_coco_json(
    folder: pathlib.Path,
    name: str,
    *,
    object_hook: Callable[[dict[str, Any]], Any] | None = None,
) -> tuple[Any, str]:
    """Reads a JSON file from a folder, from `annotations` in it, or from one of the archives.

    Args:
      folder: of the files that were fetched by hand.
      name: of the file, such as `captions_val2014.json`.
      object_hook: see `json.loads`.

    Returns:
      Its content, and where it was found.

    Raises:
      FileNotFoundError: it is nowhere.
      UnexpectedFilesError: it, or the archive, is damaged.
    """
    found = _find(folder, name)
    if found is None:
        raise FileNotFoundError(
            f"{folder / name} does not exist, nor is it in {', '.join((*_FOLDERS[1:], *_ARCHIVES))}"
        )
    path, member = found
    if member is None:
        return read_json(path, object_hook=object_hook), str(path)
    with open_archive(path) as archive:
        source = f"{name} in {path}"
        return parse_json(read_member(archive, member), source, object_hook=object_hook), source


class Pictures:
    """Encoded photographs by image id.

    Args:
      folder: holds train2014 and val2014, or train2017 and val2017, which have the same images
        under other names, as folders or archives.
      partial: whether any of them will do, and `images` and `images_160` too.

    Raises:
      FileNotFoundError: images are missing altogether.
      UnexpectedFilesError: an archive is cut.
    """

    def __init__(self, folder: pathlib.Path, *, partial: bool = False) -> None:
        names = (*itertools.chain(*_YEARS), *(("images", "images_160") if partial else ()))
        found = {name: find_images(folder, name) for name in names}
        self._stores = [files for files in found.values() if files is not None]
        if not self._stores or not (partial or any(all(map(found.get, both)) for both in _YEARS)):
            wanted = ", or ".join(" and ".join(both) for both in _YEARS)
            raise FileNotFoundError(
                f"{folder} has no images of COCO: {', '.join(names) if partial else wanted}, as "
                f"folders or with {', '.join(ENDINGS[1:])} at the end"
            )

    def read(self, image_id: int) -> bytes:
        """The encoded image of an id.

        Raises:
          BadImageError: there is no such image, or its archive is damaged.
        """
        names = [form.format(image_id) for form in _NAMES]
        for store in self._stores:
            for name in names:
                if name in store:
                    return store.read(name)
        places = ", ".join(str(store.path) for store in self._stores)
        raise BadImageError("no image", f"image {image_id} is not in {places}")


def wrong_form(source: str, error: Exception) -> UnexpectedFilesError:
    """Returns the error for JSON that can be parsed but has not the published form."""
    return UnexpectedFilesError(
        f"{source} does not have the published form ({type(error).__name__}: {error}); "
        "fetch it again"
    )


def _find(folder: pathlib.Path, name: str) -> tuple[pathlib.Path, str | None] | None:
    """Path of a file, or of the archive that has it together with its name in there."""
    for place in _FOLDERS:
        path = folder / place / name
        if path.exists():
            return path, None
    for archive_name in _ARCHIVES:
        path = folder / archive_name
        if path.exists():
            with open_archive(path) as archive:
                for member in archive.namelist():
                    # macOS adds a second entry of every name.
                    if pathlib.PurePosixPath(member).name == name and "__MACOSX" not in member:
                        return path, member
    return None

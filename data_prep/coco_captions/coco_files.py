"""Files of COCO as they are handed out: JSON and images, unpacked or still in their archives."""

import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from data_prep.building.image_check import BadImageError
from data_prep.errors import UnexpectedFilesError
from data_prep.reading.image_files import ImageFiles
from data_prep.reading.text_files import open_archive, parse_json, read_json, read_member

# The official annotations, and Karpathy's splits of three datasets.
_ARCHIVES = ("annotations_trainval2014.zip", "caption_datasets.zip")
_FOLDERS = (".", "annotations")
_PARTS = ("train2014", "val2014")
# Names under which an image may be found whose file is not named beside its captions.
_NAMES = ("{:012d}.jpg", "COCO_val2014_{:012d}.jpg", "COCO_train2014_{:012d}.jpg")


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
    """Encoded photographs of records in the form of Karpathy's file.

    Args:
      folder: holds train2014 and val2014, as folders or zip archives.
      partial: whether any of them will do, and `images` and `images_160` too.

    Raises:
      FileNotFoundError: images are missing altogether.
      UnexpectedFilesError: an archive is cut.
    """

    def __init__(self, folder: pathlib.Path, *, partial: bool = False) -> None:
        names = (*_PARTS, "images", "images_160") if partial else _PARTS
        self._stores: dict[str, ImageFiles] = {}
        for name in names:
            candidates = folder / name, folder / f"{name}.zip"
            if not partial or any(path.exists() for path in candidates):
                self._stores[name] = ImageFiles(*candidates)
        if not self._stores:
            raise FileNotFoundError(
                f"{folder} has no images: none of {', '.join(names)}, nor one of them as .zip"
            )

    def read(self, record: Mapping[str, Any]) -> bytes:
        """The encoded image of a record, by the name of its file or else by its id.

        Raises:
          BadImageError: there is no such image, or its archive is damaged.
        """
        if "filename" in record:
            names, stores = [record["filename"]], [self._stores.get(record["filepath"])]
        else:
            names = [form.format(record["cocoid"]) for form in _NAMES]
            stores = list(self._stores.values())
        for store in filter(None, stores):
            for name in names:
                if name in store:
                    return store.read(name)
        places = ", ".join(str(store.path) for store in filter(None, stores)) or "no known folder"
        raise BadImageError("no image", f"{names[0]} is not in {places}")


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

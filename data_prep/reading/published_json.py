"""JSON files of COCO and Karpathy as distributed: unpacked, or in their archives."""

import pathlib
from collections.abc import Callable
from typing import Any

from data_prep.reading.text_files import open_archive, parse_json, read_json, read_member
from xmodal.core.errors import UnexpectedFilesError

_ARCHIVES = (
    "annotations_trainval2014.zip",
    "annotations_trainval2017.zip",
    "caption_datasets.zip",
)
_FOLDERS = (".", "annotations")
# Errors for JSON that can be parsed but does not have the published format.
WRONG_FORM = (KeyError, OverflowError, TypeError, ValueError)


def has_json(folder: pathlib.Path, name: str) -> bool:
    """Whether a JSON file exists, unpacked or in an archive.

    Raises:
      UnexpectedFilesError: an archive is truncated.
    """
    return _find(folder, name) is not None


def read_published_json(
    folder: pathlib.Path,
    name: str,
    *,
    object_hook: Callable[[dict[str, Any]], Any] | None = None,
) -> tuple[Any, str]:
    """Reads a JSON file from a folder, from `annotations` in it, or from one of the archives.

    Args:
      folder: folder of the manually downloaded files.
      name: name of the file, such as `captions_val2014.json`.
      object_hook: see `json.loads`.

    Returns:
      Its content, and where it was found.

    Raises:
      FileNotFoundError: it is in none of these.
      UnexpectedFilesError: the file or the archive is damaged.
    """
    found = _find(folder, name)
    if found is None:
        raise FileNotFoundError(
            f"{folder / name} does not exist; it is not in "
            f"{', '.join((*_FOLDERS[1:], *_ARCHIVES))} either"
        )
    path, member = found
    if member is None:
        return read_json(path, object_hook=object_hook), str(path)
    with open_archive(path) as archive:
        source = f"{name} in {path}"
        return parse_json(read_member(archive, member), source, object_hook=object_hook), source


def wrong_form(source: str, error: Exception) -> UnexpectedFilesError:
    """Returns the error for JSON that can be parsed but does not have the published format."""
    return UnexpectedFilesError(
        f"{source} does not have the published format ({type(error).__name__}: {error}); "
        "download it again"
    )


def _find(folder: pathlib.Path, name: str) -> tuple[pathlib.Path, str | None] | None:
    """Path of a file, or of the archive that contains it and its name in that archive."""
    for place in _FOLDERS:
        path = folder / place / name
        if path.exists():
            return path, None
    for archive_name in _ARCHIVES:
        path = folder / archive_name
        if path.exists():
            with open_archive(path) as archive:
                for member in archive.namelist():
                    # macOS adds a second entry for every name.
                    if pathlib.PurePosixPath(member).name == name and "__MACOSX" not in member:
                        return path, member
    return None

"""Names of picture files in a user's folder, and why some are not read."""

import pathlib
import unicodedata

from data_prep.building.record_counts import BadImageError
from xmodal.core.untrusted.picture_formats import IMAGE_ENDINGS, is_picture

# Pictures of these formats are missing records; files with other endings are only listed.
_UNREAD_ENDINGS = (
    ".avif", ".heic", ".heif", ".jxl", ".jp2", ".j2k", ".svg", ".psd", ".ico", ".tga", ".exr",
    ".cr2", ".cr3", ".nef", ".arw", ".dng", ".raf", ".orf", ".rw2",
)  # fmt: skip


def is_unread_picture(name: str) -> bool:
    """Returns whether a file is a picture in a format that is not read."""
    return not is_picture(name) and name.lower().endswith(_UNREAD_ENDINGS)


def composed(name: str) -> str:
    """Returns a name in Unicode's composed form (NFC), the same for all that look the same.

    macOS, and archives from it, write `é` as two characters.
    """
    return unicodedata.normalize("NFC", name)


def fault_of_file(path: pathlib.Path) -> tuple[str, str]:
    """Returns why a path cannot be read as a picture, reason and detail; "" if it may be one."""
    if path.is_dir():
        return "skipped folder", "a system keeps it for itself, or this user may not read it"
    if not path.is_file():
        return "broken link", "it leads to no file"
    if is_picture(path.name):
        return "", ""
    remedy = f"; convert it to one of {', '.join(IMAGE_ENDINGS)}"
    own = remedy if is_unread_picture(path.name) else ""
    return "unread ending", f"{path.suffix.lower() or 'none'}{own}"


def read_picture(path: pathlib.Path) -> bytes:
    """Returns the content of a file.

    Raises:
      BadImageError: it cannot be read, such as a link to nothing.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadImageError("unreadable file", f"{path}: {error.strerror}") from error

"""Names of picture files: endings that are read, and spellings that look the same."""

import pathlib
import unicodedata

import PIL.features

from xmodal.core.errors import BadImageError
from xmodal.core.folders import is_private

IMAGE_ENDINGS = (
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff",
    *((".avif",) if PIL.features.check("avif") else ()),
)  # fmt: skip
# Pictures of these formats are missing records; files with other endings are only listed.
UNREAD_ENDINGS = (
    ".avif", ".heic", ".heif", ".jxl", ".jp2", ".j2k", ".svg", ".psd", ".ico", ".tga", ".exr",
    ".cr2", ".cr3", ".nef", ".arw", ".dng", ".raf", ".orf", ".rw2",
)  # fmt: skip


def is_picture(name: str) -> bool:
    """Returns whether a file is read as a picture, according to its ending."""
    return name.lower().endswith(IMAGE_ENDINGS)


def is_unread_picture(name: str) -> bool:
    """Returns whether a file is a picture in a format that is not read."""
    return not is_picture(name) and name.lower().endswith(UNREAD_ENDINGS)


def composed(name: str) -> str:
    """Returns a name in Unicode's composed form (NFC), the same for all that look the same.

    macOS, and archives from it, write `é` as two characters.
    """
    return unicodedata.normalize("NFC", name)


def fault_of_file(path: pathlib.Path) -> str:
    """Returns why a path cannot be read as a picture, "reason: detail"; "" if it may be one."""
    if path.is_dir() and is_private(path.name):
        return "skipped folder: a system or a tool keeps it for itself"
    if path.is_dir():
        return "unreadable folder: this user may not read it"
    if not path.is_file():
        return "broken link: it leads to no file"
    if not is_picture(path.name):
        ending = path.suffix.lower() or "none"
        remedy = f"; convert it to one of {', '.join(IMAGE_ENDINGS)}"
        return f"unread ending: {ending}{remedy if is_unread_picture(path.name) else ''}"
    return ""


def read_picture(path: pathlib.Path) -> bytes:
    """Returns the content of a file.

    Raises:
      BadImageError: it cannot be read, such as a link to nothing.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        is_broken = path.is_symlink() and not path.exists()
        reason = "broken link" if is_broken else "unreadable file"
        raise BadImageError(reason, f"{path}: {error.strerror}") from error

"""The pictures of an index: their files, or the images of their prepared dataset."""

import contextlib
import pathlib
import threading

import numpy as np
import PIL.Image

from xmodal.api.search.gallery import IndexGallery
from xmodal.api.search.items import name_item, open_split
from xmodal.core.errors import UserError
from xmodal.core.page import SHOWN, encode_jpeg
from xmodal.core.untrusted.picture_formats import open_picture
from xmodal.data.pixels.images import stand_upright

_WHOLE = 4096  # Pixels of the longer side of pictures that are converted.


class ItemPictures:
    """Finds the pictures of images by their row; usable from several threads."""

    def __init__(self, gallery: IndexGallery) -> None:
        """Opens the dataset of the images, if they are from one."""
        self._names, dataset = gallery.names, gallery.dataset
        self._split = None if dataset is None else open_split(dataset)
        self._lock = threading.Lock()

    def find(self, row: int) -> pathlib.Path | bytes | None:
        """Returns the file of an image, or its contents; None if it is not there anymore."""
        if row >= len(self._names):
            return None
        name, split = self._names[row], self._split
        if split is None:
            path = pathlib.Path(name)
            return path if path.is_file() else None
        if row >= len(split.image_ids) or name_item(split, row) != name:
            return None
        with self._lock:
            return split.pictures(np.array([row]))[0]


def open_upright(source: pathlib.Path | bytes, side: int = 0) -> PIL.Image.Image:
    """Returns a picture, rotated according to its EXIF orientation.

    Args:
      source: a file or its contents.
      side: wanted pixels of the longer side, so that large JPEGs are decoded at a lower
        resolution, which is at least this one; 0 for the whole resolution.
    """
    try:
        picture = open_picture(source)
        if side:
            picture.draft("RGB", (side, side))
        picture.load()
        return stand_upright(picture)
    except Exception as error:  # Damaged files make Pillow raise all kinds of errors.
        raise UserError(f"{source!s:.300} cannot be read as a picture: {error}.") from error


def for_browsers(source: pathlib.Path | bytes) -> tuple[str, bytes]:
    """Returns the media type and content of a picture, as JPEG if browsers may not show it."""
    kind = None
    with contextlib.suppress(Exception), open_picture(source) as header:  # See above.
        kind = header.format
    if kind in SHOWN:
        content = source if isinstance(source, bytes) else source.read_bytes()
    else:
        kind, content = "JPEG", encode_jpeg(open_upright(source, _WHOLE), _WHOLE)
    return PIL.Image.MIME[kind], content

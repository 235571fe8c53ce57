"""The pictures of an index: their files, or the images of their prepared dataset."""

import pathlib
import threading

import numpy as np
import PIL.Image

from xmodal.api.search.gallery import IndexGallery
from xmodal.api.search.items import name_item, open_split
from xmodal.core.errors import UserError
from xmodal.core.untrusted.picture_formats import open_picture
from xmodal.data.pixels.images import stand_upright


class ItemPictures:
    """Finds the pictures of images by their row; usable from several threads."""

    def __init__(self, gallery: IndexGallery) -> None:
        """Opens the dataset of the images, if they are from one."""
        self._names, dataset = gallery.names, gallery.dataset
        self._split = None if dataset is None else open_split(dataset)
        self._lock = threading.Lock()

    def find(self, row: int) -> pathlib.Path | bytes | None:
        """Returns the file of an image, or its contents; None if there is no such file."""
        name, split = self._names[row], self._split
        if split is None:
            path = pathlib.Path(name)
            return path if path.is_file() else None
        if row >= len(split.image_ids) or name_item(split, row) != name:
            raise UserError(
                f"{split.name} {split.split} has no {name!r} at position {row}: the "
                "dataset was changed after the index was built; build the index again."
            )
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


def format_of(source: pathlib.Path | bytes) -> str | None:
    """Returns Pillow's name of the format of a picture; None if it cannot be read."""
    try:
        with open_picture(source) as header:
            return header.format
    except Exception:  # See above.
        return None

"""COCO's photographs, in folders or in the archives in which they are distributed."""

import itertools
import pathlib

from data_prep.building.record_counts import BadImageError
from data_prep.reading.image_files import ENDINGS, find_images

_YEARS = (("train2014", "val2014"), ("train2017", "val2017"))
# Names of an image in the releases; the last one is for 2017.
_NAMES = ("COCO_train2014_{:012d}.jpg", "COCO_val2014_{:012d}.jpg", "{:012d}.jpg")


class Pictures:
    """Encoded photographs by image id.

    Args:
      folder: contains train2014 and val2014, or train2017 and val2017 (the same images under other
        names), as folders or archives.
      partial: whether any one of them is enough, or `images` or `images_160`.

    Raises:
      FileNotFoundError: there are no images.
      UnexpectedFilesError: an archive is truncated.
    """

    def __init__(self, folder: pathlib.Path, *, partial: bool = False) -> None:
        names = (*itertools.chain(*_YEARS), *(("images", "images_160") if partial else ()))
        found = {name: find_images(folder, name) for name in names}
        self._stores = [files for files in found.values() if files is not None]
        if not self._stores or not (partial or any(all(map(found.get, both)) for both in _YEARS)):
            wanted = ", or ".join(" and ".join(both) for both in _YEARS)
            raise FileNotFoundError(
                f"{folder} has no COCO images: {', '.join(names) if partial else wanted}, as "
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

"""Readers for the label files that are released with ECCV Caption."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

from data_prep.reading.csv_files import read_csv
from data_prep.reading.published_files import wrong_form
from data_prep.reading.text_files import read_json
from xmodal.core.errors import UnexpectedFilesError
from xmodal.core.untrusted.saved_arrays import DAMAGE, load_arrays

ENDS = {"i2t": "image_to_caption", "t2i": "caption_to_image"}
"""Direction -> end of the names of its lists of positives."""
_CAPTIONS = 5


@dataclasses.dataclass(frozen=True)
class LabeledGallery:
    """The captions and images that queries search.

    Attributes:
      captions: image id -> its caption ids, both in the order of Karpathy's test split.
      image_of: caption id -> image id, in the same order.
    """

    captions: dict[int, list[int]]
    image_of: dict[int, int]

    def items(self, direction: str) -> Mapping[int, Any]:
        """The items that a direction searches, by id: captions for `i2t`, images for `t2i`."""
        return self.image_of if direction == "i2t" else self.captions


def read_gallery(folder: pathlib.Path) -> LabeledGallery:
    """Reads the order of the captions and which image each belongs to.

    Raises:
      FileNotFoundError: a file is missing.
      UnexpectedFilesError: the files contradict each other, or an image does not have five captions
        in a row.
    """
    order, pairs = folder / "coco_test_ids.npy", folder / "original_caption_to_image.json"
    images = read_positives(pairs)
    if not order.is_file():
        raise FileNotFoundError(f"{order} does not exist")
    try:
        ids = list(map(int, load_arrays(order)))
    except DAMAGE as error:
        raise wrong_form(str(order), error) from error
    captions: dict[int, list[int]] = {}
    for caption in ids:
        for image in images.get(caption, []):
            captions.setdefault(image, []).append(caption)
    image_of = {caption: image for image, group in captions.items() for caption in group}
    if list(image_of) != ids or set(map(len, captions.values())) != {_CAPTIONS}:
        raise UnexpectedFilesError(
            f"{pairs} and {order.name} do not list the same captions, image by image and five for "
            "each. Download both files again."
        )
    return LabeledGallery(captions, image_of)


def read_positives(path: pathlib.Path) -> dict[int, list[int]]:
    """Reads one list: query id -> ids of its positives.

    Raises:
      FileNotFoundError: the file is missing.
      UnexpectedFilesError: it is not a JSON object of lists of ids.
    """
    try:
        return {int(query): list(map(int, items)) for query, items in read_json(path).items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise UnexpectedFilesError(
            f"{path} is not a JSON object of lists of ids ({error}). Download the file again."
        ) from error


def read_mturk(path: pathlib.Path) -> dict[tuple[int, int], list[int]]:
    """Reads `mturk_parsed.csv`, the raters' answers that the authors of ECCV Caption offer.

    Its columns are those that the authors' `human_verified_pairs_func.py` reads: model, ranking,
    score, cid, iid, annotation, shortcoming and shortcoming2. Like there, rows without ids are
    skipped.

    Returns:
      (caption id, image id) -> answers, one per row: 1 is 100 % yes, 2 partially yes, 3 mostly no
      and 4 100 % no.

    Raises:
      FileNotFoundError: the file is missing.
      UnexpectedFilesError: it lacks a column, or has another answer.
    """
    found: dict[tuple[int, int], list[int]] = {}
    for where, row in read_csv(path, columns=("cid", "iid", "annotation")):
        caption, image, answer = (row[name].strip() for name in ("cid", "iid", "annotation"))
        if caption.isdecimal() and image.isdecimal():
            if answer not in ("1", "2", "3", "4"):
                raise UnexpectedFilesError(f"{path.parent / where}: answer {answer!r}.")
            found.setdefault((int(caption), int(image)), []).append(int(answer))
    return found

"""Which of COCO's 80 object categories an image shows, from the instance annotations."""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from data_prep.reading import published_files
from xmodal.core.untrusted.saved_arrays import DAMAGE, load_arrays

_INSTANCES = tuple(
    f"instances_{part}{year}.json" for year in (2014, 2017) for part in ("train", "val")
)
_TABLE = "val2014_categories.npz"
_NONE = np.zeros(0, np.uint8)


@dataclasses.dataclass(frozen=True)
class Categories:
    """Categories of the annotated images.

    Attributes:
      names: names of the K categories, in the order of their ids.
      labels: image id -> uint8 [K], 1 for the categories it shows.
    """

    names: tuple[str, ...]
    labels: dict[int, np.ndarray]

    def of(self, image_id: int) -> np.ndarray:
        """Labels of an image, uint8 [K], or [0] if they are not known."""
        return self.labels.get(image_id, _NONE)


def read_categories(folder: pathlib.Path, names: Sequence[str] = _INSTANCES) -> Categories | None:
    """Reads the instance annotations, or else the table made from those of val2014.

    An image that is listed without any instance shows none of the categories.

    Args:
      folder: may hold `instances_train2014.json` and `instances_val2014.json`, or those of 2017,
        unpacked or in `annotations_trainval2014.zip`, or `val2014_categories.npz` with `image_ids`
        int [N], `labels` [N, K] and `category_names` [K].
      names: instance annotations to read.

    Returns:
      The categories; None if there is no such file.

    Raises:
      UnexpectedFilesError: a file is damaged or in another format, or two files list different
        categories.
    """
    found = [
        _read_instances(folder, name) for name in names if published_files.has_json(folder, name)
    ]
    if not found:
        return _read_table(folder / _TABLE) if (folder / _TABLE).exists() else None
    labels = {image: row for categories in found for image, row in categories.labels.items()}
    return Categories(found[0].names, labels)


def _read_instances(folder: pathlib.Path, name: str) -> Categories:
    content, source = published_files.read_published_json(
        folder, name, object_hook=_without_outline
    )
    try:
        names = {item["id"]: str(item["name"]) for item in content["categories"]}
        place = {category: number for number, category in enumerate(sorted(names))}
        labels = {image["id"]: np.zeros(len(names), np.uint8) for image in content["images"]}
        for image, category in content["annotations"]:
            labels[image][place[category]] = 1
    except published_files.WRONG_FORM as error:
        raise published_files.wrong_form(source, error) from error
    return Categories(tuple(names[category] for category in sorted(names)), labels)


def _without_outline(value: dict[str, Any]) -> Any:
    """Keeps image and category of an instance; all outlines would take gigabytes of memory."""
    if "category_id" in value and "image_id" in value:
        return value["image_id"], value["category_id"]
    return value


def _read_table(path: pathlib.Path) -> Categories:
    try:
        with load_arrays(path) as archive:
            ids, labels = archive["image_ids"], archive["labels"].astype(np.uint8)
            names = tuple(map(str, archive["category_names"]))
        labels = labels.reshape(len(ids), len(names))
    except (AttributeError, *DAMAGE) as error:
        raise published_files.wrong_form(str(path), error) from error
    return Categories(names, dict(zip(ids.tolist(), labels, strict=True)))

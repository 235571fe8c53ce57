"""JSON files known by their form: COCO's, Karpathy's, and captions by image."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from data_prep.building.record_counts import LeftOut
from data_prep.captioned_images.tables import Row, Table
from data_prep.reading.text_files import read_json
from xmodal.core.errors import UnexpectedFilesError
from xmodal.core.picture_names import is_picture


def _key(value: Any) -> str:
    """An id as text, since some writers make texts or decimals of numbers; "" for no id."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, (int, str)) else ""


def is_karpathy(content: Any) -> bool:
    """Returns whether a JSON value has Karpathy's form: images with sentences."""
    return any(isinstance(each, dict) and "sentences" in each for each in _images(content))


def is_coco(content: Any) -> bool:
    """Returns whether a JSON value has COCO's form: images, and annotations that name them."""
    return bool(_images(content)) and isinstance(content.get("annotations"), list)


def is_by_image(content: Any, is_known: Callable[[str], bool]) -> bool:
    """Returns whether the keys of a JSON object are names of images.

    Args:
      content: the object.
      is_known: whether a name is that of an image of the folder.
    """
    if any(map(is_picture, content)):
        return True
    return 2 * sum(map(is_known, content)) > len(content)


def _images(content: Any) -> list[Any]:
    images = content.get("images") if isinstance(content, dict) else None
    return images if isinstance(images, list) else []


@dataclasses.dataclass(frozen=True)
class CocoTable(Table):
    """COCO's captions: a list of `images`, and of `annotations` with their captions.

    A row is an annotation, with the columns `image`, `caption` and `split`, which some writers add
    to images; an image without annotations is a row without a caption.
    """

    names: tuple[str, ...] = ("image", "caption", "split")

    def rows(self, *_: Any) -> Iterator[Row | LeftOut]:
        """See `Table`.

        Raises:
          UnexpectedFilesError: two images have the same id, an object has a key twice, or the file
            has another form.
        """
        content = read_json(self.path)
        found: dict[str, dict[str, Any]] = {}
        for number, image in enumerate(content["images"]):
            where = f"{self.path}: image {number}"
            own = image if isinstance(image, dict) else {}
            key = _key(own.get("id"))
            if not key or "file_name" not in own:
                raise UnexpectedFilesError(f"{where} is {image!r:.60}, without id and file_name")
            if key in found:
                raise UnexpectedFilesError(
                    f"{where}: {image['file_name']!r} has the id {image['id']!r} of "
                    f"{found[key]['image']!r}"
                )
            found[key] = {"image": image["file_name"], "split": image.get("split")}
        described = set()
        for number, annotation in enumerate(content["annotations"]):
            where = f"{self.path.name} annotation {number}"
            own = annotation if isinstance(annotation, dict) else {}
            key = _key(own.get("image_id"))
            if key not in found:
                detail = f"no image has the id {own.get('image_id')!r:.60}"
                yield LeftOut(where, "no image", f"{detail}; the first id is {next(iter(found))!r}")
                continue
            described.add(key)
            yield where, {**found[key], "caption": own.get("caption")}
        for number, (key, row) in enumerate(found.items()):
            if key not in described:
                yield f"{self.path.name} image {number}", {**row, "caption": None}

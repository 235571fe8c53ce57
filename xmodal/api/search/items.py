"""Searchable items: pictures and captions from folders, lists, files and datasets."""

import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xmodal.core.errors import UserError
from xmodal.core.folders import walk
from xmodal.core.untrusted.picture_formats import IMAGE_ENDINGS, is_picture
from xmodal.core.untrusted.saved_arrays import DAMAGE, load_arrays
from xmodal.data.pixels.images import ImageConfig
from xmodal.evals.scores.files import lines_of

if TYPE_CHECKING:
    from xmodal.data import EvalSplit

_AT_A_TIME = 256


@dataclasses.dataclass(frozen=True)
class SearchItems:
    """Items of one kind.

    Attributes:
      names: shown for each item: a path, a caption, or the image of a dataset.
      read: returns the inputs of the model, in this order.
      dataset: section of the dataset that has their pictures; None for other items.
      upright: see `Model.embed_images`; pictures of a dataset are embedded as in its evaluation.
      may_be_damaged: whether items that cannot be read are left out, instead of being an error.
    """

    names: Sequence[str]
    read: Callable[[], Iterator[Any]]
    dataset: Mapping[str, str] | None = None
    upright: bool = True
    may_be_damaged: bool = False


def from_values(values: Sequence[Any] | np.ndarray) -> SearchItems:
    """Returns captions, or pictures for `Model.embed_images`; names are paths or rows."""
    names = [
        os.fspath(each) if isinstance(each, (str, os.PathLike)) else str(row)
        for row, each in enumerate(values)
    ]
    return SearchItems(names, lambda: iter(values))


def from_images(place: str) -> SearchItems:
    """Returns the pictures of a folder and its subfolders, or of a list, or features."""
    path = pathlib.Path(place)
    if path.is_dir():
        files = (parent / name for parent, names in walk(path.resolve()) for name in names)
        # A file that is linked is one item, under its own path if that is in the folder.
        pictures = (file for file in files if is_picture(file.name) and not file.is_dir())
        links_first = sorted(pictures, key=lambda file: not file.is_symlink())
        found = sorted({file.resolve(): file for file in links_first}.values())
        if not found:
            raise UserError(f"{place} has no picture ({', '.join(IMAGE_ENDINGS)}).")
        return dataclasses.replace(from_values(list(map(str, found))), may_be_damaged=True)
    if path.suffix == ".npy":
        features = read_array(path)
        names = [f"{path.resolve()}#{row}" for row in range(len(features))]
        return dataclasses.replace(from_values(features), names=names)
    # A list names files relative to itself.
    paths = [str((path.parent / line).resolve()) for line in _read_lines("images", path)]
    return dataclasses.replace(from_values([*dict.fromkeys(paths)]), may_be_damaged=True)


def from_captions(place: str) -> SearchItems:
    """Returns the lines of a text file."""
    return from_values(_read_lines("captions", pathlib.Path(place)))


def from_dataset(section: Mapping[str, str], images: ImageConfig | None) -> dict[str, SearchItems]:
    """Returns the images and captions of a split of a dataset, by kind.

    Args:
      section: `dataset`, `config`, `split`, `data_dir` and `manual_dir`.
      images: see `Model.images`.
    """
    split, features = open_split(section, images), images is not None and not images.size
    found = {}
    if len(split.image_ids) and "image" in split.modalities:
        # Features have no picture to show.
        dataset = None if features else dict(section)
        found["image"] = dataclasses.replace(from_split(split, features=features), dataset=dataset)
    if len(split.caption_texts):
        found["caption"] = from_values(split.caption_texts)
    return found


def from_split(split: "EvalSplit", *, features: bool) -> SearchItems:
    """Returns the images of a split; see `from_dataset`."""
    names = [name_item(split, row) for row in range(len(split.image_ids))]
    return SearchItems(names, functools.partial(_read_split, split, features), upright=False)


def name_item(split: "EvalSplit", row: int) -> str:
    """Returns the name in an index of an image of a dataset, by its row in the split.

    It ends in the name of the picture, if the dataset has names: ids of a user's pictures change
    with the folder.
    """
    shown = split.labels.get("picture", split.image_ids)[row]
    return f"{split.name} {split.split} {shown}"


def open_split(section: Mapping[str, str], images: ImageConfig | None = None) -> "EvalSplit":
    """Returns a split of a dataset; see `from_dataset`."""
    from xmodal import data  # Slow to import.

    section = dict(section)
    split = section.pop("split")
    image: dict[str, Any] = {"size": 1}  # The model gets whole pictures, if there are any.
    if images is not None and not images.size:
        image = {"size": 0, "max_regions": images.max_regions}
    whole = {**section, "image": image, "text": {}}
    data.prepare(whole, splits=[split])
    return data.eval_split(whole, split=split)


def read_array(path: pathlib.Path) -> np.ndarray:
    """Returns the array of a .npy file."""
    try:
        return load_arrays(path, mmap_mode="r")
    except DAMAGE as error:
        raise UserError(f"{path} is not a NumPy array: {error}.") from error


def _read_split(split: "EvalSplit", features: bool) -> Iterator[Any]:
    rows = np.arange(len(split.image_ids))
    if features:
        for batch in split.images(_AT_A_TIME, rows):
            if (mask := batch.get("image_mask")) is None:
                yield from batch["image"]
            else:
                yield from (rows[real] for rows, real in zip(batch["image"], mask, strict=True))
        return
    for first in range(0, len(rows), _AT_A_TIME):
        yield from split.pictures(rows[first : first + _AT_A_TIME])


def _read_lines(kind: str, path: pathlib.Path) -> list[str]:
    try:
        return lines_of(path)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is neither a folder nor a list of {kind}: {error}.") from error

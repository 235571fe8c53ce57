"""Searchable items: pictures and captions from folders, lists, files and datasets."""

import collections
import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xmodal.core.errors import UserError
from xmodal.core.folders import file_id, walk
from xmodal.core.picture_names import IMAGE_ENDINGS, composed, fault_of_file, is_unread_picture
from xmodal.core.untrusted.saved_arrays import DAMAGE, load_arrays
from xmodal.evals.scores.line_files import lines_of

if TYPE_CHECKING:
    from xmodal.data import EvalSplit

_AT_A_TIME = 256
_TABLES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet")


@dataclasses.dataclass(frozen=True)
class SearchItems:
    """Items of one kind.

    Attributes:
      names: shown for each item: a path, a caption, or the image of a dataset.
      read: (start, stop) -> inputs of the model, in this order.
      dataset: section of the dataset that has their pictures; None for other items.
      upright: see `Model.embed_images`; pictures of a dataset are embedded as in its evaluation.
      may_be_damaged: whether items that cannot be read are left out, instead of being an error.
      left_out: pictures that cannot be items -> the fault: an unread format, a broken link.
      others: endings of the files of the folder that are not pictures, one for each file.
    """

    names: Sequence[str]
    read: Callable[[int, int], Iterator[Any]]
    dataset: Mapping[str, str] | None = None
    upright: bool = True
    may_be_damaged: bool = False
    left_out: Mapping[str, str] = dataclasses.field(default_factory=dict)
    others: Sequence[str] = ()


def from_values(values: Sequence[Any] | np.ndarray) -> SearchItems:
    """Returns captions, or pictures for `Model.embed_images`; names are paths or rows."""
    names = [
        os.fspath(each) if isinstance(each, (str, os.PathLike)) else str(row)
        for row, each in enumerate(values)
    ]
    return SearchItems(names, _reader(values))


def from_images(place: str) -> SearchItems:
    """Returns the pictures of a folder and its subfolders, or of a list, or features.

    Raises:
      UserError: the path does not exist, or has no items.
    """
    path = pathlib.Path(place)
    if path.is_dir():
        faults = {file: fault_of_file(file) for file in sorted(_files(path.resolve()))}
        found = [file for file, fault in faults.items() if not fault]
        if not found:
            raise UserError(f"--images={place} has no picture ({', '.join(IMAGE_ENDINGS)}).")
        others = {
            file
            for file, fault in faults.items()
            if fault.startswith("unread ending") and not is_unread_picture(file.name)
        }
        lost = [file for file, fault in faults.items() if fault and file not in others]
        return dataclasses.replace(
            _from_files(found),
            left_out={str(file): faults[file] for file in lost},
            others=[file.suffix.lower() or "no ending" for file in sorted(others)],
        )
    if not path.is_file():
        raise UserError(f"--images={place} is neither a folder nor a file.")
    if path.suffix == ".npy":
        features = read_array(path)
        names = [f"{path.resolve()}#{row}" for row in range(len(features))]
        return SearchItems(names, _reader(features))
    # A list names files relative to itself.
    paths = [(path.parent / line).resolve() for line in _read_lines(path)]
    if not all(map(_is_file, paths)):
        paths = _spelled_as_files(paths, path.parent)
    missing = [p for p in paths if not _is_file(p)]
    if missing:
        raise UserError(
            f"{place} lists {len(missing):,} files that are missing, the first is "
            f"{str(missing[0])[:200]}: a list has one path per line."
        )
    return _from_files(paths)


def from_captions(place: str) -> SearchItems:
    """Returns the lines of a text file.

    Raises:
      UserError: the file does not exist, is empty or is a table.
    """
    path = pathlib.Path(place)
    if not path.is_file():
        raise UserError(f"--captions={place} is not a file.")
    if path.name.lower().removesuffix(".gz").endswith(_TABLES):
        raise UserError(
            f"--captions={place} is a table, of which every line would be a caption: pass a text "
            "file with one caption per line, or prepare the table with its images as a dataset "
            "(data_prep/captioned_images) and pass --dataset."
        )
    return from_values(_read_lines(path))


def from_dataset(
    section: Mapping[str, str], *, features: bool, max_regions: int = 0
) -> dict[str, SearchItems]:
    """Returns the images and captions of a split of a dataset, by kind.

    Args:
      section: `dataset`, `config`, `split`, `data_dir` and `manual_dir`.
      features: whether the model uses stored features instead of pictures.
      max_regions: see `Model.max_regions`.
    """
    split = open_split(section, features=features, max_regions=max_regions)
    found = {}
    if len(split.image_ids) and "image" in split.sides:
        # Features have no picture to show.
        shown = None if features else dict(section)
        images = from_split(split, features=features)
        found["image"] = dataclasses.replace(images, dataset=shown)
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


def open_split(
    section: Mapping[str, str], *, features: bool = False, max_regions: int = 0
) -> "EvalSplit":
    """Returns a split of a dataset; see `from_dataset`."""
    from xmodal import data  # Slow to import.

    section = dict(section)
    split = section.pop("split")
    # The model gets whole pictures; it only matters whether there are any.
    image = {"size": 0, "max_regions": max_regions} if features else {"size": 1}
    whole = {**section, "image": image, "text": {}}
    data.prepare(whole, splits=[split])
    return data.eval_split(whole, split=split)


def _read_split(split: "EvalSplit", features: bool, start: int, stop: int) -> Iterator[Any]:
    rows = np.arange(start, stop)
    if features:
        for batch in split.images(_AT_A_TIME, rows):
            if (mask := batch.get("image_mask")) is None:
                yield from batch["image"]
            else:
                yield from (rows[real] for rows, real in zip(batch["image"], mask, strict=True))
        return
    for first in range(0, len(rows), _AT_A_TIME):
        yield from split.pictures(rows[first : first + _AT_A_TIME])


def _reader(values: Sequence[Any] | np.ndarray) -> Callable[[int, int], Iterator[Any]]:
    return lambda start, stop: iter(values[start:stop])


def _from_files(paths: Sequence[pathlib.Path]) -> SearchItems:
    """Every file once, under its first path that is not a link, if there is one."""
    found: dict[object, pathlib.Path] = {}
    for path in paths:
        file = file_id(path) or path
        if file not in found or (found[file].is_symlink() and not path.is_symlink()):
            found[file] = path
    return dataclasses.replace(from_values(list(map(str, found.values()))), may_be_damaged=True)


def _files(folder: pathlib.Path) -> list[pathlib.Path]:
    return [parent / name for parent, names in walk(folder) for name in names]


def _spelled_as_files(paths: Sequence[pathlib.Path], folder: pathlib.Path) -> list[pathlib.Path]:
    """The paths of files in a folder whose names look the same; see `composed`."""
    found = collections.defaultdict(list)
    for file in map(pathlib.Path.resolve, _files(folder)):
        found[composed(str(file))].append(file)
    same = [found[composed(str(path))] for path in paths]
    return [
        path if _is_file(path) or len(files) != 1 else files[0]
        for path, files in zip(paths, same, strict=True)
    ]


def _is_file(path: pathlib.Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # A line that is not a path may be too long for one.
        return False


def _read_lines(path: pathlib.Path) -> list[str]:
    try:
        lines = lines_of(path)
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not a UTF-8 text file: {error}.") from error
    if not lines:
        raise UserError(f"{path} is empty.")
    return lines


def read_array(path: pathlib.Path) -> np.ndarray:
    """Returns the array of a .npy file.

    Raises:
      UserError: it is not such a file.
    """
    try:
        return load_arrays(path, mmap_mode="r")
    except DAMAGE as error:
        raise UserError(f"{path} is not a NumPy array: {error}.") from error

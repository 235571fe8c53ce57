"""A folder of your own pictures, with one folder per class."""

import functools
import itertools
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow_datasets as tfds

from data_prep import schema
from data_prep.building.random_access import RandomAccessBuilder
from data_prep.building.record_counts import LeftOut, Record
from data_prep.errors import UnexpectedFilesError
from data_prep.published_figures import Figure, Unknown
from data_prep.reading.folders import paths_by_file, walk
from data_prep.reading.image_files import ImageFile
from data_prep.reading.picture_names import (
    IMAGE_ENDINGS,
    composed,
    fault_of_file,
    is_picture,
    is_unread_picture,
    read_picture,
)
from data_prep.reading.split_names import SPLITS, split_of_name

_ONLY_SPLIT = "test"


class Builder(RandomAccessBuilder):
    """TFDS builder of labeled pictures; where the dataset is stored depends on the files.

    The names of the classes are those of the folders, in alphabetical order, of all splits
    together; they are under `label` in `info.metadata`.
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES: ClassVar[dict[str, str]] = {"1.0.0": "Initial release."}
    MIN_KEPT = 0.5
    MOST_LOST = 0.1
    UPRIGHT = True
    OWN_FILES = True
    BUILDER_CONFIGS: ClassVar[list[tfds.core.BuilderConfig]] = [
        tfds.core.BuilderConfig(name="images", description="Pictures and their classes."),
    ]
    MANUAL_DOWNLOAD_INSTRUCTIONS = """
    Put your pictures into one folder per class, in one of these layouts:
      - CLASS/picture.jpg: all pictures are the split `test`
      - SPLIT/CLASS/picture.jpg, where the splits are train, validation (val, dev) and test
    Pictures may be in folders below that of their class. Files with other endings, and pictures in
    no folder of a class, are listed in left_out.csv.
    """

    @classmethod
    def published_figures(cls, config: str) -> Mapping[str, Figure]:
        """See `RandomAccessBuilder`: nothing is published about a user's files."""
        del config
        return {"*/records": Unknown("the files of a user")}

    def _features(self) -> tfds.features.FeaturesDict:
        return tfds.features.FeaturesDict(
            {
                "image": schema.PIXELS,
                "image_id": np.int32,
                "label": np.int32,
                "picture": tfds.features.Text(),
            }
        )

    def _splits(self, folder: pathlib.Path) -> Mapping[str, Iterable[Record | LeftOut]]:
        files = [
            (parent / name).relative_to(folder).as_posix()
            for parent, own in walk(folder)
            for name in own
            if not name.startswith(".") or (parent / name).is_dir()
        ]
        of_one_file = paths_by_file(folder, filter(is_picture, files)).values()
        links = {link: first for first, *others in of_one_file for link in others}
        names = [name for name in files if is_picture(name) and name not in links]
        if not names:
            raise UnexpectedFilesError(
                f"{folder} has no pictures in folders of classes; pictures end in "
                f"{', '.join(IMAGE_ENDINGS)}"
            )
        tops = sorted({name.partition("/")[0] for name in names if "/" in name})
        named = [top for top in tops if split_of_name(top)]
        if named and len(named) < len(tops):
            other = next(top for top in tops if top not in named)
            raise UnexpectedFilesError(
                f"{folder} has the folder {named[0]!r}, which names a split, beside {other!r}, "
                "which names none: put all classes into folders of splits, or rename the class"
            )
        depth = 1 if named else 0
        classes = sorted({_class_of(name, depth) for name in names} - {""})
        _check_below(folder, names, classes, depth)
        self.info.metadata["label"] = classes
        found = {split_of_name(top) for top in named}
        splits = [split for split in SPLITS if split in found] or [_ONLY_SPLIT]
        places: dict[str, list[int]] = {split: [] for split in splits}
        others: dict[str, list[LeftOut]] = {split: [] for split in splits}
        numbers = {name: place for place, name in enumerate(names)}
        for name in files:
            split = split_of_name(name.partition("/")[0]) if "/" in name else ""
            # A file that is in no split is listed with the first one.
            split = split if split in places else splits[0]
            if name in numbers:
                places[split].append(numbers[name])
            else:
                others[split].append(_unread(folder, name, links.get(name)))
        return {
            split: itertools.chain(_examples(folder, names, own, classes, depth), others[split])
            for split, own in places.items()
        }


def _check_below(
    folder: pathlib.Path, names: Sequence[str], classes: Sequence[str], depth: int
) -> None:
    """Checks that the folders below those of the classes are neither the classes nor the splits.

    Raises:
      UnexpectedFilesError: there is only one class, or a folder below names a split.
    """
    below = {name.split("/")[depth + 1] for name in names if name.count("/") > depth + 1}
    if len(classes) == 1 and below:
        listed = ", ".join(sorted(below)[:3])
        raise UnexpectedFilesError(
            f"{folder} has only the class {classes[0]!r}, with pictures in {listed} below it: if "
            "these are the classes or the splits, move them up or pass the folder above them; if "
            "not, put the pictures directly into the folder of the class"
        )
    if not depth and (found := [name for name in sorted(below) if split_of_name(name)]):
        raise UnexpectedFilesError(
            f"{folder} has folders {found[0]!r}, which name a split, in those of the classes: "
            "arrange them as SPLIT/CLASS, or rename them"
        )


def _unread(folder: pathlib.Path, name: str, first: str | None) -> LeftOut:
    """Returns the entry of a file that is not read, or that has another path, `first`."""
    if first is not None:
        return LeftOut(name, "link", f"another path of {first}", is_record=False)
    reason, _, detail = fault_of_file(folder / name).partition(": ")
    # Pictures that cannot be read count as missing records; other files are only listed.
    return LeftOut(name, reason, detail, is_record=is_unread_picture(name))


def _class_of(name: str, depth: int) -> str:
    """Returns the class of a picture; "" if it is in no folder of a class."""
    folders = name.split("/")[:-1]
    return composed(folders[depth]) if len(folders) > depth else ""


def _examples(
    folder: pathlib.Path,
    names: Sequence[str],
    places: Sequence[int],
    classes: Sequence[str],
    depth: int,
) -> Iterator[Record | LeftOut]:
    """Yields the pictures at some places of all names; the place is the id."""
    for place in places:
        name = names[place]
        if not (own := _class_of(name, depth)):
            yield LeftOut(name, "no class", "it is in no folder of a class")
            continue
        example: dict[str, Any] = {
            "image": ImageFile(name, functools.partial(read_picture, folder / name)),
            "image_id": place,
            "label": classes.index(own),
            "picture": name,
        }
        yield name, example

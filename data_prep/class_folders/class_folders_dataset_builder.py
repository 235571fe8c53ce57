"""A folder of your own pictures, with one folder per class."""

import functools
import itertools
import pathlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from data_prep import schema
from data_prep.building.random_access import RandomAccessBuilder, configs
from data_prep.building.record_counts import LeftOut, Record
from data_prep.reading import picture_names
from data_prep.reading.image_files import ImageFile
from data_prep.reading.split_names import SPLITS, count_in_earlier, name_key, split_of_name
from data_prep.same_text import content_hash
from xmodal.core.errors import UnexpectedFilesError
from xmodal.core.folders import walk
from xmodal.core.untrusted.picture_formats import is_picture

_ONLY_SPLIT = "test"


class Builder(RandomAccessBuilder):
    """TFDS builder of labeled pictures; where the dataset is stored depends on the files.

    The names of the classes are those of the folders, in alphabetical order, of all splits
    together; they are under `label` in `info.metadata`.
    """

    VERSION = tfds.core.Version("1.0.0")
    MIN_KEPT = 0.5
    MOST_LOST = 0.1
    UPRIGHT = True
    OWN_FILES = True
    BUILDER_CONFIGS = configs(images="Pictures and their classes.")

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
        names = [name for name in files if is_picture(name)]
        tops = sorted({name.partition("/")[0] for name in names if "/" in name})
        named = [top for top in tops if split_of_name(top)]
        depth = 1 if named else 0
        classes = _find_classes(names, depth)
        below = {name.split("/")[depth + 1] for name in names if name.count("/") > depth + 1}
        is_deeper = (len(classes) == 1 and below) or (not depth and any(map(split_of_name, below)))
        if not classes or 0 < len(named) < len(tops) or is_deeper:
            raise UnexpectedFilesError(
                f"{folder} has pictures in {', '.join(tops) or 'no folders'} and, below, in "
                f"{', '.join(sorted(below)) or 'no folders'}: arrange them as CLASS/picture.jpg or "
                "SPLIT/CLASS/picture.jpg, with two classes or more, and all of them in the splits "
                "train, validation or test if one is"
            )
        self.info.metadata["label"] = classes
        self._stored: list[tuple[str, int, int]] = []  # Split, class and content of every picture.
        found = set(map(split_of_name, named)) or {_ONLY_SPLIT}
        places: dict[str, list[str]] = {split: [] for split in SPLITS if split in found}
        for name in files:
            split = split_of_name(name.partition("/")[0]) if "/" in name else ""
            # A file that is in no split is listed with the first one.
            places[split if split in places else next(iter(places))].append(name)
        ids = {name: place for place, name in enumerate(names)}
        return {split: _examples(folder, own, ids, classes, depth) for split, own in places.items()}

    def _generate_examples(
        self, split: str, records: Iterable[Record | LeftOut]
    ) -> Iterator[Record]:
        """See `RandomAccessBuilder`; remembers the contents of the pictures."""
        for key, example in super()._generate_examples(split, records):
            self._stored.append((split, example["label"], content_hash(example["image"])))
            yield key, example

    def _check_share(self) -> None:
        """See `RandomAccessBuilder`; prints what may mislead an evaluation."""
        super()._check_share()
        splits, labels, contents = zip(*self._stored, strict=True)
        if copied := count_in_earlier(np.array(contents, np.uint64), splits):
            _warn(f"{copied:,} images of validation or test have a copy in an earlier split")
        if mixed := len(set(zip(contents, labels, strict=True))) - len(set(contents)):
            _warn(f"{mixed:,} images are in several classes")


def _warn(text: str) -> None:
    print(f"class_folders: warning: {text}", file=sys.stderr, flush=True)


def _find_classes(names: Sequence[str], depth: int) -> list[str]:
    """Returns the sorted names of the classes; warns of two spellings of one."""
    found = sorted({own for name in names if (own := _class_of(name, depth))})
    for one, two in itertools.pairwise(sorted(found, key=lambda name: (name_key(name), name))):
        if name_key(one) == name_key(two):
            _warn(f"{one!r} and {two!r} are two classes with the same name")
    return found


def _class_of(name: str, depth: int) -> str:
    """Returns the class of a picture; "" if it is in no folder of a class."""
    folders = name.split("/")[:-1]
    return picture_names.composed(folders[depth]) if len(folders) > depth else ""


def _examples(
    folder: pathlib.Path,
    names: Sequence[str],
    ids: Mapping[str, int],
    classes: Sequence[str],
    depth: int,
) -> Iterator[Record | LeftOut]:
    """Yields the files of a split, of which those with an id are pictures."""
    for name in names:
        if name not in ids:
            reason, detail = picture_names.fault_of_file(folder / name)
            # Pictures that cannot be read count as missing records; other files are only listed.
            yield LeftOut(name, reason, detail, is_record=picture_names.is_unread_picture(name))
            continue
        if not (own := _class_of(name, depth)):
            yield LeftOut(name, "no class", "it is in no folder of a class")
            continue
        example: dict[str, Any] = {
            "image": ImageFile(name, functools.partial(picture_names.read_picture, folder / name)),
            "image_id": ids[name],
            "label": classes.index(own),
            "picture": name,
        }
        yield name, example

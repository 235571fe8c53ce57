"""Image-caption pairs labeled with the relations that hold between the two: Clue and CITE."""

import abc
import collections
import dataclasses
import itertools
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow_datasets as tfds

from data_prep import schema
from data_prep.building.random_access import RandomAccessBuilder
from data_prep.building.record_counts import Record
from data_prep.linked_captions import LinkedRecords, LinkedRow, LinkList, linked_records
from xmodal.core.errors import UnexpectedFilesError


@dataclasses.dataclass(frozen=True)
class Pair:
    """One labeled pair.

    Attributes:
      where: file and line.
      pair_id: number of the pair.
      picture_id: number of the picture; several pairs may share it.
      picture: its URL or file name.
      caption: the text.
      relations: 0 or 1 for each relation.
    """

    where: str
    pair_id: int
    picture_id: int
    picture: str
    caption: str
    relations: tuple[int, ...]

    def row(self, file_name: str = "") -> LinkedRow:
        """Returns the pair as a row of a list; its image may have a file name."""
        features = {
            "relations": np.asarray(self.relations, np.int32),
            "picture_id": self.picture_id,
            "picture": self.picture,
        }
        captions = [(self.pair_id, self.caption)]
        return LinkedRow(self.where, self.pair_id, self.picture, captions, file_name, features)


def _deduplicated(test: Iterable[Pair], train: Iterable[Pair]) -> tuple[list[Pair], dict[str, int]]:
    """The test pairs whose picture and caption are new, and the number removed per reason."""
    pictures, captions = {}, {}
    for pair in train:
        pictures[pair.picture] = captions[pair.caption] = "train"
    kept: list[Pair] = []
    dropped: collections.Counter[str] = collections.Counter()
    for pair in test:
        if pair.picture in pictures:
            dropped[f"picture also in {pictures[pair.picture]}"] += 1
        elif pair.caption in captions:
            dropped[f"caption also in {captions[pair.caption]}"] += 1
        else:
            kept.append(pair)
            pictures[pair.picture] = captions[pair.caption] = "an earlier row of test"
    return kept, dict(dropped)


def _with_numbers(pairs: Mapping[str, Iterable[Pair]]) -> dict[str, list[Pair]]:
    """The pairs with the numbers of their pictures, by first appearance in order of `pair_id`."""
    everything = itertools.chain.from_iterable(pairs.values())
    names = dict.fromkeys(p.picture for p in sorted(everything, key=lambda pair: pair.pair_id))
    numbers = {name: number for number, name in enumerate(names)}
    return {
        split: [dataclasses.replace(pair, picture_id=numbers[pair.picture]) for pair in group]
        for split, group in pairs.items()
    }


def flags(
    path: pathlib.Path,
    row: tuple[str, Mapping[str, str]],
    columns: Sequence[str],
    values: Mapping[str, int],
) -> tuple[int, ...]:
    """Returns the labels of a row.

    Args:
      path: path of its file.
      row: place of the row, and column -> text.
      columns: names of the columns, in the order of the relations.
      values: text -> 0 or 1.

    Raises:
      UnexpectedFilesError: a text is not a key of `values`.
    """
    where, fields = row
    for column in columns:
        if fields[column] not in values:
            raise UnexpectedFilesError(f"{path.parent / where}: {column} is {fields[column]!r}")
    return tuple(values[fields[column]] for column in columns)


class CoherencePairsBuilder(RandomAccessBuilder):
    """Builder for labeled pairs, with images only in the configs `*images`.

    A picture with two captions is two examples, since each caption has its own labels. CMCM is
    trained and evaluated in the same way: `image_id` is the number of the pair, every caption has
    one correct image, and copies of that image count as wrong. `picture_id` identifies the copies.
    A split `test_deduplicated` accompanies `test`.

    Attributes:
      RELATIONS: names of the relations.
    """

    RELATIONS: ClassVar[tuple[str, ...]]

    @abc.abstractmethod
    def _read_pairs(self, folder: pathlib.Path) -> dict[str, list[Pair]]:
        """Reads the pairs of every split, without the numbers of their pictures."""

    @abc.abstractmethod
    def _expected(self) -> Mapping[str, int]:
        """Published numbers: `<split>`, of rows; `<split>/<relation>`, of pairs it holds for."""

    @abc.abstractmethod
    def _image_name(self, pair: Pair) -> str:
        """File name, with or without its extension, of an image whose url is not known."""

    @property
    def _with_images(self) -> bool:
        return self.builder_config.name.endswith("images")

    def _features(self) -> tfds.features.FeaturesDict:
        image = schema.PIXELS if self._with_images else None
        features = schema.captioned_image_features(image, relations=len(self.RELATIONS))
        return tfds.features.FeaturesDict(
            {**features, "picture_id": np.int32, "picture": tfds.features.Text()}
        )

    def _metadata(self) -> dict[str, Any]:
        return {"relations": list(self.RELATIONS)}

    def _splits(self, folder: pathlib.Path) -> Mapping[str, LinkedRecords]:
        pairs = _with_numbers(self._read_pairs(folder))
        found: collections.Counter[str] = collections.Counter()
        for split, group in pairs.items():
            found[split] = len(group)
            for pair in group:
                for name, holds in zip(self.RELATIONS, pair.relations, strict=True):
                    found[f"{split}/{name}"] += holds
        schema.check_counts(found, self._expected(), str(folder))
        if "test" in pairs:
            kept, dropped = _deduplicated(pairs["test"], pairs["train"])
            pairs["test_deduplicated"] = kept
            self.info.metadata["deduplicated"] = dropped
        if not self._with_images:
            return {split: map(_without_image, group) for split, group in pairs.items()}
        return {
            split: linked_records(_Links(group, self._image_name), folder / "images")
            for split, group in pairs.items()
        }


def _without_image(pair: Pair) -> Record:
    row = pair.row()
    return pair.pair_id, schema.captioned_example(row.image_id, row.captions, **row.features)


class _Links(LinkList):
    NAMED_BY_ROW = False
    NAMED_BY_FILE = True

    def __init__(self, pairs: Sequence[Pair], name: Callable[[Pair], str]) -> None:
        self._pairs, self._name = pairs, name

    def __len__(self) -> int:
        return len(self._pairs)

    def __getitem__(self, number: int) -> LinkedRow:
        return self._pairs[number].row(self._name(self._pairs[number]))

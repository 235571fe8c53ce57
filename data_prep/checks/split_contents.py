"""One pass over a prepared split: its ids, hashes of texts and images, scores, bad images.

Texts and images are kept as 8 bytes of their BLAKE2b hash, ids as 8 bytes: 3.3 million pairs of an
image and a caption take about 130 MB. The probability that two different texts among as many share
a hash is three in ten million.
"""

import array
import collections
import concurrent.futures
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from data_prep.building.image_check import checked_image
from data_prep.building.split_hash import SplitHash
from data_prep.same_text import content_hash
from xmodal.core.errors import BadImageError

# Features that distinguish kinds of rows: rows and scores are counted for each combination.
CATEGORIES = ("rating", "direction", "method", "year", "dataset", "fold")
# Ids of other datasets by rating or direction: the features that the left and the right side refer
# to. Other ratings are of caption-image pairs with the caption on the left.
_SIDES = {
    "sts": ("caption_ids", "caption_ids"),
    "sis": ("image_id", "image_id"),
    "i2t": ("image_id", "caption_ids"),
}
_OTHER_SIDES = ("caption_ids", "image_id")
_LEFT_RIGHT = (("left_id", "right_id"), ("query_id", "positive_ids"))
# With more combinations than this, the features do not describe kinds of rows.
_MOST_GROUPS = 1000
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()
# Images per round of the decoding threads: about 13 MB if an image has 100 kB.
_BLOCK = 128


class NumberColumn:
    """Numbers of one feature, one or several per record.

    Args:
      typecode: typecode of `array.array`: `Q` for hashes, `q` for ids.
    """

    def __init__(self, typecode: str) -> None:
        self._values, self._lengths = array.array(typecode), array.array("i")

    def add(self, values: Sequence[int]) -> None:
        """Appends the values of a record."""
        self._values.extend(values)
        self._lengths.append(len(values))

    @property
    def values(self) -> np.ndarray:
        """All values one after another, uint64 or int64 [V]."""
        return np.frombuffer(self._values, self._values.typecode)

    @property
    def lengths(self) -> np.ndarray:
        """Number of values of each record, int32 [N]."""
        return np.frombuffer(self._lengths, np.int32)


class ScoreSummary:
    """Number of rows in a group, with the range and the sum of their scores."""

    def __init__(self) -> None:
        self.rows = self.finite = self.not_finite = 0
        self.total = 0.0
        self.low, self.high = math.inf, -math.inf

    def add(self, score: float | None) -> None:
        """Counts a row, with its score if it has one."""
        self.rows += 1
        if score is None:
            return
        if not math.isfinite(score):
            self.not_finite += 1
            return
        self.finite += 1
        self.total += score
        self.low, self.high = min(self.low, score), max(self.high, score)


class SplitContents:
    """One split, record by record.

    Args:
      features: the features of the dataset.

    Attributes:
      records: number of records.
      ids: feature (`..._id`, `..._ids`) -> column.
      references: feature of another dataset (`image_id`, `caption_ids`) -> column of the ids that
        rated pairs and lists of positives refer to.
      texts: feature -> column of hashes.
      empty: feature -> number of texts without a visible character.
      replaced: feature -> number of texts with the replacement character.
      images: feature -> column of hashes of encoded images or stored image features.
      groups: values of `CATEGORIES` as `name=value` -> rows and scores.
      group_of: number of the group (in the order of `groups`) of each record, array of uint16 [N].
      positives: number of records in which each relation holds, int64 [R], or None.
      odd_relations: number of relation labels that are neither 0 nor 1.
      bad_images: reason -> number of images that cannot be used.
      first_bad: reason -> id of the first of them.
      hash: hash of the records; "" before the end of the pass.
      unreadable: why the pass stopped before the end; "" if it did not.
    """

    def __init__(self, features: Mapping[str, Any]) -> None:
        self.records = 0
        self.ids: dict[str, NumberColumn] = {}
        self.references: dict[str, NumberColumn] = {}
        self.texts: dict[str, NumberColumn] = {}
        self.empty: collections.Counter[str] = collections.Counter()
        self.replaced: collections.Counter[str] = collections.Counter()
        self.images: dict[str, NumberColumn] = {}
        self.groups: dict[str, ScoreSummary] = {}
        self.group_of = array.array("H")
        self.positives: np.ndarray | None = None
        self.odd_relations = 0
        self.bad_images: collections.Counter[str] = collections.Counter()
        self.first_bad: dict[str, str] = {}
        self.hash = self.unreadable = ""
        self._categories = [name for name in CATEGORIES if name in features]
        self._id_names = [name for name in features if name.endswith(("_id", "_ids"))]
        self._text_names = [
            name
            for name, feature in features.items()
            if _is_text(feature) and name not in CATEGORIES
        ]
        # Pixels or stored image features.
        self.image_names = [
            name
            for name, feature in features.items()
            if name == "image" or isinstance(feature, tfds.features.Image)
        ]
        self._sides = next((s for s in _LEFT_RIGHT if all(name in features for name in s)), ())

    def add(self, example: Mapping[str, Any]) -> None:
        """Adds a record as it is stored, its image still encoded."""
        self.records += 1
        for name in self._id_names:
            self.ids.setdefault(name, NumberColumn("q")).add(_as_list(example[name]))
        for name in self._text_names:
            self._add_texts(name, _as_list(example[name]))
        for name in self.image_names:
            image = example[name]
            encoded = image if isinstance(image, bytes) else image.tobytes()
            self.images.setdefault(name, NumberColumn("Q")).add([content_hash(encoded)])
        if self._categories:
            self._add_to_group(example)
        if self._sides:
            self._add_references(example)
        if "relations" in example:
            flags = np.asarray(example["relations"])
            self.odd_relations += int(np.isin(flags, (0, 1), invert=True).sum())
            held = (flags == 1).astype(np.int64)
            self.positives = held if self.positives is None else self.positives + held

    def add_bad_image(self, reason: str, example: Mapping[str, Any]) -> None:
        """Counts an image that cannot be used."""
        self.bad_images[reason] += 1
        self.first_bad.setdefault(reason, str(example.get("image_id", "of unknown id")))

    def _add_texts(self, name: str, texts: Sequence[bytes]) -> None:
        self.texts.setdefault(name, NumberColumn("Q")).add(list(map(content_hash, texts)))
        self.empty[name] += sum(not text.decode(errors="replace").strip() for text in texts)
        self.replaced[name] += sum(_REPLACEMENT in text for text in texts)

    def _add_to_group(self, example: Mapping[str, Any]) -> None:
        parts = ((name, example[name]) for name in self._categories)
        key = ", ".join(
            f"{name}={value.decode() if isinstance(value, bytes) else value}"
            for name, value in parts
        )
        if key not in self.groups and len(self.groups) >= _MOST_GROUPS:
            raise ValueError(f"more than {_MOST_GROUPS} kinds of rows; the next is {key}")
        self.groups.setdefault(key, ScoreSummary()).add(example.get("score"))
        self.group_of.append(list(self.groups).index(key))

    def _add_references(self, example: Mapping[str, Any]) -> None:
        kind_of_row = (example.get("rating") or example.get("direction") or b"").decode()
        for name, kind in zip(self._sides, _SIDES.get(kind_of_row, _OTHER_SIDES), strict=True):
            self.references.setdefault(kind, NumberColumn("q")).add(_as_list(example[name]))


def read_split(
    builder: tfds.core.DatasetBuilder, split: str, *, check_images: bool = True
) -> SplitContents:
    """Reads a whole split in blocks.

    Args:
      builder: builder of a prepared dataset.
      split: name of the split.
      check_images: whether images are decoded. Decoding 3.3 million takes an hour or two.
    """
    features = dict(builder.info.features.items())
    contents, split_hash = SplitContents(features), SplitHash(features)
    blocks = _blocks(builder, split)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        while True:
            try:
                block = next(blocks, None)
            except Exception as error:  # Damaged shards make readers raise all kinds of errors.
                read = contents.records
                contents.unreadable = f"after {read:,} records: {type(error).__name__}: {error}"
                break
            if block is None:
                break
            for example in block:
                contents.add(example)
                split_hash.add(example)
            for name in contents.image_names if check_images else ():
                encoded = (example[name] for example in block)
                for example, problem in zip(block, threads.map(_problem, encoded), strict=True):
                    if problem:
                        contents.add_bad_image(problem, example)
    contents.hash = split_hash.hexdigest()
    return contents


def _blocks(builder: tfds.core.DatasetBuilder, split: str) -> Iterator[list[dict[str, Any]]]:
    features = builder.info.features.items()
    encoded = [name for name, feature in features if isinstance(feature, tfds.features.Image)]
    decoders = {name: tfds.decode.SkipDecoding() for name in encoded} or None
    source = builder.as_data_source(split, decoders=decoders)
    for start in range(0, len(source), _BLOCK):
        yield source.__getitems__(list(range(start, min(start + _BLOCK, len(source)))))


def _problem(image: bytes | np.ndarray) -> str:
    """Why an image cannot be used; "" if it can."""
    if isinstance(image, np.ndarray):
        return "" if np.isfinite(image).all() else "not finite"
    try:
        converted = checked_image(image).converted
    except BadImageError as error:
        return error.reason
    return f"not converted: {converted}" if converted else ""


def _is_text(feature: Any) -> bool:
    return isinstance(getattr(feature, "feature", feature), tfds.features.Text)


def _as_list(value: Any) -> list[Any]:
    if isinstance(value, np.ndarray):
        return value.tolist() if value.ndim else [value.item()]
    return value if isinstance(value, list) else [value]

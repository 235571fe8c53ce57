"""One pass over a prepared split: its ids, hashes of texts and images, scores, bad images.

Texts and images are kept as 8 bytes of their BLAKE2b hash, ids as 8 bytes: 3.3 million pairs of an
image and a caption take about 130 MB. The probability that two different texts among as many share
a hash is three in ten million.
"""

import array
import collections
import concurrent.futures
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
_LEFT_RIGHT = (("left_id", "right_id"), ("query_id", "positive_ids"))
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


class SplitContents:
    """One split, record by record.

    Args:
      features: the features of the dataset.

    Attributes:
      records: number of records.
      ids: feature (`..._id`, `..._ids`) -> column.
      references: feature of another dataset (`image_id`, `caption_ids`) -> column of the ids that
        rated pairs and lists of positives refer to.
      hashes: text, image or stored image features -> column of hashes.
      images: those of `hashes` that are images.
      empty: feature -> number of texts without a visible character.
      kinds: values of `CATEGORIES` as `name=value` -> number.
      kind_of: number of the kind of each record, array of uint16 [N].
      scores: score of each record, array of float64; NaN for none.
      positives: number of records in which each relation holds, int64 [R], or None.
      bad_images: reason -> images that cannot be used: their ids.
      hash: hash of the records; "" before the end of the pass.
      unreadable: why the pass stopped before the end; "" if it did not.
    """

    def __init__(self, features: Mapping[str, Any]) -> None:
        self.records = 0
        self.ids: dict[str, NumberColumn] = collections.defaultdict(lambda: NumberColumn("q"))
        self.references: dict[str, NumberColumn] = collections.defaultdict(
            lambda: NumberColumn("q")
        )
        self.hashes: dict[str, NumberColumn] = collections.defaultdict(lambda: NumberColumn("Q"))
        self.empty: collections.Counter[str] = collections.Counter()
        self.kinds: dict[str, int] = {}
        self.kind_of, self.scores = array.array("H"), array.array("d")
        self.positives: np.ndarray | None = None
        self.bad_images: dict[str, list[str]] = collections.defaultdict(list)
        self.hash = self.unreadable = ""
        self._categories = [name for name in CATEGORIES if name in features]
        self._id_names = [name for name in features if name.endswith(("_id", "_ids"))]
        self.texts = [
            name
            for name, feature in features.items()
            if isinstance(getattr(feature, "feature", feature), tfds.features.Text)
            and name not in CATEGORIES
        ]
        self.images = [
            name
            for name, feature in features.items()
            if name == "image" or isinstance(feature, tfds.features.Image)
        ]
        self._sides = next((s for s in _LEFT_RIGHT if all(name in features for name in s)), ())

    def add(self, example: Mapping[str, Any]) -> None:
        """Adds a record as it is stored, its image still encoded."""
        self.records += 1
        for name in self._id_names:
            self.ids[name].add(_as_list(example[name]))
        for name in self.texts:
            texts = _as_list(example[name])
            self.hashes[name].add(list(map(content_hash, texts)))
            self.empty[name] += sum(not text.decode(errors="replace").strip() for text in texts)
        for name in self.images:
            image = example[name]
            encoded = image if isinstance(image, bytes) else image.tobytes()
            self.hashes[name].add([content_hash(encoded)])
        if self._categories:
            parts = {name: example[name] for name in self._categories}
            kind = ", ".join(
                f"{name}={value.decode() if isinstance(value, bytes) else value}"
                for name, value in parts.items()
            )
            self.kind_of.append(self.kinds.setdefault(kind, len(self.kinds)))
            self.scores.append(example.get("score", np.nan))
        if self._sides:
            kind = (example.get("rating") or example.get("direction") or b"").decode()
            refers_to = _SIDES.get(kind, ("caption_ids", "image_id"))
            for side, feature in zip(self._sides, refers_to, strict=True):
                self.references[feature].add(_as_list(example[side]))
        if "relations" in example:
            held = (np.asarray(example["relations"]) == 1).astype(np.int64)
            self.positives = held if self.positives is None else self.positives + held

    def of_kinds(self, values: np.ndarray) -> dict[str, np.ndarray]:
        """Kind -> the values [N] of its records."""
        kind_of = np.frombuffer(self.kind_of, np.uint16)
        return {kind: values[kind_of == number] for kind, number in sorted(self.kinds.items())}


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
    try:
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
            for block in _blocks(builder, split):
                for example in block:
                    contents.add(example)
                    split_hash.add(example)
                for name in contents.images if check_images else ():
                    encoded = (example[name] for example in block)
                    for example, fault in zip(block, threads.map(_fault, encoded), strict=True):
                        if fault:
                            contents.bad_images[fault].append(str(example.get("image_id", "?")))
    except Exception as error:  # Damaged shards make readers raise all kinds of errors.
        read = contents.records
        contents.unreadable = f"after {read:,} records: {type(error).__name__}: {error}"
    contents.hash = split_hash.hexdigest()
    return contents


def _blocks(builder: tfds.core.DatasetBuilder, split: str) -> Iterator[list[dict[str, Any]]]:
    features = builder.info.features.items()
    encoded = [name for name, feature in features if isinstance(feature, tfds.features.Image)]
    decoders = {name: tfds.decode.SkipDecoding() for name in encoded} or None
    source = builder.as_data_source(split, decoders=decoders)
    for start in range(0, len(source), _BLOCK):
        yield source.__getitems__(list(range(start, min(start + _BLOCK, len(source)))))


def _fault(image: bytes | np.ndarray) -> str:
    """Why an image cannot be used; "" if it can."""
    if isinstance(image, np.ndarray):
        return "" if np.isfinite(image).all() else "not finite"
    try:
        converted = checked_image(image).converted
    except BadImageError as error:
        return error.reason
    return f"not converted: {converted}" if converted else ""


def _as_list(value: Any) -> list[Any]:
    if isinstance(value, np.ndarray):
        return value.tolist() if value.ndim else [value.item()]
    return value if isinstance(value, list) else [value]

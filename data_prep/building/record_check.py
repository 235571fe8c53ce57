"""Checks individual records, and aggregates the results for a split."""

import array
import dataclasses
import functools
import itertools
import pathlib
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from data_prep.building.image_check import CheckedImage, checked_image
from data_prep.building.record_counts import BuildReport, LeftOut, Record
from data_prep.building.split_hash import SplitHash
from xmodal.core.errors import BadImageError, UnexpectedFilesError


@dataclasses.dataclass(frozen=True)
class Entry:
    """The account of one record.

    Attributes:
      left_out: why it cannot be used; None if it can.
      ids: name of a feature -> its ids, which must be unique.
      converted: original format of its image, if it was converted.
      digest: SHA-256 of a usable record.
    """

    left_out: LeftOut | None = None
    ids: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    converted: str = ""
    digest: bytes = b""


@dataclasses.dataclass(frozen=True)
class RecordCheck:
    """Checks records one by one; can be pickled.

    Attributes:
      features: features of the builder.
      unique_ids: features with ids that occur once in a split.
      check_images: whether images are decoded once as a check.
      upright: whether images are rotated according to their EXIF orientation.
    """

    features: tfds.features.FeaturesDict
    unique_ids: Sequence[str]
    check_images: bool
    upright: bool = False

    def __call__(self, record: Record | LeftOut) -> tuple[Record | None, Entry]:
        """Returns a record as stored (None if it cannot be used), and its account."""
        if isinstance(record, LeftOut):
            return None, Entry(record)
        key, example = record
        ids = {name: example[name] for name in self.unique_ids if name in example}
        captions, checked = example.get("captions"), CheckedImage(b"")
        if captions is not None and not (len(captions) and all(map(str.strip, captions))):
            reason = "empty caption" if len(captions) else "no caption"
            return None, Entry(LeftOut(str(key), reason), ids)
        try:
            if isinstance(dict(self.features.items()).get("image"), tfds.features.Image):
                image = example["image"]
                encoded = image if isinstance(image, bytes) else image.read()
                checked = CheckedImage(encoded)
                if self.check_images:
                    checked = checked_image(encoded, upright=self.upright)
                example = example | {"image": checked.encoded}
            digest = self._hash.digest(example)
        except BadImageError as error:
            # The location of a fetched image says more than its row number.
            where = str(getattr(image, "where", key))
            return None, Entry(LeftOut(where, error.reason, error.detail), ids)
        except (UnicodeEncodeError, OverflowError) as error:
            return None, Entry(LeftOut(str(key), "value that cannot be stored", str(error)), ids)
        return (key, example), Entry(None, ids, checked.converted, digest)

    @functools.cached_property
    def _hash(self) -> SplitHash:
        return SplitHash(self.features)


class SplitAccount:
    """Aggregates the accounts of the records of a split, in order.

    Args:
      title: title of the dataset.
      split: name of the split.
      check: check for its records.
      report: counts them and lists those left out.
    """

    def __init__(self, title: str, split: str, check: RecordCheck, report: BuildReport) -> None:
        self._title, self._split, self._report = title, split, report
        self._ids = {name: array.array("q") for name in check.unique_ids}
        self._hash = SplitHash(check.features)
        report.start(split)

    def add(self, entry: Entry) -> None:
        """Adds the next record."""
        for name, ids in entry.ids.items():
            self._ids[name].extend(np.atleast_1d(ids).tolist())
        if entry.left_out is not None:
            self._report.leave_out(self._split, entry.left_out)
        else:
            self._report.keep(self._split, entry.converted)
            self._hash.add_digest(entry.digest)

    def hexdigest(self) -> str:
        """Returns the hash of the split.

        Raises:
          UnexpectedFilesError: there are no records, or an id is negative or occurs twice.
        """
        if not self._report.kept[self._split]:  # TFDS writes no empty split
            raise UnexpectedFilesError(f"{self._title} has no usable record in split {self._split}")
        for name, values in self._ids.items():
            ids, counts = np.unique(np.frombuffer(values, np.int64), return_counts=True)
            if (wrong := ids[(ids < 0) | (counts > 1)]).size:
                raise UnexpectedFilesError(
                    f"{self._title}, split {self._split}: {name} {wrong[0]} appears twice or is "
                    "below 0"
                )
        return self._hash.hexdigest()


@dataclasses.dataclass(frozen=True)
class PartedRecords:
    """The records of a split in parts, such as shards, which Apache Beam reads in parallel.

    Attributes:
      parts: the parts, which can be pickled.
      read: yields the records of a part, always the same ones; can be pickled.
      first: left-out entries that come before the parts.
      last: left-out entries that are known only after the parts.
    """

    parts: Sequence[Any]
    read: Callable[[Any], Iterator[Record | LeftOut]]
    first: Iterable[LeftOut] = ()
    last: Iterable[LeftOut] = ()

    def transform(self, check: RecordCheck, folder: pathlib.Path) -> Any:
        """Returns a `beam.PTransform` to the usable records, which accounts for all in a folder."""
        import apache_beam as beam

        work = functools.partial(_checked_records, self.read, check, folder)
        return beam.Create(list(enumerate(self.parts))) | beam.FlatMap(work)

    def entries(self, folder: pathlib.Path) -> Iterator[Entry]:
        """Yields the accounts of all records after the transform has run."""
        parts = (pickle.loads((folder / str(n)).read_bytes()) for n in range(len(self.parts)))
        return itertools.chain(
            map(Entry, self.first), itertools.chain.from_iterable(parts), map(Entry, self.last)
        )


def _checked_records(
    read: Callable[[Any], Iterator[Record | LeftOut]],
    check: RecordCheck,
    folder: pathlib.Path,
    numbered: tuple[int, Any],
) -> Iterator[Record]:
    """Yields the usable records of a part; a part that is repeated writes the same account."""
    entries = []
    for usable, entry in map(check, read(numbered[1])):
        entries.append(entry)
        if usable is not None:
            yield usable
    folder.mkdir(parents=True, exist_ok=True)
    (folder / str(numbered[0])).write_bytes(pickle.dumps(entries))

"""Checks individual records, and aggregates the results for a split."""

import array
import collections
import dataclasses
import functools
import itertools
import pathlib
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from data_prep.building.image_check import checked_image
from data_prep.building.record_counts import BadImageError, LeftOut, Record
from data_prep.building.split_hash import SplitHash
from xmodal.core.errors import UnexpectedFilesError
from xmodal.core.files import csv_text


@dataclasses.dataclass(frozen=True)
class Entry:
    """The account of one record.

    Attributes:
      left_out: why it cannot be used; None if it can.
      ids: name of a feature -> its ids, which must be unique.
      digest: SHA-256 of a usable record.
    """

    left_out: LeftOut | None = None
    ids: Mapping[str, Any] = dataclasses.field(default_factory=dict)
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
        captions = example.get("captions")
        if captions is not None and not (len(captions) and all(map(str.strip, captions))):
            reason = "empty caption" if len(captions) else "no caption"
            return None, Entry(LeftOut(str(key), reason), ids)
        try:
            if isinstance(dict(self.features.items()).get("image"), tfds.features.Image):
                image = example["image"]
                encoded = image if isinstance(image, bytes) else image.read()
                if self.check_images:
                    encoded = checked_image(encoded, upright=self.upright)
                example = example | {"image": encoded}
            digest = self._hash.digest(example)
        except BadImageError as error:
            # The location of a fetched image says more than its row number.
            where = str(getattr(image, "where", key))
            return None, Entry(LeftOut(where, error.reason, error.detail), ids)
        except (UnicodeEncodeError, OverflowError) as error:
            return None, Entry(LeftOut(str(key), "value that cannot be stored", str(error)), ids)
        return (key, example), Entry(None, ids, digest)

    @functools.cached_property
    def _hash(self) -> SplitHash:
        return SplitHash(self.features)


class BuildReport:
    """Aggregates the accounts of the records of a build, split by split and in order.

    Args:
      path: a csv file with the columns `split,where,reason,detail`, which is created for the first
        record that is left out.
      title: title of the dataset.
      check: check for its records.
    """

    def __init__(self, path: pathlib.Path, title: str, check: RecordCheck) -> None:
        self.path = path
        self._title, self._check = title, check
        self._kept: dict[str, int] = {}
        self._reasons: dict[str, dict[str, collections.Counter[str]]] = {
            kind: collections.defaultdict(collections.Counter) for kind in ("left_out", "parts")
        }

    def start(self, split: str) -> None:
        """Starts a split, which may stay empty."""
        self._kept[split] = 0
        for counts in self._reasons.values():
            counts[split].clear()
        self._ids = {name: array.array("q") for name in self._check.unique_ids}
        self._hash = SplitHash(self._check.features)

    def add(self, split: str, entry: Entry) -> None:
        """Adds the next record of the split that was started last."""
        for name, ids in entry.ids.items():
            self._ids[name].extend(np.atleast_1d(ids).tolist())
        if (lost := entry.left_out) is not None:
            self._reasons["left_out" if lost.is_record else "parts"][split][lost.reason] += 1
            # File names may contain bytes that are not text.
            rows = [("split", "where", "reason", "detail")] * (not self.path.exists())
            rows.append((split, lost.where, lost.reason, lost.detail))
            with self.path.open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(csv_text(rows))
            return
        self._kept[split] += 1
        self._hash.add_digest(entry.digest)

    def finish(self, split: str) -> str:
        """Returns the hash of a split.

        Raises:
          UnexpectedFilesError: there are no records, or an id is negative or occurs twice.
        """
        if not self._kept[split]:  # TFDS writes no empty split
            raise UnexpectedFilesError(f"{self._title} has no usable record in split {split}")
        for name, values in self._ids.items():
            ids, counts = np.unique(np.frombuffer(values, np.int64), return_counts=True)
            if (wrong := ids[(ids < 0) | (counts > 1)]).size:
                raise UnexpectedFilesError(
                    f"{self._title}, split {split}: {name} {wrong[0]} appears twice or is below 0"
                )
        return self._hash.hexdigest()

    def metadata(self) -> dict[str, Any]:
        """The counts as plain data.

        Returns:
          `kept`, split -> records; `left_out`, split -> reason -> records; `parts`, the same for
          parts of records.
        """
        reasons = {
            kind: {split: dict(found) for split, found in counts.items()}
            for kind, counts in self._reasons.items()
        }
        return {"kept": dict(self._kept), **reasons}


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

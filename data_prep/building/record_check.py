"""Checks individual records, and aggregates the results for a split."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow_datasets as tfds

from data_prep.building.id_set import IdSet
from data_prep.building.image_check import CheckedImage, checked_image
from data_prep.building.record_counts import BuildReport, LeftOut, Record
from data_prep.building.split_hash import SplitHash
from xmodal.core.errors import BadImageError, UnexpectedFilesError


@dataclasses.dataclass(frozen=True)
class Entry:
    """The account of one record.

    Attributes:
      left_out: why it cannot be used; None if it can.
      key: key of the record; None if it was left out before its check.
      ids: name of a feature -> its ids, which must be unique.
      converted: original format of its image, if it was converted.
      warning: what may be wrong with its image, although it is kept; None if nothing.
      digest: SHA-256 of a usable record.
    """

    left_out: LeftOut | None = None
    key: int | str | None = None
    ids: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    converted: str = ""
    digest: bytes = b""
    warning: LeftOut | None = None


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
        usable, checked, digest = self._usable(key, example)
        left_out = usable if isinstance(usable, LeftOut) else None
        ids = {name: example[name] for name in self.unique_ids if name in example}
        warning = None
        if checked.warning:
            reason, _, detail = checked.warning.partition(": ")
            warning = LeftOut(_place(key, example), reason, detail, is_record=False)
        entry = Entry(left_out, key, ids, checked.converted, digest, warning)
        return (None if isinstance(usable, LeftOut) else (key, usable)), entry

    def _usable(
        self, key: int | str, example: dict[str, Any]
    ) -> tuple[dict[str, Any] | LeftOut, CheckedImage, bytes]:
        """The example as stored, its image, and the hash."""
        captions, checked = example.get("captions"), CheckedImage(b"")
        if captions is not None and not (len(captions) and all(map(str.strip, captions))):
            reason = "empty caption" if len(captions) else "no caption"
            return LeftOut(str(key), reason), checked, b""
        try:
            if self._has_pixels:
                image = example["image"]
                encoded = image if isinstance(image, bytes) else image.read()
                checked = CheckedImage(encoded)
                if self.check_images:
                    checked = checked_image(encoded, upright=self.upright)
                example = example | {"image": checked.encoded}
            return example, checked, self._hash.digest(example)
        except BadImageError as error:
            return LeftOut(_place(key, example), error.reason, error.detail), checked, b""
        except (UnicodeEncodeError, OverflowError) as error:
            left_out = LeftOut(str(key), "value that cannot be stored", str(error))
            return left_out, CheckedImage(b""), b""

    @functools.cached_property
    def _has_pixels(self) -> bool:
        return isinstance(dict(self.features.items()).get("image"), tfds.features.Image)

    @functools.cached_property
    def _hash(self) -> SplitHash:
        return SplitHash(self.features)


def _place(key: int | str, example: dict[str, Any]) -> str:
    """The location of a fetched image, which says more than its row number."""
    return str(getattr(example["image"], "where", key))


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
        self._keys = IdSet("key")
        self._ids = {name: IdSet(name) for name in check.unique_ids}
        self._hash = SplitHash(check.features)
        self._kept = 0
        report.start(split)

    def add(self, entry: Entry) -> None:
        """Adds the next record.

        Raises:
          UnexpectedFilesError: its key or one of its ids occurred before.
        """
        if entry.key is not None:
            where = f"{self._title}, split {self._split}, record {entry.key}"
            self._keys.add(entry.key, where)
            for name, ids in entry.ids.items():
                self._ids[name].add_all(ids, where)
        if entry.left_out is not None:
            self._report.leave_out(self._split, entry.left_out)
            return
        self._report.keep(self._split, entry.converted)
        if entry.warning is not None:
            self._report.leave_out(self._split, entry.warning)
        self._hash.add_digest(entry.digest)
        self._kept += 1

    def hexdigest(self) -> str:
        """Returns the hash of the split.

        Raises:
          UnexpectedFilesError: there are no records.
        """
        if not self._kept:  # TFDS writes no empty split
            raise UnexpectedFilesError(f"{self._title} has no usable record in split {self._split}")
        return self._hash.hexdigest()

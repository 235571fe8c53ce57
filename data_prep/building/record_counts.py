"""Tracks whether each record of a build was kept, converted, or left out and why."""

import collections
import csv
import dataclasses
import io
from collections.abc import Mapping
from typing import Any, Self

from etils import epath

# A usable record: a key that is unique in the split, and an example with the builder's features.
Record = tuple[int | str, dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """A record that cannot be used.

    Attributes:
      where: file and row, or name: "sts_val.csv line 17", "training/00012.tar:0001234.jpg".
      reason: one of a few per dataset: "no image", "truncated image", "empty caption", ...
      detail: further details.
      is_record: False for a part of a record that is kept, such as one of its captions, and for a
        damaged file whose records are counted individually. These are listed, but do not count
        as missing records.
    """

    where: str
    reason: str
    detail: str = ""
    is_record: bool = True


class BuildReport:
    """Counts the records of a build by split; left-out records are also written to a csv file.

    The file is created for the first left-out record, so it does not exist if there is none.

    Args:
      path: the csv file, with the columns `split,where,reason,detail`.
    """

    def __init__(self, path: epath.Path) -> None:
        self.path = path
        self._file: Any = None
        self._kept: collections.Counter[str] = collections.Counter()
        self._left_out: dict[str, collections.Counter[str]] = {}
        self._parts: dict[str, collections.Counter[str]] = {}
        self._converted: dict[str, collections.Counter[str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def has_left_out(self) -> bool:
        """Whether anything was left out."""
        return any(self._left_out.values()) or any(self._parts.values())

    def start(self, split: str) -> None:
        """Lists a split, which may stay empty."""
        self._kept[split] += 0
        self._left_out.setdefault(split, collections.Counter())
        self._parts.setdefault(split, collections.Counter())
        self._converted.setdefault(split, collections.Counter())

    def keep(self, split: str, converted: str = "") -> None:
        """Counts a kept record, and the original format of its image if it was converted."""
        self._kept[split] += 1
        if converted:
            self._converted[split][converted] += 1

    def leave_out(self, split: str, record: LeftOut) -> None:
        """Counts a left-out record and writes its row."""
        counts = self._left_out if record.is_record else self._parts
        counts[split][record.reason] += 1
        if self._file is None:
            self._file = self.path.open("wb")
            self._file.write(_csv_row("split", "where", "reason", "detail"))
        self._file.write(_csv_row(split, record.where, record.reason, record.detail))

    def metadata(self) -> dict[str, Any]:
        """The counts as plain data.

        Returns:
          `kept`, split -> records; `left_out`, split -> reason -> records; `parts`, the same for
          parts of records; `converted`, split -> original format of the image -> records.
        """
        return {
            "kept": dict(self._kept),
            "left_out": {split: dict(counts) for split, counts in self._left_out.items()},
            "parts": {split: dict(counts) for split, counts in self._parts.items()},
            "converted": {split: dict(counts) for split, counts in self._converted.items()},
        }


def counts_table(metadata: Mapping[str, Any]) -> str:
    """Returns a table of records kept and left out, one line per split.

    Args:
      metadata: value of `BuildReport.metadata`, possibly as stored by TFDS.
    """
    lines = [f"{'split':<14}{'kept':>11}{'left out':>11}{'converted':>11}  why"]
    for split, kept in metadata["kept"].items():
        left_out = metadata["left_out"].get(split, {})
        converted = metadata["converted"].get(split, {})
        kinds = {"": left_out, "besides: ": metadata.get("parts", {}).get(split, {})}
        kinds["converted: "] = converted
        why = "; ".join(name + _listing(found) for name, found in kinds.items() if found)
        counts = (kept, sum(left_out.values()), sum(converted.values()))
        lines.append(f"{split:<14}" + "".join(f"{count:>11,}" for count in counts) + f"  {why}")
    return "\n".join(line.rstrip() for line in lines)


def short_splits(metadata: Mapping[str, Any], min_kept: float) -> list[str]:
    """Splits that are empty or kept less than the share `min_kept` of their records."""
    short = []
    for split, kept in metadata["kept"].items():
        total = kept + sum(metadata["left_out"].get(split, {}).values())
        if not kept or kept < min_kept * total:
            short.append(split)
    return short


def _csv_row(*fields: str) -> bytes:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(fields)
    # File names may contain bytes that are not text.
    return line.getvalue().encode("utf-8", "backslashreplace")


def _listing(counts: Mapping[str, int]) -> str:
    """The counts, most frequent first."""
    most_first = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {count:,}" for name, count in most_first)

"""Tracks whether each record of a build was kept, converted, or left out and why."""

import collections
import csv
import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any, Self

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

    Args:
      path: the csv file, with the columns `split,where,reason,detail`, which is created for the
        first left-out record.

    Attributes:
      kept: split -> number of records.
      has_left_out: whether anything was left out.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.kept: dict[str, int] = {}
        self.has_left_out = False
        self._reasons: dict[str, dict[str, collections.Counter[str]]] = {
            "left_out": {},
            "parts": {},
            "converted": {},
        }
        self._file: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def start(self, split: str) -> None:
        """Lists a split, which may stay empty."""
        self.kept[split] = 0
        for counts in self._reasons.values():
            counts[split] = collections.Counter()

    def keep(self, split: str, converted: str = "") -> None:
        """Counts a kept record, and the original format of its image if it was converted."""
        self.kept[split] += 1
        if converted:
            self._reasons["converted"][split][converted] += 1

    def leave_out(self, split: str, record: LeftOut) -> None:
        """Counts a left-out record and writes its row."""
        kind = "left_out" if record.is_record else "parts"
        self._reasons[kind][split][record.reason] += 1
        row = (split, record.where, record.reason, record.detail)
        if self._file is None:
            self.has_left_out = True
            # File names may contain bytes that are not text.
            self._file = self.path.open(
                "w", newline="", encoding="utf-8", errors="backslashreplace"
            )
            self._file.write("split,where,reason,detail\n")
        csv.writer(self._file, lineterminator="\n").writerow(row)

    def metadata(self) -> dict[str, Any]:
        """The counts as plain data.

        Returns:
          `kept`, split -> records; `left_out`, split -> reason -> records; `parts`, the same for
          parts of records; `converted`, split -> original format of the image -> records.
        """
        reasons = {
            kind: {split: dict(found) for split, found in counts.items()}
            for kind, counts in self._reasons.items()
        }
        return {"kept": dict(self.kept), **reasons}


def counts_table(metadata: Mapping[str, Any]) -> str:
    """Returns a table of records kept and left out, one line per split.

    Args:
      metadata: value of `BuildReport.metadata`, possibly as stored by TFDS.
    """
    lines = [f"{'split':<14}{'kept':>11}{'left out':>11}{'converted':>11}  why"]
    titles = {"left_out": "", "parts": "besides: ", "converted": "converted: "}
    for split, kept in metadata["kept"].items():
        found = {kind: metadata[kind].get(split, {}) for kind in titles}
        why = "; ".join(titles[kind] + listing(own) for kind, own in found.items() if own)
        counts = kept, sum(found["left_out"].values()), sum(found["converted"].values())
        lines.append(f"{split:<14}" + "".join(f"{count:>11,}" for count in counts) + f"  {why}")
    return "\n".join(line.rstrip() for line in lines)


def listing(counts: Mapping[str, int]) -> str:
    """Returns the names with their counts, most frequent first."""
    most_first = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {count:,}" for name, count in most_first)

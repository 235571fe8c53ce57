"""Records that cannot be used, and tables of how many were kept or left out."""

import dataclasses
from collections.abc import Mapping
from typing import Any


class BadImageError(ValueError):
    """An image that cannot be used.

    Attributes:
      reason: one of a few, such as "no image", "no bytes", "not an image", "truncated image",
        "damaged image", "damaged in the archive" and "too many pixels".
      detail: further details.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


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


def counts_table(metadata: Mapping[str, Any]) -> str:
    """Returns a table of records kept and left out, one line per split.

    Args:
      metadata: value of `BuildReport.metadata`, possibly as stored by TFDS.
    """
    lines = [f"{'split':<14}{'kept':>11}{'left out':>11}  why"]
    titles = {"left_out": "", "parts": "besides: "}
    for split, kept in metadata["kept"].items():
        found = {kind: metadata[kind].get(split, {}) for kind in titles}
        why = "; ".join(titles[kind] + listing(own) for kind, own in found.items() if own)
        lost = sum(found["left_out"].values())
        lines.append(f"{split:<14}{kept:>11,}{lost:>11,}  {why}")
    return "\n".join(line.rstrip() for line in lines)


def listing(counts: Mapping[str, int]) -> str:
    """Returns the names with their counts, most frequent first."""
    most_first = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {count:,}" for name, count in most_first)

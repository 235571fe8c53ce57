"""Published figures of a dataset, for `python -m data_prep.validate`.

`RandomAccessBuilder.published_figures` returns them by the name of a row in that command's table
(`test/records`), or by a pattern of names (`*/captions of an image`).
"""

import dataclasses
from collections.abc import Mapping

Value = int | float | str


@dataclasses.dataclass(frozen=True)
class Known:
    """A fault in the published data, which faithful copies share.

    Attributes:
      value: its size.
      note: its description.
    """

    value: Value
    note: str


@dataclasses.dataclass(frozen=True)
class Within:
    """Any number from `low` to `high`, inclusive."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}"


@dataclasses.dataclass(frozen=True)
class Unknown:
    """Nothing is expected; `note` says why."""

    note: str


Figure = Value | Known | Within | Unknown


def count_figures(counts: Mapping[str, int]) -> dict[str, Figure]:
    """Figures from the counts that a build checks: `<split>` and `<split>/<relation>`."""
    return {
        name.replace("/", "/relation ") if "/" in name else f"{name}/records": count
        for name, count in counts.items()
    }

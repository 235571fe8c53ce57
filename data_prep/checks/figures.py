"""What is known of a dataset beforehand, and how a figure that was found compares with it.

It stands in `figures.py` beside the builder of the dataset:

- `FIGURES`: builder config -> name of a row -> what is expected. Both may hold `*`. A row that is
  named comes before a pattern, and of several patterns the first counts.
- `JOINS`: builder config -> where the ids are that its rows refer to, as `dataset/config`, the
  cheapest to read first.
"""

import dataclasses
import fnmatch
import importlib.util
from collections.abc import Iterable, Mapping, Sequence

from data_prep.checks.rows import DIFFERS, KNOWN, NOTED, OK, PART, Row, Value


@dataclasses.dataclass(frozen=True)
class Known:
    """A fault of the published data, which a faithful copy has too.

    Attributes:
      value: how large it is.
      note: what it is.
    """

    value: Value
    note: str


@dataclasses.dataclass(frozen=True)
class Within:
    """Any number from `low` to `high`, both included."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}"


@dataclasses.dataclass(frozen=True)
class IfThere:
    """What is expected of a row that may be missing altogether."""

    value: Value


@dataclasses.dataclass(frozen=True)
class Unknown:
    """Nothing can be expected; `note` says why."""

    note: str


Figure = Value | Known | Within | IfThere | Unknown


def figures_of(dataset: str, config: str) -> dict[str, Figure]:
    """Names, and patterns of names, of rows and what is expected of them.

    Args:
      dataset: key of `data_prep.BUILDERS`.
      config: builder config.
    """
    figures: dict[str, Figure] = {}
    for part in _matching(getattr(_module(dataset), "FIGURES", {}), config):
        figures = figures | {name: value for name, value in part.items() if name not in figures}
    return figures


def joins_of(dataset: str, config: str) -> list[str]:
    """Datasets with the ids that rows refer to: `dataset/config`, the cheapest to read first."""
    joins = _matching(getattr(_module(dataset), "JOINS", {}), config)
    return [name for part in joins for name in part]


def lookup(figures: Mapping[str, Figure], name: str, default: Figure | None) -> Figure | None:
    """What is expected of the row called `name`."""
    if name in figures:
        return figures[name]
    matching = (value for key, value in figures.items() if fnmatch.fnmatchcase(name, key))
    return next(matching, default)


def judged(name: str, found: Value, figure: Figure | None, *, part: bool, note: str = "") -> Row:
    """Compares a figure with what is expected.

    Args:
      name: name of the row.
      found: the figure.
      figure: what is expected; None for nothing.
      part: whether the dataset says itself that it is only a part of the published one; then less
        than expected is not a difference.
      note: shown beside the row, unless the figure brings a note of its own.
    """
    if figure is None or isinstance(figure, Unknown):
        return Row(name, found, None, NOTED, figure.note if figure else note)
    verdict, expected = OK, figure.value if isinstance(figure, IfThere) else figure
    if isinstance(figure, Known):
        verdict, expected, note = KNOWN, figure.value, figure.note
    if isinstance(expected, Within):
        is_equal = not isinstance(found, str) and expected.low <= found <= expected.high
        expected, is_less = str(expected), not isinstance(found, str) and found < expected.low
    else:
        is_equal = found == expected
        is_less = not isinstance(found, str) and not isinstance(expected, str) and found < expected
    if not is_equal:
        verdict = PART if part and is_less else DIFFERS
    return Row(name, found, expected, verdict, note)


def missing(figures: Mapping[str, Figure], found: Iterable[Row], *, part: bool) -> list[Row]:
    """A row for every figure by name that no check has come across.

    Args:
      figures: what is known of a dataset.
      found: the rows of all checks.
      part: see `judged`.
    """
    names = {row.name for row in found}
    return [
        judged(name, 0, figure, part=part, note="there is nothing of the kind")
        for name, figure in figures.items()
        if name not in names and not _is_optional(name, figure)
    ]


def _is_optional(name: str, figure: Figure) -> bool:
    return isinstance(figure, IfThere | Unknown) or any(mark in name for mark in "*?[")


def _module(dataset: str) -> object | None:
    name = f"data_prep.{dataset}.figures"
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


def _matching(table: Mapping[str, object], config: str) -> Sequence:
    return [part for pattern, part in table.items() if fnmatch.fnmatchcase(config, pattern)]

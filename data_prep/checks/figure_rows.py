"""Rows of the table of `data_prep.validate`: a figure found, the figure expected, a verdict."""

import dataclasses
import fnmatch
import json
from collections.abc import Iterable, Mapping, Sequence

from data_prep.published_figures import Figure, Known, Unknown, Value, Within

OK = "ok"
KNOWN = "known"
PART = "part"
NOTED = "noted"
DIFFERS = "differs"

# Hashes have 64 digits; the JSON output has all of them.
_WIDEST = 17

_MEANINGS = {
    OK: "as expected",
    KNOWN: "a known fault of the published data, as large as published",
    PART: "less than was published: the dataset is described as a part",
    NOTED: "nothing is expected",
    DIFFERS: "not as expected",
}


@dataclasses.dataclass(frozen=True)
class FigureRow:
    """One figure of a prepared dataset.

    Attributes:
      name: split and quantity: `test/records`.
      found: the figure.
      expected: the expected figure, as a number or in words; None if nothing is expected.
      verdict: `OK`, `KNOWN`, `PART`, `NOTED` or `DIFFERS`.
      note: a remark for the reader.
    """

    name: str
    found: Value
    expected: Value | None
    verdict: str
    note: str = ""


def lookup(figures: Mapping[str, Figure], name: str, default: Figure | None) -> Figure | None:
    """Returns the figure of the row `name`: by name, or else by the first pattern it matches."""
    if name in figures:
        return figures[name]
    matching = (value for key, value in figures.items() if fnmatch.fnmatchcase(name, key))
    return next(matching, default)


def judge(
    name: str, found: Value, figure: Figure | None, *, part: bool, note: str = ""
) -> FigureRow:
    """Compares a figure with the expected one.

    Args:
      name: name of the row.
      found: the figure.
      figure: the expected one; None if nothing is expected.
      part: whether the dataset's description says that it is only a part of the published one, so
        that less than expected is not a difference.
      note: shown beside the row, unless the expected figure has a note of its own.
    """
    if figure is None or isinstance(figure, Unknown):
        return FigureRow(name, found, None, NOTED, figure.note if figure else note)
    verdict = OK
    if isinstance(figure, Known):
        verdict, note = KNOWN, figure.note
    expected = figure.value if isinstance(figure, Known) else figure
    if isinstance(expected, Within):
        is_equal = not isinstance(found, str) and expected.low <= found <= expected.high
        is_less = not isinstance(found, str) and found < expected.low
        shown: Value = str(expected)
    else:
        is_equal, shown = found == expected, expected
        is_less = not isinstance(found, str) and not isinstance(expected, str) and found < expected
    if not is_equal:
        verdict = PART if part and is_less else DIFFERS
    return FigureRow(name, found, shown, verdict, note)


def has_differences(rows: Iterable[FigureRow]) -> bool:
    """Whether any row is not as expected."""
    return any(row.verdict == DIFFERS for row in rows)


def table(rows: Sequence[FigureRow]) -> str:
    """Returns the rows in columns, and a line that counts the verdicts."""
    header = ("", "found", "expected", "verdict", "")
    lines = [
        (row.name, _text(row.found), _text(row.expected), row.verdict, row.note) for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(header, *lines, strict=True)]
    padded = (
        f"{name:<{widths[0]}}  {found:>{widths[1]}}  {expected:>{widths[2]}}  "
        f"{verdict:<{widths[3]}}  {note}".rstrip()
        for name, found, expected, verdict, note in (header, *lines)
    )
    counts = {verdict: sum(row.verdict == verdict for row in rows) for verdict in _MEANINGS}
    summary = "; ".join(
        f"{count} {verdict} ({_MEANINGS[verdict]})" for verdict, count in counts.items() if count
    )
    return "\n".join([*padded, "", summary])


def as_json(datasets: Iterable[tuple[str, Sequence[FigureRow]]]) -> str:
    """Returns one JSON object per checked dataset, in an array.

    Args:
      datasets: pairs of a dataset's name (`flickr8k/images`) and its rows.
    """
    return json.dumps(
        [
            {
                "dataset": name,
                "differs": has_differences(rows),
                "rows": [dataclasses.asdict(row) for row in rows],
            }
            for name, rows in datasets
        ],
        indent=1,
    )


def _text(value: Value | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value if len(value) <= _WIDEST else value[: _WIDEST - 1] + "…"
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"

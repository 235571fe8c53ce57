"""What a check says: one row per figure, as a table for people and as JSON for machines."""

import dataclasses
import json
from collections.abc import Iterable, Sequence

Value = int | float | str

OK = "ok"
KNOWN = "known"
PART = "part"
NOTED = "noted"
DIFFERS = "differs"

# Hashes have 64 digits; JSON has them all.
_WIDEST = 17

_MEANINGS = {
    OK: "as expected",
    KNOWN: "a known fault of the published data, as large as published",
    PART: "less than was published: the dataset says itself that it is a part",
    NOTED: "nothing is expected",
    DIFFERS: "not as expected",
}


@dataclasses.dataclass(frozen=True)
class Row:
    """One figure of a prepared dataset.

    Attributes:
      name: what was counted or measured and where: `test/records`.
      found: the figure.
      expected: what it should be, as a number or in words; None where nothing is expected.
      verdict: `OK`, `KNOWN`, `PART`, `NOTED` or `DIFFERS`.
      note: what a reader should know about it.
    """

    name: str
    found: Value
    expected: Value | None
    verdict: str
    note: str = ""


def has_differences(rows: Iterable[Row]) -> bool:
    """Whether anything is not as expected."""
    return any(row.verdict == DIFFERS for row in rows)


def table(rows: Sequence[Row]) -> str:
    """The rows in columns, and a line that counts the verdicts."""
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
    return "\n".join([*padded, "", summary(rows)])


def summary(rows: Sequence[Row]) -> str:
    """How many rows have which verdict: `41 ok, 1 differs`, with what the verdicts mean."""
    counts = {verdict: sum(row.verdict == verdict for row in rows) for verdict in _MEANINGS}
    return "; ".join(
        f"{count} {verdict} ({_MEANINGS[verdict]})" for verdict, count in counts.items() if count
    )


def as_json(datasets: Iterable[tuple[str, Sequence[Row]]]) -> str:
    """One object per checked dataset, in an array.

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

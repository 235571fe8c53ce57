"""Compares the metrics of a system with the numbers of its rows, and reports it."""

import dataclasses
import math
import pathlib
import platform
import re
from collections.abc import Sequence

import numpy as np

from xmodal.apps.reproduction.entries import LedgerRow, System
from xmodal.core.files import format_json
from xmodal.core.text_table import Rows
from xmodal.core.version import __version__
from xmodal.evals.reports.paired_differences import compare_means

Numbers = dict[str, float]
_VERDICTS = {
    True: "reproduced",
    False: "not reproduced",
    None: "undecided, since no expected number is verified",
}
_WORDS = {True: "inside", False: "OUTSIDE", None: "not computed"}


@dataclasses.dataclass(frozen=True)
class Check:
    """One number of a row.

    Attributes:
      table: the table's name.
      tag: the metric.
      against: "stored", the number measured earlier, "published", or "unverified".
      expected: that number.
      allowed: the row's tolerance and, for a number with a deviation, the spread of new seeds.
      measured: the mean over seeds; None if the commands do not compute it.
      low: lower end of the 95 % interval: of the mean over several seeds, or of the evaluation of
        one seed, if it has one.
      high: upper end.
    """

    table: str
    tag: str
    against: str
    expected: float
    allowed: float
    measured: float | None
    low: float | None = None
    high: float | None = None

    @property
    def inside(self) -> bool | None:
        """Whether the number is reproduced; None if it was not measured."""
        if self.measured is None:
            return None
        return abs(self.measured - self.expected) <= self.allowed + 1e-9


def compare_rows(rows: Sequence[LedgerRow], metrics: Sequence[Numbers]) -> list[Check]:
    """Compares every number of a system's rows: with the stored one, or else with the paper's.

    Args:
      rows: the rows of one system.
      metrics: the metrics of every seed.
    """
    checks = []
    for row in rows:
        paper = "unverified" if row.table.unverified else "published"
        for tag, value in {**row.published, **row.measured}.items():
            if value.number is not None:
                against = "stored" if tag in row.measured else paper
                seeds = len(row.system.seeds) if against == "stored" else 0
                allowed = row.tolerance + _spread(value.deviation, seeds, len(metrics))
                found = (x and x * row.table.scale for x in _measure(tag, row.system, metrics))
                place = row.table.name, tag, against, value.number, allowed
                checks.append(Check(*place, *found))
    return checks


def _spread(deviation: float, seeds: int, new: int) -> float:
    """How far the mean of `new` seeds may be from that of others with this deviation.

    This is half of the 95 % prediction interval, by Student's t-distribution since few seeds tell
    little about the deviation; if it is not known to be over several seeds, twice the deviation.
    """
    if not deviation or seeds < 2 or not new:
        return 2 * deviation
    from scipy import stats  # Slow to import.

    return float(stats.t.ppf(0.975, seeds - 1)) * deviation * math.sqrt(1 / seeds + 1 / new)


def _measure(tag: str, system: System, metrics: Sequence[Numbers]) -> tuple[float | None, ...]:
    """The mean over seeds, and its interval; `A+B` is the mean of two metrics."""
    means: list[float] = []
    ends: tuple[float | None, float | None] = (None, None)
    for numbers in metrics:
        names = [_find(each, system.evaluator, numbers) for each in tag.split("+")]
        if "" in names:
            return None, None, None
        means.append(float(np.mean([numbers[name] for name in names])))
        if len(names) == 1:
            ends = numbers.get(f"{names[0]}_low"), numbers.get(f"{names[0]}_high")
    if means[1:]:
        mean = compare_means({"": means}, {"": [0.0] * len(means)}, "runs")[""]
        ends = mean.low, mean.high
    return float(np.mean(means)), *ends


def _find(tag: str, evaluator: str, numbers: Numbers) -> str:
    """The metric's whole name, which may begin with that of an evaluator; "" if it is not known."""
    tag = f"{evaluator}/{tag}" if evaluator else tag
    names = [name for name in numbers if name == tag or name.endswith(f"/{tag}")]
    return names[0] if len(names) == 1 else ""


def is_reproduced(checks: Sequence[Check]) -> bool | None:
    """Whether some number was measured, and none that is known to be right differs.

    None if no number is expected, or if numbers were measured, and all expected are unverified.
    """
    decisive = [check.inside for check in checks if check.against != "unverified"]
    if not decisive and (not checks or any(check.inside is not None for check in checks)):
        return None
    return any(decisive) and False not in decisive


def describe_verdict(checks: Sequence[Check]) -> str:
    """Returns `is_reproduced` in words, with the number of computed numbers that are inside."""
    computed = [check.inside for check in checks if check.inside is not None]
    inside = f"{sum(computed)} of {len(computed)} numbers inside"
    absent = len(checks) - len(computed)
    others = f", {absent} not computed" if absent else ""
    return f"{_VERDICTS[is_reproduced(checks)]}, {inside}{others}"


def format_report(system: System, checks: Sequence[Check], commands: Sequence[str]) -> str:
    """Returns the content of `reproduced.json`."""
    content = {
        "system": system.name,
        "reproduced": is_reproduced(checks),
        "version": __version__,
        "processor": describe_processor(),
        "commands": list(commands),
        "checks": [dataclasses.asdict(check) | {"inside": check.inside} for check in checks],
    }
    return format_json(content)


def tabulate_checks(checks: Sequence[Check]) -> Rows:
    """Returns the cells of a table with a row per number."""
    rows = [["metric", "against", "expected", "measured", "95 % interval", "tolerance", ""]]
    for check in checks:
        measured = "-" if check.measured is None else f"{check.measured:.2f}"
        interval = "-" if check.low is None else f"[{check.low:.2f}, {check.high:.2f}]"
        numbers = [f"{check.expected:g}", measured, interval, f"{check.allowed:g}"]
        name = f"{check.table}: {check.tag}"
        rows.append([name, check.against, *numbers, _WORDS[check.inside]])
    return rows


def describe_processor() -> str:
    """Returns the name of the processor, or of its architecture."""
    path = pathlib.Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.*)", path.read_text() if path.exists() else "")
    return names[0] if names else platform.machine()

"""Two models on the same labels: paired differences, and which of them noise could explain."""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from xmodal.evals.metrics.recall import MEDIAN_RANK
from xmodal.evals.reports.store import StoredResults
from xmodal.evals.reports.summary import compute_samples, compute_values
from xmodal.evals.reports.tables import format_table
from xmodal.evals.reports.uncertainty import Bootstrap, compute_interval
from xmodal.evals.results import BoardResult, TaskResult
from xmodal.options import UserError


@dataclasses.dataclass(frozen=True)
class Difference:
    """One metric of two models.

    Attributes:
      value: of ours.
      other: of theirs.
      difference: `value - other`; NaN where one of them is undefined.
      low: lower limit of the 95 % interval of the difference.
      high: upper limit.
      separable: whether 0 lies outside of the interval.
    """

    value: float
    other: float
    difference: float
    low: float
    high: float
    separable: bool


def compare(
    ours: StoredResults, theirs: StoredResults, *, samples: int = 1000, seed: int = 0
) -> dict[str, Difference]:
    """Differences between two models in every metric that both have.

    Both models are evaluated on the same resamples of the images, and their correlations were
    drawn from the same pairs, so what is hard for both cancels: intervals of differences are
    shorter than those of the values let expect. Nothing corrects for the number of comparisons:
    5 % of the metrics of two equally good models look separable.

    Args:
      ours: one model.
      theirs: another model, evaluated on the same labels.
      samples: resamples of every board.
      seed: of the resamples.

    Returns:
      Tag -> difference, boards in the order of ours.

    Raises:
      UserError: labels, queries or draws differ, or there is no metric that both have.
    """
    bootstrap = Bootstrap(samples=samples, seed=seed)
    other_boards = {board.name: board for board in theirs.results}
    found = {}
    for board in ours.results:
        if board.name not in other_boards:
            continue
        pair = _pair_boards(board, other_boards[board.name])
        _check_draws(ours, theirs, board, other_boards[board.name])
        values, others = map(compute_values, pair)
        drawn, other_drawn = (compute_samples(each, bootstrap) for each in pair)
        for tag in values:
            if tag in others:
                differences = drawn[tag] - other_drawn[tag]
                found[tag] = _make_difference(values[tag], others[tag], differences)
    if not found:
        raise UserError(
            f"The two evaluations have no metric in common: boards {_names(ours)} against "
            f"{_names(theirs)}; evaluate both on the same boards."
        )
    return found


def flatten(differences: Mapping[str, Difference]) -> dict[str, float]:
    """`<tag>_difference`, with `_low` and `_high`, and `<tag>_separable` (1 or 0)."""
    flat = {}
    for tag, each in differences.items():
        flat[f"{tag}_difference"] = each.difference
        flat[f"{tag}_difference_low"] = each.low
        flat[f"{tag}_difference_high"] = each.high
        flat[f"{tag}_separable"] = float(each.separable)
    return flat


def format_comparison(
    differences: Mapping[str, Difference], *, name: str = "ours", other: str = "theirs"
) -> str:
    """Writes a Markdown table with a row per metric, and how to read it.

    Args:
      differences: as `compare` returns them.
      name: of the first model.
      other: of the second model.
    """
    rows = [["Metric", name, other, "difference", "95 % interval", "separable"]]
    for tag, each in differences.items():
        interval = "-"
        if not math.isnan(each.low):
            interval = f"{_format(tag, each.low, '+')} to {_format(tag, each.high, '+')}"
        rows.append(
            [
                tag,
                _format(tag, each.value),
                _format(tag, each.other),
                _format(tag, each.difference, "+"),
                interval,
                "yes" if each.separable else "no",
            ]
        )
    separable = sum(each.separable for each in differences.values())
    return (
        f"## {name} against {other}\n\n{format_table(rows)}\n\n"
        f"{separable} of {len(differences)} differences are separable from noise: 0 lies outside "
        "of the 95 % interval of the paired bootstrap over images. The intervals are not corrected "
        "for the number of comparisons: of two equally good models, about 5 % of the rows would "
        "say yes.\n"
    )


def _make_difference(value: float, other: float, samples: np.ndarray) -> Difference:
    difference = value - other
    low, high = (math.nan, math.nan) if math.isnan(difference) else compute_interval(samples)
    return Difference(value, other, difference, low, high, separable=low > 0 or high < 0)


def _pair_boards(ours: BoardResult, theirs: BoardResult) -> tuple[BoardResult, BoardResult]:
    """Both boards, with the tasks that both have and their queries in the order of ours.

    Resamples depend on the images that tasks ask about, so a task of one side must not count.
    """
    if ours.label_hash != theirs.label_hash:
        raise UserError(
            f"The labels of board {ours.name} differ: {ours.label_hash} against "
            f"{theirs.label_hash}; evaluate both models with the same annotations and split."
        )
    tasks = {name: task for name, task in ours.tasks.items() if name in theirs.tasks}
    aligned = {
        name: _align(ours.name, name, task, theirs.tasks[name]) for name, task in tasks.items()
    }
    shared = [name for name in ours.correlations if name in theirs.correlations]
    return (
        dataclasses.replace(
            ours, tasks=tasks, correlations={name: ours.correlations[name] for name in shared}
        ),
        dataclasses.replace(
            theirs,
            tasks=aligned,
            correlations={name: theirs.correlations[name] for name in shared},
        ),
    )


def _align(board: str, name: str, ours: TaskResult, theirs: TaskResult) -> TaskResult:
    """Their task with its queries in the order of ours."""
    order, other_order = (np.argsort(task.query_ids, kind="stable") for task in (ours, theirs))
    if not np.array_equal(ours.query_ids[order], theirs.query_ids[other_order]):
        only = np.setxor1d(ours.query_ids, theirs.query_ids)
        example = f", id {only[0]} for one is asked on one side only" if len(only) else ""
        raise UserError(
            f"The queries of {board}/{name} differ: {len(ours.query_ids)} against "
            f"{len(theirs.query_ids)}{example}; evaluate both models on the same items."
        )
    rows = np.empty_like(order)
    rows[order] = other_order
    return dataclasses.replace(
        theirs,
        query_ids=ours.query_ids,
        clusters=ours.clusters,
        values={metric: values[rows] for metric, values in theirs.values.items()},
        rank=None if theirs.rank is None else theirs.rank[rows],
        tied=theirs.tied[rows],
    )


def _check_draws(
    ours: StoredResults, theirs: StoredResults, board: BoardResult, other: BoardResult
) -> None:
    """Refuses correlations whose samples are not of the same pairs."""
    shared = [name for name in board.correlations if name in other.correlations]
    for name in shared:
        draws = [
            (each.seed, len(result.correlations[name].samples))
            for each, result in ((ours, board), (theirs, other))
        ]
        if draws[0] != draws[1]:
            raise UserError(
                f"The samples of {board.name}/{name} are of other pairs: seed {draws[0][0]} and "
                f"{draws[0][1]} samples against seed {draws[1][0]} and {draws[1][1]} samples; "
                "evaluate both models with the same seed and number of samples."
            )
    for name, task in board.tasks.items():
        if (
            shared
            and name in other.tasks
            and not np.array_equal(task.query_ids, other.tasks[name].query_ids)
        ):
            raise UserError(
                f"The samples of {board.name}/{shared[0]} are of other pairs, as the queries of "
                f"{board.name}/{name} come in another order; evaluate both models with the same "
                "annotations."
            )


def _names(stored: StoredResults) -> list[str]:
    return [board.name for board in stored.results]


def _format(tag: str, value: float, sign: str = "") -> str:
    if math.isnan(value):
        return "-"
    return f"{value:{sign}.{0 if tag.endswith(MEDIAN_RANK) else 2}f}"

"""Two models on the same labels: paired differences, and which of them noise could explain."""

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from xmodal.config import UserError
from xmodal.evals.boards.types import Board
from xmodal.evals.metrics import MEDIAN_RANK
from xmodal.evals.reports.report import format_table
from xmodal.evals.reports.store import StoredResults
from xmodal.evals.reports.summary import compute_samples, compute_values
from xmodal.evals.reports.uncertainty import Bootstrap, compute_interval
from xmodal.evals.results import BoardResult, TaskResult

_HOW_TO_READ = (
    "Intervals of retrieval metrics are of the paired bootstrap over images. They are not "
    "corrected for the number of comparisons: of two equally good models, about 5 % of these rows "
    "would say yes. Intervals of correlations are of the samples that the correlations are means "
    "of, which draw one pair per query. Where queries have many pairs, they are too wide: their "
    "rows say yes too rarely."
)


@dataclasses.dataclass(frozen=True)
class Difference:
    """One metric of two models: `value - other`, with its 95 % interval.

    The difference is NaN where one of them is undefined; it is separable from noise if 0 lies
    outside of the interval.
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
    """Returns the differences between two models in every metric that both have, by tag.

    Both models are evaluated on the same resamples of the images, and their correlations were
    drawn from the same pairs, so difficulty for both cancels: intervals of differences are
    shorter than those of the values let expect. Nothing corrects for the number of comparisons:
    5 % of the retrieval metrics of two equally good models look separable. Of the correlations
    fewer do, see `summary.compute_samples`.

    Raises:
      UserError: labels, queries or draws differ, or there is no metric that both have.
    """
    bootstrap = Bootstrap(samples=samples, seed=seed)
    other_boards = {board.name: board for board in theirs.results}
    found = {}
    names, other_names = ([board.name for board in each.results] for each in (ours, theirs))
    _check_shared(names, other_names)
    for board in ours.results:
        if board.name not in other_boards:
            continue
        pair = _pair_boards(board, other_boards[board.name])
        _check_draws(ours, theirs, board, other_boards[board.name])
        values, others = map(compute_values, pair)
        drawn, other_drawn = (compute_samples(each, bootstrap) for each in pair)
        for tag in values:
            if tag in others:
                difference, low, high = values[tag] - others[tag], math.nan, math.nan
                if not math.isnan(difference):
                    low, high = compute_interval(drawn[tag] - other_drawn[tag])
                found[tag] = Difference(
                    values[tag], others[tag], difference, low, high, low > 0 or high < 0
                )
    if not found:
        raise UserError(
            f"The two evaluations share boards among {names} and {other_names}, but no "
            "metric; evaluate both on the same kind of items."
        )
    return found


def check_comparable(
    other: StoredResults,
    boards: Sequence[Board],
    samples: int,
    seed: int,
    *,
    rated: Collection[str] | None = None,
) -> None:
    """Refuses a model with which `compare` could not compare an evaluation still to be made.

    `samples` and `seed` are those of its correlations, of the tasks `rated`; None for all.

    Raises:
      UserError: labels or draws differ, or there is no board that both have.
    """
    theirs = {board.name: board for board in other.results}
    _check_shared([board.name for board in boards], list(theirs))
    for board in boards:
        if board.name not in theirs:
            continue
        result = theirs[board.name]
        _check_labels(board, result)
        for task in board.graded:
            if task in result.correlations and (rated is None or task in rated):
                drawn = len(result.correlations[task].samples)
                _check_draw(f"{board.name}/{task}", (seed, samples), (other.seed, drawn))


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
    """Returns a Markdown table of two models with a row per metric, and how to read it."""
    rows = [["Metric", name, other, "difference", "95 % interval", "separable"]]
    for tag, each in differences.items():
        interval = "-"
        if not math.isnan(each.low):
            interval = f"{_format(tag, each.low, '+')} to {_format(tag, each.high, '+')}"
        numbers = _format(tag, each.value), _format(tag, each.other)
        signed = _format(tag, each.difference, "+")
        rows.append([tag, *numbers, signed, interval, "yes" if each.separable else "no"])
    separable = sum(each.separable for each in differences.values())
    return (
        f"## {name} against {other}\n\n{format_table(rows)}\n\n"
        f"{separable} of {len(differences)} differences are separable from noise: 0 lies outside "
        f"of the 95 % interval. {_HOW_TO_READ}\n"
    )


def _pair_boards(ours: BoardResult, theirs: BoardResult) -> tuple[BoardResult, BoardResult]:
    """Both boards, with the tasks that both have and their queries in the order of ours.

    Resamples depend on the images that tasks ask about, so a task of one side must not count.
    """
    _check_labels(ours, theirs)
    tasks = {name: task for name, task in ours.tasks.items() if name in theirs.tasks}
    aligned = {
        name: _align(f"{ours.name}/{name}", task, theirs.tasks[name])
        for name, task in tasks.items()
    }
    shared = [name for name in ours.correlations if name in theirs.correlations]
    correlations, others = (
        {name: each.correlations[name] for name in shared} for each in (ours, theirs)
    )
    return (
        dataclasses.replace(ours, tasks=tasks, correlations=correlations),
        dataclasses.replace(theirs, tasks=aligned, correlations=others),
    )


def _check_shared(names: Sequence[str], others: Sequence[str]) -> None:
    if not set(names) & set(others):
        raise UserError(
            f"The two evaluations have no metric in common: boards {list(names)} against "
            f"{list(others)}; evaluate both on the same boards."
        )


def _check_labels(ours: Board | BoardResult, theirs: BoardResult) -> None:
    if ours.label_hash != theirs.label_hash:
        raise UserError(
            f"The labels of board {ours.name} differ: {ours.label_hash} against "
            f"{theirs.label_hash}; evaluate both models with the same annotations and split."
        )


def _check_draw(place: str, ours: tuple[int, int], theirs: tuple[int, int]) -> None:
    """Refuses draws of another seed or number, both given as (seed, samples)."""
    if ours != theirs:
        raise UserError(
            f"The samples of {place} are of other pairs: seed {ours[0]} and {ours[1]} samples "
            f"against seed {theirs[0]} and {theirs[1]} samples; evaluate both models with the "
            "same seed and number of samples."
        )


def _align(place: str, ours: TaskResult, theirs: TaskResult) -> TaskResult:
    """Their task with its queries in the order of ours."""
    order, other_order = (np.argsort(task.query_ids, kind="stable") for task in (ours, theirs))
    if not np.array_equal(ours.query_ids[order], theirs.query_ids[other_order]):
        only = np.setxor1d(ours.query_ids, theirs.query_ids)
        example = f", id {only[0]} for one is asked on one side only" if len(only) else ""
        raise UserError(
            f"The queries of {place} differ: {len(ours.query_ids)} against "
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
        tied=None if theirs.tied is None else theirs.tied[rows],
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
        _check_draw(f"{board.name}/{name}", *draws)
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


def _format(tag: str, value: float, sign: str = "") -> str:
    if math.isnan(value):
        return "-"
    return f"{value:{sign}.{0 if tag.endswith(MEDIAN_RANK) else 2}f}"

"""The report of an evaluation: warnings, tables, and the facts behind the numbers."""

import math
from collections.abc import Mapping, Sequence

from xmodal.core.text_table import Rows, format_document
from xmodal.evals.reports.benchmark_tables import METRIC_NAMES, BenchmarkTables
from xmodal.evals.reports.results import BenchmarkResult, Numbers
from xmodal.evals.reports.summary import find_chance_results


def format_report(
    model: str,
    metrics: Mapping[str, float],
    *,
    title: str,
    benchmarks: Sequence[BenchmarkResult] = (),
    numbers: Sequence[Numbers] = (),
    warnings: Sequence[str] = (),
    notes: Sequence[str] = (),
    examples: Sequence[str] = (),
    chance: Mapping[str, float] | None = None,
    format: str = "markdown",
) -> str:
    """Returns a summary, the tables of every benchmark, and the facts behind their numbers.

    Markdown is aligned to be readable in a terminal too. In LaTeX, a number is bold if it is the
    best of its column or the interval of the model does not separate both.

    Args:
      model: name of our row.
      metrics: metrics by tag; `_low` and `_high` of a tag are its 95 % interval.
      title: heading, naming dataset and split.
      benchmarks: their definitions, labels and missing parts. The papers' rows are shown for
        benchmarks with the published labels.
      numbers: results without benchmarks; each has its own table.
      warnings: shown in bold at the top.
      notes: other facts, below the warnings.
      examples: lines of the last section.
      chance: values of a random order or a guess, by tag.
      format: "markdown" or "latex", see `text_table.format_document`.

    Raises:
      UserError: the format is unknown.
    """
    tables = BenchmarkTables(model, metrics, chance or {}, benchmarks, numbers)
    warnings = [*warnings, *_find_warnings(metrics, benchmarks, chance or {})]
    sections: list[str | Rows] = [f"# {title}", *(f"**{warning}**" for warning in warnings)]
    sections += tables.make_summary()
    sections += notes
    for name in tables.names:
        sections += tables.make_benchmark(name)
    for each in numbers:
        sections += [f"## {each.name}", each.definition, _make_numbers(model, each)]
    if facts := tables.make_facts():
        sections += ["## Behind the numbers", *facts]
    if examples:
        sections += ["## Examples", "\n".join(examples)]
    return format_document(sections, format)


def _find_warnings(
    metrics: Mapping[str, float], benchmarks: Sequence[BenchmarkResult], chance: Mapping[str, float]
) -> list[str]:
    """Warnings of ties, of rounding that decides ranks, and of metrics that chance reaches."""
    tied = [
        f"{tag.rpartition('/')[0]} {number:,.0f} of {queries:,.0f}".strip()
        for tag, number in metrics.items()
        if tag.endswith("tied_queries")
        and number > (queries := metrics[tag.replace("tied_queries", "queries")]) / 2
    ]
    rounded = [
        f"{benchmark.name}/{name} {each.rounded:.0%}"
        for benchmark in benchmarks
        for name, each in benchmark.directions.items()
        if each.rounded > 0.01
    ]
    guessed: dict[str, list[str]] = {}
    for tag in find_chance_results(metrics, chance):
        table, _, metric = tag.rpartition("/")
        guessed.setdefault(table, []).append(METRIC_NAMES.get(metric, metric))
    by_table = [f"{table} {', '.join(names)}".strip() for table, names in guessed.items()]
    warnings = [
        (tied, "MOST QUERIES ARE TIED: {}; the order of the items decides."),
        (
            rounded,
            "ROUNDING DECIDES RANKS: {}, by less than float32 can tell; rank in float64, with "
            "--precision=float64 or the evaluator's `precision`.",
        ),
        (by_table, "NOT BETTER THAN CHANCE, or not separable from it: {}."),
    ]
    return [text.replace("{}", "; ".join(listed)) for listed, text in warnings if listed]


def _make_numbers(model: str, numbers: Numbers) -> Rows:
    """A table with one row per tag prefix before the last slash and one column per metric.

    Metrics without a prefix are the model's row; else its name heads the column of prefixes.
    """
    metrics = numbers.metrics
    rows: dict[str, dict[str, str]] = {}
    for tag in metrics:
        base, _, end = tag.rpartition("_")
        if end not in ("std", "low", "high") or base not in metrics:
            name, _, metric = tag.rpartition("/")
            rows.setdefault(name, {})[metric] = _format_number(tag, metrics)
    columns = list(dict.fromkeys(metric for cells in rows.values() for metric in cells))
    guessed: dict[str, dict[str, str]] = {}
    for tag, value in numbers.chance.items():
        name, _, metric = tag.rpartition("/")
        guessed.setdefault(name, {})[metric] = f"{value:.3g}"
    if guessed and all(cells == next(iter(guessed.values())) for cells in guessed.values()):
        guessed = {"": next(iter(guessed.values()))}
    rows |= {f"chance {name}".strip(): cells for name, cells in guessed.items()}
    body = [
        [name or model, *(cells.get(metric, "") for metric in columns)]
        for name, cells in rows.items()
    ]
    return [["" if "" in rows else model, *columns], *body]


def _format_number(tag: str, metrics: Mapping[str, float]) -> str:
    """A number with its deviation or interval."""
    value = metrics[tag]
    low, high = (metrics.get(f"{tag}_{end}", math.nan) for end in ("low", "high"))
    if math.isnan(value):
        return "-"
    if f"{tag}_std" in metrics:
        return f"{value:.6g} ± {metrics[f'{tag}_std']:.3g}"
    if math.isnan(low):
        return f"{value:.6g}"
    digits = 1 if "accuracy" in tag.rpartition("/")[2] else 3  # In percent, unlike correlations.
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"

"""The report of an evaluation: warnings, tables beside the papers' rows, and facts behind them."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from xmodal.core.text_table import Bold, Rows, format_document, format_number
from xmodal.evals.labels.definitions import RATING_SIDES, find_title
from xmodal.evals.reports.metrics import find_best, lower_is_better
from xmodal.evals.reports.published import PUBLISHED_LABELS, eccv_table_4, published_numbers
from xmodal.evals.reports.results import (
    METRIC_NAMES,
    RSUM,
    Result,
    metric_tag,
    name_labels,
    name_metric,
)

if TYPE_CHECKING:
    from xmodal.evals.reports.evaluation import Evaluation

Section = str | Rows

_DIGITS = 16  # Digits of a hash in the report; benchmarks.json has all of them.
ARROWS = {"i2t": "I→T", "t2i": "T→I", "t2t": "T→T", "i2i": "I→I"}
_NOT_PUBLISHED = (
    "The items or labels are not those of the published test split, so no published rows are shown."
)
_ON_CORRELATIONS = (
    "A correlation and its ± are mean and deviation of the protocol's samples, half of the rated "
    "queries with one pair each. Its interval is that of the mean and treats the images as a "
    "random sample."
)
# Columns of the summary, and their tags within a benchmark.
_SUMMARY = {
    **{f"{arrow} R@1": f"{direction}/recall@1" for direction, arrow in ARROWS.items()},
    RSUM: RSUM,
    "mAP": "mean/map",
    "mAP@R": "mean/map@r",
    "nDCG@10": "mean/ndcg@10",
    "PMRP": "mean",
    **{rating.upper(): f"{rating}/spearman" for rating in RATING_SIDES},
}
# Table 4 of the ECCV Caption paper: means of both directions. Its CxC column uses the labels of the
# eccv_caption library, and its 1K column is meant to be the mean over folds.
_ECCV_CAPTION_TABLE = {
    "eccv/mean/map@r": "ECCV mAP@R",
    "eccv/mean/r_precision": "R-P",
    "eccv/mean/recall@1": "R@1",
    "cxc_sits_only/mean/recall@1": "CxC R@1",
    "coco1k/mean/recall@1": "1K R@1",
    "coco5k/mean/recall@1": "5K R@1",
    "pmrp/mean": "PMRP",
}


def format_report(evaluation: "Evaluation", format: str = "markdown") -> str:
    """Returns a summary, the tables of every result, and the facts behind their numbers.

    Markdown is aligned to be readable in a terminal too. In LaTeX, a number is bold if it is the
    best of its column or the interval of the model does not separate both. The papers' rows are
    shown for benchmarks with the published labels.

    Args:
      evaluation: results of a model.
      format: "markdown" or "latex", see `text_table.format_document`.
    """
    provenance, results = evaluation.provenance, evaluation.results
    title = ": ".join(filter(None, (provenance.title, evaluation.evaluator)))
    warnings = [*provenance.warnings, *_find_warnings(evaluation)]
    sections: list[Section] = [f"# {title}", *(f"**{each}**" for each in warnings)]
    sections += _make_summary(evaluation)
    sections += _make_notes(evaluation)
    for benchmark in evaluation.benchmarks:
        sections += _make_benchmark(evaluation, benchmark)
    for each in results:
        if each.metrics:
            table = _make_numbers(evaluation.name, each)
            sections += [f"## {each.name}", each.definition, table]
    if evaluation.benchmarks:
        sections.append("## Behind the numbers")
    for benchmark in evaluation.benchmarks:
        sections += _make_facts(benchmark)
    return format_document(sections, format)


def _find_warnings(evaluation: "Evaluation") -> list[str]:
    """Warnings of ties, of rounding that decides ranks, and of metrics that chance reaches."""
    metrics = evaluation.metrics
    tied = [
        f"{tag.rpartition('/')[0]} {number:,.0f} of {queries:,.0f}".strip()
        for tag, number in metrics.items()
        if tag.endswith("tied_queries")
        and number > (queries := metrics[tag.replace("tied_queries", "queries")]) / 2
    ]
    rounded = [
        f"{benchmark.name}/{name} {each.rounded:.0%}"
        for benchmark in evaluation.results
        for name, each in benchmark.directions.items()
        if each.rounded > 0.01
    ]
    guessed: dict[str, list[str]] = {}
    for tag, chance in evaluation.chance.items():
        low, high = (metrics.get(f"{tag}_{end}", math.nan) for end in ("low", "high"))
        # Where chance is perfect, as R@10 among ten items, no model can be better.
        is_reached = low <= chance < (600 if tag.endswith(RSUM) else 100)
        if 1 < chance <= high if lower_is_better(tag) else is_reached:
            table, _, metric = tag.rpartition("/")
            guessed.setdefault(table, []).append(name_metric(metric))
    by_table = [f"{table} {', '.join(names)}".strip() for table, names in guessed.items()]
    warnings = {
        "MOST QUERIES ARE TIED: {}; the order of the items decides.": tied,
        "ROUNDING DECIDES RANKS: {}, by less than float32 can tell; rank in float64, with "
        "--precision=float64 or the evaluator's `precision`.": rounded,
        "NOT BETTER THAN CHANCE, or not separable from it: {}.": by_table,
    }
    return [text.replace("{}", "; ".join(listed)) for text, listed in warnings.items() if listed]


def _make_notes(evaluation: "Evaluation") -> list[str]:
    """How the numbers were computed, and on which records."""
    benchmarks, provenance = evaluation.benchmarks, evaluation.provenance
    intervals = (
        f" Intervals: 95 %, from {evaluation.samples:,} bootstrap samples of the images; seed "
        f"{evaluation.seed}."
    )
    notes = [f"Similarity: {evaluation.similarity}." + intervals * bool(benchmarks)]
    notes += [
        f"{benchmark.name}/{direction}: {each.rescored.description}."
        for benchmark in benchmarks
        for direction, each in benchmark.directions.items()
        if each.rescored is not None
    ]
    notes += [_ON_CORRELATIONS] * any(each.correlations for each in benchmarks)
    notes += provenance.notes
    records = {"Evaluated": provenance.records, "Trained on": evaluation.trained_on}
    for verb, hashes in records.items():
        named = [f"{name} `{digits[:_DIGITS]}`" for name, digits in hashes.items()]
        notes += [f"{verb}: {', '.join(named)} (hash of the records)."] * bool(named)
    return notes


def _make_summary(evaluation: "Evaluation") -> list[Section]:
    """One table of the model's main numbers, a row per benchmark."""
    metrics, names = evaluation.metrics, [each.name for each in evaluation.benchmarks]
    columns = {
        header: tag
        for header, tag in _SUMMARY.items()
        if any(f"{name}/{tag}" in metrics for name in names)
    }
    cells = ([_cell(metrics, f"{name}/{tag}") for tag in columns.values()] for name in names)
    titles = [name_labels(each.name, each.label_set) for each in evaluation.benchmarks]
    shown = [[title, *row] for title, row in zip(titles, cells, strict=True) if {*row} - {"-"}]
    return [[[evaluation.name, *columns], *shown]] if columns else []


def _make_benchmark(evaluation: "Evaluation", benchmark: Result) -> list[Section]:
    """The heading and tables of a benchmark, with published rows if its labels are those."""
    name, metrics = benchmark.name, evaluation.metrics
    is_comparable = _is_published(benchmark)
    sections: list[Section] = [f"## {name_benchmark(benchmark)}"]
    sections += [_NOT_PUBLISHED] * (name in PUBLISHED_LABELS and not is_comparable)
    # The ECCV Caption paper prints two decimals, since its differences are small.
    decimals = 2 if name == "eccv" or name.startswith("pmrp") else 1
    if "eccv/mean/map@r" in metrics and name == "eccv":
        known = {each.name for each in evaluation.benchmarks if _is_published(each)}
        columns = {tag: x for tag, x in _ECCV_CAPTION_TABLE.items() if tag in metrics}
        printed = {
            each: {tag: x for tag, x in row.items() if tag.partition("/")[0] in known}
            for each, row in eccv_table_4().items()
        }
        sections.append(_make_table(evaluation, "Mean of I→T, T→I", columns, printed, decimals))
    printed = published_numbers()[name] if is_comparable else {}
    tables = []
    for directions in (("i2t", "t2i"), ("t2t", "i2i")):
        columns = {}
        for direction in directions:
            arrow = f"{ARROWS[direction]} "
            found = benchmark.directions.get(direction)
            for metric in dict.fromkeys((*METRIC_NAMES, *(found.values if found else ()))):
                if (tag := metric_tag(name, direction, metric)) in metrics:
                    columns[tag], arrow = arrow + name_metric(metric), ""
        if "i2t" in directions and f"{name}/{RSUM}" in metrics:
            columns[f"{name}/{RSUM}"] = RSUM
        tables.append(("Retrieval", columns))
    rated = {f"{name}/{each}/spearman": each.upper() for each in benchmark.correlations}
    tables.append(("Spearman x100", rated))
    shown = [_make_table(evaluation, *each, printed, decimals) for each in tables if each[1]]
    return [*sections, *shown] if shown else []


def name_benchmark(result: Result) -> str:
    """Returns the heading of a result."""
    name, title = result.name, find_title(result.name)
    if not title or (name in PUBLISHED_LABELS and not _is_published(result)):
        return name_labels(name, result.label_set)
    return f"{title} ({name})"


def _is_published(benchmark: Result) -> bool:
    return benchmark.label_hash == PUBLISHED_LABELS.get(benchmark.name)


def _make_table(
    evaluation: "Evaluation",
    head: str,
    columns: Mapping[str, str],
    published: Mapping[str, Mapping[str, float]],
    decimals: int,
) -> Rows:
    """Our row, its intervals and chance, then published rows with any of the columns.

    Args:
      evaluation: gives our row.
      head: header of the first column.
      columns: tag -> header.
      published: row -> tag -> number.
      decimals: digits of our numbers.
    """
    metrics = evaluation.metrics
    rows: list[tuple[str, Mapping[str, float], int]] = [(evaluation.name, metrics, decimals)]
    for name, row in published.items():
        if known := [row[tag] for tag in columns if tag in row]:
            # With one decimal, if its source has no more.
            rows.append((name, row, 1 if all(round(x, 1) == x for x in known) else decimals))
    best = zip(*(find_best(tag, [row for _, row, _ in rows]) for tag in columns), strict=True)
    body = []
    for (name, row, digits), marks in zip(rows, best, strict=True):
        cells = zip((_cell(row, tag, digits) for tag in columns), marks, strict=True)
        body.append([name, *(Bold(cell) if is_best else cell for cell, is_best in cells)])
    below = [["  95 % interval"], ["  chance"]]
    for tag in columns:
        limits = [_format(metrics.get(f"{tag}_{end}"), tag, decimals) for end in ("low", "high")]
        below[0].append("-" if "-" in limits else f"[{', '.join(limits)}]")
        chance = evaluation.chance.get(tag, math.nan)
        # Two digits of chance, if it would round to less.
        least = 1 - math.floor(math.log10(chance)) if 0 < chance < 1 else 0
        below[1].append(_format(chance, tag, max(decimals, least)))
    shown = [row for row in below if set(row[1:]) != {"-"}]
    return [[head, *columns.values()], body[0], *shown, *body[1:]]


def _make_numbers(model: str, numbers: Result) -> Rows:
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
        guessed.setdefault(f"chance {name}".strip(), {})[metric] = f"{value:.3g}"
    first = next(iter(guessed.values()), {})
    if guessed and all(cells == first for cells in guessed.values()):
        guessed = {"chance": first}
    body = [
        [name or model, *(cells.get(metric, "") for metric in columns)]
        for name, cells in (rows | guessed).items()
    ]
    return [["" if "" in rows else model, *columns], *body]


def _make_facts(benchmark: Result) -> list[Section]:
    """The definition, labels, counts and missing parts of a benchmark."""
    ranked = [["Behind the ranks", "queries", "gallery", "skipped", "tied"]]
    rated = [["Behind the correlations", "pairs", "pairs per sample"]]
    lacking: dict[str, list[str]] = {}
    for direction_or_rating, reason in benchmark.skipped.items():
        lacking.setdefault(reason, []).append(direction_or_rating)
    for name, direction in benchmark.directions.items():
        counts = direction.counts.values()
        ranked.append([ARROWS[name], *("-" if x is None else f"{x:,}" for x in counts)])
        for metric, reason in direction.missing.items():
            lacking.setdefault(reason, []).append(f"{name} {metric}")
    for name, each in benchmark.correlations.items():
        rated.append([name.upper(), f"{len(each.influence):,}", f"{each.pairs_per_sample:,}"])
    reasons = [f"- Without {', '.join(x)}: {why.rstrip('.')}." for why, x in lacking.items()]
    facts: list[Section] = [f"### {name_labels(benchmark.name, benchmark.label_set)}"]
    facts.append(f"{benchmark.definition} Labels `{benchmark.label_hash}`.".strip())
    facts += [rows for rows in (ranked, rated) if len(rows) > 1]
    return facts + ["\n".join(reasons)] * bool(reasons)


def _format_number(tag: str, metrics: Mapping[str, float]) -> str:
    """A number with its deviation or interval."""
    value = metrics[tag]
    low, high = (metrics.get(f"{tag}_{end}", math.nan) for end in ("low", "high"))
    if math.isnan(value):
        return "-"
    if math.isnan(low):
        deviation = f" ± {metrics[f'{tag}_std']:.3g}" if f"{tag}_std" in metrics else ""
        return f"{value:.6g}{deviation}"
    digits = 1 if "accuracy" in tag.rpartition("/")[2] else 3  # In percent, unlike correlations.
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def _cell(metrics: Mapping[str, float], tag: str, decimals: int = 1) -> str:
    """A value with its deviation; "-" for one that is missing or undefined."""
    text = _format(metrics.get(tag), tag, decimals)
    if text != "-" and f"{tag}_std" in metrics:
        text += f" ± {metrics[f'{tag}_std']:.{decimals}f}"
    return text


def _format(value: float | None, tag: str, decimals: int) -> str:
    return format_number(value, f".{0 if tag.endswith('/median_rank') else decimals}f")

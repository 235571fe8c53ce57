"""The charts of a report and its page, in which the tables are folded."""

import html
import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from xmodal.core.charts import Bar, Bars, Chart, Lines, histogram_line
from xmodal.core.page import Page, from_markdown
from xmodal.evals.reports.confusions import chart_classes
from xmodal.evals.reports.report import ARROWS, name_benchmark
from xmodal.evals.reports.results import Result, metric_tag, name_metric

if TYPE_CHECKING:
    from xmodal.evals.reports.evaluation import Evaluation

_SCORES = 25  # Bins of scores.
_HOW_TO_READ = "Line: 95 % interval. Dashed: a random order or a guess."
_POINTS = 200  # Of a curve; longer ones show means of neighboring steps.


def make_page(evaluation: "Evaluation", text: str, shown: str = "") -> Page:
    """Returns the page of a report: warnings, charts, and the folded tables.

    Args:
      evaluation: its results.
      text: its report in Markdown.
      shown: Markdown after the charts that is not folded.
    """
    title, *blocks = text.split("\n\n")
    warnings = [*itertools.takewhile(lambda block: block.startswith("**"), blocks)]
    folded = from_markdown("\n\n".join([title, *blocks[len(warnings) :]]))
    body = from_markdown("\n\n".join([title, *warnings])).body
    for heading, charts in make_charts(evaluation).items():
        drawn = "".join(chart.to_html() for chart in charts)
        body += f'\n<h2>{html.escape(heading)}</h2>\n<div class="charts">\n{drawn}</div>\n'
    body += from_markdown(f"\n{shown}").body
    body += f"\n<details>\n<summary>Tables and definitions</summary>\n{folded.body}\n</details>\n"
    return Page(folded.title, evaluation.groups, [evaluation.name], body)


def make_charts(evaluation: "Evaluation") -> dict[str, list[Chart]]:
    """Returns the charts of every result by its heading, and the curves of training."""
    found: dict[str, list[Chart]] = {}
    for result in evaluation.results:
        charts = [*_chart_metrics(evaluation, result), *_chart_ranks(result)]
        for tag, (positive, other) in evaluation.similarities.items():
            name, _, direction = tag.rpartition("/")
            if name == result.name:
                charts.append(_chart_scores(direction, positive, other))
        found[name_benchmark(result)] = charts + chart_classes(result)
    found["Predicted uncertainty"] = [*evaluation.charts]
    found["Training"] = [
        Lines(title, {title: _shorten(np.asarray(points))}, "step")
        for title, points in evaluation.curves.items()
        if len(points) > 1
    ]
    return {heading: charts for heading, charts in found.items() if charts}


def _chart_metrics(evaluation: "Evaluation", result: Result) -> list[Chart]:
    """A bar for every metric in percent of every direction, and every number with an interval."""
    metrics, bars, unknown = evaluation.metrics, list[Bar](), math.nan
    tags = {
        metric_tag(result.name, name, metric): (f"{ARROWS[name]} {name_metric(metric)}", color)
        for color, name in enumerate(ARROWS)
        for metric in getattr(result.directions.get(name), "values", ())
    }
    rated = {f"{result.name}/{x}/spearman": f"Spearman {x.upper()}" for x in result.correlations}
    short = {tag: tag.removesuffix("_accuracy").replace("_", " ") for tag in result.metrics}
    plain = {tag: label for tag, label in short.items() if f"{tag}_low" in metrics}
    tags |= {tag: (label, 4) for tag, label in (rated | plain).items()}
    for tag, (label, color) in tags.items():
        low, high = (metrics.get(f"{tag}_{end}", unknown) for end in ("low", "high"))
        chance = evaluation.chance.get(tag, unknown)
        bars.append(Bar(label, metrics[tag], low, high, chance, color))
    return [Bars("Metrics", bars, _HOW_TO_READ)] if bars else []


def _chart_ranks(result: Result) -> list[Chart]:
    """The shares of queries whose best positive has rank 1, 2, 3 to 4, 5 to 8 and so on."""
    bins = {
        ARROWS[name]: np.ceil(np.log2(each.rank + 1.0)).astype(int)
        for name, each in result.directions.items()
        if each.rank is not None and len(each.rank)
    }
    count = 1 + max((int(each.max()) for each in bins.values()), default=-1)
    lines = {
        name: histogram_line(range(count + 1), 100 * np.bincount(each, minlength=count) / len(each))
        for name, each in bins.items()
    }
    labels = {n + 0.5: f"{2**n:,}" for n in range(0, count, 1 + count // 8)}
    title = "Queries by rank (%)"
    return [Lines(title, lines, "rank of the best positive, up to", labels)] if lines else []


def _chart_scores(direction: str, positive: np.ndarray, other: np.ndarray) -> Chart:
    """The shares of positives and of other pairs by their score."""
    edges, lines = np.histogram_bin_edges(np.concatenate([positive, other]), _SCORES), {}
    for name, each in (("positives", positive), ("other pairs", other)):
        lines[name] = histogram_line(edges, 100 * np.histogram(each, edges)[0] / max(len(each), 1))
    return Lines(f"{ARROWS[direction]} pairs by score (%)", lines, "score")


def _shorten(points: np.ndarray) -> list[tuple[float, float]]:
    """The points [N, 2] of a curve, or means of neighboring ones."""
    points = points[np.isfinite(points).all(axis=1)]
    parts = np.array_split(points, min(len(points), _POINTS) or 1)
    return [tuple(part.mean(axis=0).tolist()) for part in parts if len(part)]

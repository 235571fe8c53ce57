"""The tables of benchmarks in a report: our rows beside the papers', and the counts behind them."""

import math
from collections.abc import Mapping, Sequence

from xmodal.core.text_table import Bold, Rows
from xmodal.evals.labels.definitions import DIRECTIONS, RATING_SIDES
from xmodal.evals.reports.best_values import find_best
from xmodal.evals.reports.published import PUBLISHED_LABELS, eccv_table_4, published_numbers
from xmodal.evals.reports.results import RSUM, BenchmarkResult, Numbers, metric_tag

_ARROWS = {"i2t": "I→T", "t2i": "T→I", "t2t": "T→T", "i2i": "I→I"}
_TITLES = {
    "captioned_images": "Own pictures and captions",
    "coco5k": "MS-COCO 5K",
    "coco1k": "MS-COCO 1K, mean of five folds",
    "cxc": "Crisscrossed Captions",
    "cxc_sits_only": "Crisscrossed Captions, positives of SITS only",
    "eccv": "ECCV Caption",
    "pmrp": "Plausible matches, R-Precision",
    "pmrp_zeta0": "Plausible matches of equal categories, R-Precision",
    "pmrp_pcme": "Plausible matches as in PCME, R-Precision",
    "pmrp_pcme_1k": "Plausible matches as in PCME, R-Precision in five folds",
    "vinvl_1k": "MS-COCO 1K, the list of Oscar and VinVL",
}
METRIC_NAMES = {
    "map@r": "mAP@R",
    "r_precision": "R-P",
    "recall@1": "R@1",
    "recall@5": "R@5",
    "recall@10": "R@10",
    "mrr": "MRR",
    "median_rank": "med r",
    "pmrp": "PMRP",
}
_NOT_PUBLISHED = (
    "The items or labels are not those of the published test split, so no published rows are shown."
)
_TABLES = ("i2t", "t2i"), ("t2t", "i2i")
# Columns of the summary, and their tags within a benchmark.
_SUMMARY = {
    **{f"{arrow} R@1": f"{direction}/recall@1" for direction, arrow in _ARROWS.items()},
    RSUM: RSUM,
    "mAP@R": "mean/map@r",
    "PMRP": "mean",
    **{rating.upper(): f"{rating}/spearman" for rating in RATING_SIDES},
}
_COUNTS = ("queries", "gallery", "skipped_queries", "tied_queries")


Table = Mapping[str, Mapping[str, float]]  # Row -> tag -> number.
Columns = Mapping[str, str]  # Tag -> header.

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


class BenchmarkTables:
    """The tables of a model's benchmarks; `names` are those of the benchmarks."""

    def __init__(
        self,
        model: str,
        metrics: Mapping[str, float],
        chance: Mapping[str, float],
        benchmarks: Sequence[BenchmarkResult],
        numbers: Sequence[Numbers],
    ) -> None:
        self._model, self._chance = model, chance
        plain = {tag for each in numbers for tag in each.metrics}
        self._metrics = {tag: x for tag, x in metrics.items() if tag not in plain}
        self.names = list(dict.fromkeys(t.partition("/")[0] for t in self._metrics if "/" in t))
        self._benchmarks = {benchmark.name: benchmark for benchmark in benchmarks}
        self._comparable = {
            name
            for name, benchmark in self._benchmarks.items()
            if benchmark.label_hash == PUBLISHED_LABELS.get(name)
        }

    def make_summary(self) -> list[str | Rows]:
        """One table of the model's main numbers, a row per benchmark."""
        columns = {
            header: tag
            for header, tag in _SUMMARY.items()
            if any(f"{benchmark}/{tag}" in self._metrics for benchmark in self.names)
        }
        rows = [
            [benchmark, *(_cell(self._metrics, f"{benchmark}/{tag}") for tag in columns.values())]
            for benchmark in self.names
        ]
        shown = [row for row in rows if set(row[1:]) - {"-"}]
        return [[[self._model, *columns], *shown]] if rows else []

    def make_benchmark(self, name: str) -> list[str | Rows]:
        """The heading and tables of a benchmark, with published rows if its labels are those."""
        rated = [t for t in self._metrics if t.startswith(f"{name}/") and t.endswith("/spearman")]
        layouts = [("Retrieval", self._retrieval_columns(name, each)) for each in _TABLES]
        layouts.append(("Spearman x100", {tag: tag.split("/")[1].upper() for tag in rated}))
        is_comparable = name in self._comparable
        if name in PUBLISHED_LABELS and not is_comparable:
            sections: list[str | Rows] = [f"## {name}", _NOT_PUBLISHED]
        else:
            sections = [f"## {_TITLES[name]} ({name})" if name in _TITLES else f"## {name}"]
        # The ECCV Caption paper prints two decimals, since its differences are small.
        decimals = 2 if name == "eccv" or name.startswith("pmrp") else 1
        if name == "eccv" and "eccv/mean/map@r" in self._metrics:
            columns = {tag: x for tag, x in _ECCV_CAPTION_TABLE.items() if tag in self._metrics}
            printed = {
                each: {
                    tag: x for tag, x in row.items() if tag.partition("/")[0] in self._comparable
                }
                for each, row in eccv_table_4().items()
            }
            sections.append(self._make_table("Mean of I→T, T→I", columns, printed, decimals))
        of_papers = published_numbers()[name] if is_comparable else {}
        tables = [self._make_table(*each, of_papers, decimals) for each in layouts if each[1]]
        return [*sections, *tables] if tables else []

    def make_facts(self) -> list[str | Rows]:
        """The definition, labels, counts and missing parts of every benchmark."""
        facts: list[str | Rows] = []
        for name in dict.fromkeys([*self._benchmarks, *self.names]):
            lines: list[str | Rows] = [*self._make_counts(name)]
            if benchmark := self._benchmarks.get(name):
                lines.insert(0, f"{benchmark.definition} Labels `{benchmark.label_hash}`.".strip())
                lines.append(_reasons(benchmark))
            if any(lines):
                facts += [f"### {name}", *filter(None, lines)]
        return facts

    def _retrieval_columns(self, benchmark: str, directions: Sequence[str]) -> Columns:
        columns = {}
        for direction in directions:
            arrow = f"{_ARROWS[direction]} "
            for metric, name in METRIC_NAMES.items():
                if (tag := metric_tag(benchmark, direction, metric)) in self._metrics:
                    columns[tag], arrow = arrow + name, ""
        if directions == _TABLES[0] and f"{benchmark}/{RSUM}" in self._metrics:
            columns[f"{benchmark}/{RSUM}"] = RSUM
        return columns

    def _make_table(self, head: str, columns: Columns, published: Table, decimals: int) -> Rows:
        """Our row, its intervals and chance, then published rows with any of the columns."""
        metrics = self._metrics
        best, *others = zip(
            *(find_best(tag, [metrics, *published.values()]) for tag in columns), strict=True
        )
        limits = [[_cell(metrics, f"{t}_{x}", _decimals(t, decimals)) for x in ("low", "high")]
                  for t in columns]  # fmt: skip
        body = [
            _cells(self._model, metrics, columns, decimals, best),
            ["  95 % interval", *("-" if "-" in x else f"[{', '.join(x)}]" for x in limits)],
            ["  chance", *(self._format_chance(tag, decimals) for tag in columns)],
        ]
        for (name, printed), bold in zip(published.items(), others, strict=True):
            # With one decimal, if its source has no more.
            known = [printed[tag] for tag in columns if tag in printed]
            most = 1 if all(round(x, 1) == x for x in known) else 2
            body.append(_cells(name, printed, columns, min(decimals, most), bold))
        shown = [row for row in body[1:] if set(row[1:]) != {"-"}]
        return [[head, *columns.values()], body[0], *shown]

    def _format_chance(self, tag: str, decimals: int) -> str:
        """The value of chance, with two digits if it would round to less."""
        value = self._chance.get(tag, math.nan)
        digits = 1 - math.floor(math.log10(value)) if 0 < value < 1 else 0
        return _format(value, max(_decimals(tag, decimals), digits))

    def _make_counts(self, benchmark: str) -> list[Rows]:
        """The counts behind the numbers of a benchmark: queries, galleries, ties, pairs."""
        retrieval = [["Behind the ranks", "queries", "gallery", "skipped", "tied"]]
        rated = [["Behind the correlations", "pairs", "pairs per sample"]]
        for direction in DIRECTIONS:
            tags = [f"{benchmark}/{direction}/{count}" for count in _COUNTS]
            if tags[0] in self._metrics:
                retrieval.append([_ARROWS[direction], *map(self._count, tags)])
        for tag in self._metrics:
            if tag.startswith(f"{benchmark}/") and tag.endswith("/pairs"):
                counts = map(self._count, (tag, f"{tag}_per_sample"))
                rated.append([tag.split("/")[1].upper(), *counts])
        return [rows for rows in (retrieval, rated) if len(rows) > 1]

    def _count(self, tag: str) -> str:
        return f"{self._metrics[tag]:,.0f}" if tag in self._metrics else "-"


def _reasons(benchmark: BenchmarkResult) -> str:
    """The parts that could not be computed, as a list by reason."""
    lacking: dict[str, list[str]] = {}
    for direction, reason in benchmark.skipped.items():
        lacking.setdefault(reason, []).append(direction)
    for direction, result in benchmark.directions.items():
        for metric, reason in result.missing.items():
            lacking.setdefault(reason, []).append(f"{direction} {metric}")
    return "\n".join(
        f"- Without {', '.join(parts)}: {why.rstrip('.')}." for why, parts in lacking.items()
    )


def _cells(
    name: str, metrics: Mapping[str, float], columns: Columns, decimals: int, best: Sequence[bool]
) -> list[str]:
    """A row; the values that are the best or not separable from it are in bold."""
    cells = [_cell(metrics, tag, decimals) for tag in columns]
    return [name, *(Bold(x) if is_best else x for x, is_best in zip(cells, best, strict=True))]


def _cell(metrics: Mapping[str, float], tag: str, decimals: int = 1) -> str:
    """A value with its deviation; "-" for one that is missing or undefined."""
    text = _format(metrics.get(tag, math.nan), _decimals(tag, decimals))
    if text != "-" and f"{tag}_std" in metrics:
        text += f" ± {metrics[f'{tag}_std']:.{decimals}f}"
    return text


def _format(value: float, decimals: int) -> str:
    return "-" if math.isnan(value) else f"{value:.{decimals}f}"


def _decimals(tag: str, decimals: int) -> int:
    return 0 if tag.endswith("/median_rank") else decimals

"""The tables of boards in a report: our rows beside the papers', and the counts behind them."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from xmodal.core.text_table import Bold, Rows
from xmodal.evals.labels.definitions import DIRECTIONS, RATING_SIDES
from xmodal.evals.reports.best_values import find_best
from xmodal.evals.reports.published import PUBLISHED_LABELS, eccv_table_4, published_numbers
from xmodal.evals.reports.results import RSUM, BoardResult, Numbers, metric_tag

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
# Columns of the summary, and their tags within a board.
_SUMMARY = {
    **{f"{arrow} R@1": f"{direction}/recall@1" for direction, arrow in _ARROWS.items()},
    RSUM: RSUM,
    "mAP@R": "mean/map@r",
    "PMRP": "mean",
    **{rating.upper(): f"{rating}/spearman" for rating in RATING_SIDES},
}
_COUNTS = ("queries", "gallery", "skipped_queries", "tied_queries")


Table = Mapping[str, Mapping[str, float]]  # Row -> tag -> number.


class _Column(NamedTuple):
    """One metric in a table."""

    header: str
    tag: str
    decimals: int = 1


# Table 4 of the ECCV Caption paper: means of both directions. Its CxC column uses the labels of the
# eccv_caption library, and its 1K column is meant to be the mean over folds.
_ECCV_CAPTION_TABLE = (
    _Column("ECCV mAP@R", "eccv/mean/map@r", 2),
    _Column("R-P", "eccv/mean/r_precision", 2),
    _Column("R@1", "eccv/mean/recall@1", 2),
    _Column("CxC R@1", "cxc_sits_only/mean/recall@1", 2),
    _Column("1K R@1", "coco1k/mean/recall@1", 2),
    _Column("5K R@1", "coco5k/mean/recall@1", 2),
    _Column("PMRP", "pmrp/mean", 2),
)


class BoardTables:
    """The tables of a model's boards; `names` are those of the boards."""

    def __init__(
        self,
        model: str,
        metrics: Mapping[str, float],
        chance: Mapping[str, float],
        boards: Sequence[BoardResult],
        numbers: Sequence[Numbers],
    ) -> None:
        self._model, self._chance = model, chance
        plain = {tag for each in numbers for tag in each.metrics}
        self._metrics = {tag: x for tag, x in metrics.items() if tag not in plain}
        self.names = list(dict.fromkeys(t.partition("/")[0] for t in self._metrics if "/" in t))
        self._boards = {board.name: board for board in boards}
        self._comparable = {
            name
            for name, board in self._boards.items()
            if board.label_hash == PUBLISHED_LABELS.get(name)
        }

    def make_summary(self) -> list[str | Rows]:
        """One table of the model's main numbers, a row per board."""
        columns = {
            header: tag
            for header, tag in _SUMMARY.items()
            if any(f"{board}/{tag}" in self._metrics for board in self.names)
        }
        rows = [
            [board, *(_cell(self._metrics, _Column("", f"{board}/{t}")) for t in columns.values())]
            for board in self.names
        ]
        shown = [row for row in rows if set(row[1:]) - {"-"}]
        return [[[self._model, *columns], *shown]] if rows else []

    def make_board(self, name: str) -> list[str | Rows]:
        """The heading and the tables of a board, with published rows if its labels are those."""
        layouts = [("Retrieval", self._retrieval_columns(name, each)) for each in _TABLES]
        rated = [t for t in self._metrics if t.startswith(f"{name}/") and t.endswith("/spearman")]
        layouts += [("Spearman x100", [_Column(t.split("/")[1].upper(), t) for t in rated])]
        is_comparable = name in self._comparable
        if name in PUBLISHED_LABELS and not is_comparable:
            sections: list[str | Rows] = [f"## {name}", _NOT_PUBLISHED]
        else:
            sections = [f"## {_TITLES[name]} ({name})" if name in _TITLES else f"## {name}"]
        if name == "eccv" and _ECCV_CAPTION_TABLE[0].tag in self._metrics:
            columns = [column for column in _ECCV_CAPTION_TABLE if column.tag in self._metrics]
            printed = {
                each: {
                    tag: x for tag, x in row.items() if tag.partition("/")[0] in self._comparable
                }
                for each, row in eccv_table_4().items()
            }
            sections.append(self._make_table("Mean of I→T, T→I", columns, printed))
        of_papers = published_numbers()[name] if is_comparable else {}
        tables = [self._make_table(*each, of_papers) for each in layouts if each[1]]
        return [*sections, *tables] if tables else []

    def make_facts(self) -> list[str | Rows]:
        """The definition, labels, counts and missing parts of every board."""
        facts: list[str | Rows] = []
        for name in dict.fromkeys([*self._boards, *self.names]):
            lines: list[str | Rows] = [*self._make_counts(name)]
            if board := self._boards.get(name):
                lines.insert(0, f"{board.definition} Labels `{board.label_hash}`.".strip())
                lines.append(_reasons(board))
            if any(lines):
                facts += [f"### {name}", *filter(None, lines)]
        return facts

    def _retrieval_columns(self, board: str, directions: Sequence[str]) -> list[_Column]:
        # The ECCV Caption paper prints two decimals, since its differences are small.
        decimals = 2 if board == "eccv" or board.startswith("pmrp") else 1
        columns = []
        for direction in directions:
            found = [m for m in METRIC_NAMES if metric_tag(board, direction, m) in self._metrics]
            for metric in found:
                header = f"{_ARROWS[direction]} " * (metric == found[0]) + METRIC_NAMES[metric]
                columns.append(_Column(header, metric_tag(board, direction, metric), decimals))
        if directions == _TABLES[0] and f"{board}/{RSUM}" in self._metrics:
            columns.append(_Column(RSUM, f"{board}/{RSUM}"))
        return columns

    def _make_table(self, head: str, columns: Sequence[_Column], published: Table) -> Rows:
        """Our row, its intervals and chance, then published rows with any of the columns."""
        metrics = self._metrics
        found = (find_best(column.tag, [metrics, *published.values()]) for column in columns)
        best, *others = zip(*found, strict=True)
        limits = [[metrics.get(f"{c.tag}_{end}") for end in ("low", "high")] for c in columns]
        ends = [
            [_format(x, _decimals(column)) for x in pair]
            for column, pair in zip(columns, limits, strict=True)
        ]
        body = [
            [self._model, *map(_cell, [metrics] * len(columns), columns, best)],
            ["  95 % interval", *("-" if "-" in each else f"[{', '.join(each)}]" for each in ends)],
            ["  chance", *map(self._format_chance, columns)],
        ]
        for (name, printed), bold in zip(published.items(), others, strict=True):
            known = [printed[c.tag] for c in columns if c.tag in printed]
            # With one decimal, if its source has no more.
            most = 1 if all(round(x, 1) == x for x in known) else 2
            own = [c._replace(decimals=min(c.decimals, most)) for c in columns]
            body.append([name, *map(_cell, [printed] * len(own), own, bold)])
        shown = [row for row in body[1:] if set(row[1:]) != {"-"}]
        return [[head, *(column.header for column in columns)], body[0], *shown]

    def _format_chance(self, column: _Column) -> str:
        """The value of chance, with two digits if it would round to less."""
        value = self._chance.get(column.tag, math.nan)
        digits = 1 - math.floor(math.log10(value)) if 0 < value < 1 else 0
        return _format(value, max(_decimals(column), digits))

    def _make_counts(self, board: str) -> list[Rows]:
        """The counts behind the numbers of a board: queries, galleries, ties, pairs."""
        retrieval = [["Behind the ranks", "queries", "gallery", "skipped", "tied"]]
        rated = [["Behind the correlations", "pairs", "pairs per sample"]]
        for direction in DIRECTIONS:
            if f"{board}/{direction}/queries" in self._metrics:
                tags = [f"{board}/{direction}/{count}" for count in _COUNTS]
                retrieval.append([_ARROWS[direction], *map(self._count, tags)])
        for tag in self._metrics:
            name, _, rest = tag.partition("/")
            if name == board and rest.endswith("/pairs"):
                counts = map(self._count, (tag, f"{tag}_per_sample"))
                rated.append([rest.split("/")[0].upper(), *counts])
        return [rows for rows in (retrieval, rated) if len(rows) > 1]

    def _count(self, tag: str) -> str:
        return f"{self._metrics[tag]:,.0f}" if tag in self._metrics else "-"


def _reasons(board: BoardResult) -> str:
    """The parts that could not be computed, as a list by reason."""
    lacking: dict[str, list[str]] = {}
    for direction, reason in board.skipped.items():
        lacking.setdefault(reason, []).append(direction)
    for direction, result in board.directions.items():
        for metric, reason in result.missing.items():
            lacking.setdefault(reason, []).append(f"{direction} {metric}")
    return "\n".join(
        f"- Without {', '.join(parts)}: {why.rstrip('.')}." for why, parts in lacking.items()
    )


def _cell(metrics: Mapping[str, float], column: _Column, is_best: bool = False) -> str:
    """A value, in bold if it is the best or not separable from it."""
    value = metrics.get(column.tag)
    text = _format(value, _decimals(column))
    if text != "-" and f"{column.tag}_std" in metrics:
        text += f" ± {metrics[f'{column.tag}_std']:.{column.decimals}f}"
    return Bold(text) if is_best else text


def _format(value: float | None, decimals: int) -> str:
    """A number; "-" for one that is missing or undefined, as a constant model's correlation."""
    return "-" if value is None or math.isnan(value) else f"{value:.{decimals}f}"


def _decimals(column: _Column) -> int:
    return 0 if column.tag.endswith("/median_rank") else column.decimals

"""The report of an evaluation: the papers' tables with our rows, and the underlying counts."""

import dataclasses
import math
from collections.abc import Collection, Container, Mapping, Sequence

from xmodal.core.text_table import Bold, Rows, format_document
from xmodal.evals.labels.definitions import DIRECTIONS, RATING_SIDES
from xmodal.evals.reports.metrics import lower_is_better
from xmodal.evals.reports.published import PUBLISHED_LABELS, eccv_table_4, published_numbers
from xmodal.evals.reports.results import RSUM, BoardResult, Numbers, metric_tag
from xmodal.evals.reports.summary import find_chance_results

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
_METRICS = {
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


@dataclasses.dataclass(frozen=True)
class ReportColumn:
    """One metric in a table."""

    header: str
    tag: str
    decimals: int = 1


# Table 4 of the ECCV Caption paper: means of both directions. Its CxC column uses the labels of the
# eccv_caption library, and its 1K column is meant to be the mean over folds.
_ECCV_CAPTION_TABLE = (
    ReportColumn("ECCV mAP@R", "eccv/mean/map@r", 2),
    ReportColumn("R-P", "eccv/mean/r_precision", 2),
    ReportColumn("R@1", "eccv/mean/recall@1", 2),
    ReportColumn("CxC R@1", "cxc_sits_only/mean/recall@1", 2),
    ReportColumn("1K R@1", "coco1k/mean/recall@1", 2),
    ReportColumn("5K R@1", "coco5k/mean/recall@1", 2),
    ReportColumn("PMRP", "pmrp/mean", 2),
)


def format_report(
    model: str,
    metrics: Mapping[str, float],
    *,
    title: str,
    boards: Sequence[BoardResult] = (),
    numbers: Sequence[Numbers] = (),
    warnings: Sequence[str] = (),
    notes: Sequence[str] = (),
    examples: Sequence[str] = (),
    chance: Mapping[str, float] | None = None,
    format: str = "markdown",
) -> str:
    """Returns a summary, the tables of every board, and the facts behind their numbers.

    Markdown is aligned to be readable in a terminal too. In LaTeX, a number is bold if it is the
    best of its column or the interval of the model does not separate both.

    Args:
      model: name of our row.
      metrics: metrics by tag; `_low` and `_high` of a tag are its 95 % interval.
      title: heading, naming dataset and split.
      boards: their definitions, labels and missing parts. The papers' rows are shown for boards
        with the published labels.
      numbers: results without boards; each has its own table.
      warnings: shown in bold at the top.
      notes: other facts, below the warnings.
      examples: lines of the last section.
      chance: values of a random order or a guess, by tag.
      format: "markdown" or "latex", see `text_table.format_document`.

    Raises:
      UserError: the format is unknown.
    """
    chance = chance or {}
    plain = {tag for each in numbers for tag in each.metrics}
    tags = [tag for tag in metrics if tag not in plain]
    names = list(dict.fromkeys(tag.partition("/")[0] for tag in tags if "/" in tag))
    warnings = [*warnings, *_warn_of_ties(metrics), *_warn_of_rounding(boards)]
    warnings += _warn_of_chance(metrics, chance)
    sections: list[str | Rows] = [f"# {title}", *(f"**{warning}**" for warning in warnings)]
    if names:
        sections.append(_make_summary(model, names, metrics))
    sections += notes
    by_name = {board.name: board for board in boards}
    comparable = {
        name for name, board in by_name.items() if board.label_hash == PUBLISHED_LABELS.get(name)
    }
    for name in names:
        sections += _make_board(name, tags, comparable, model, metrics, chance)
    for each in numbers:
        sections += [f"## {each.name}", each.definition, _make_numbers(model, each)]
    facts = _make_facts(by_name, names, metrics)
    if facts:
        sections += ["## Behind the numbers", *facts]
    if examples:
        sections += ["## Examples", "\n".join(examples)]
    return format_document(sections, format)


def _make_board(
    name: str,
    tags: Sequence[str],
    comparable: Collection[str],
    model: str,
    metrics: Mapping[str, float],
    chance: Mapping[str, float],
) -> list[str | Rows]:
    """The heading and the tables of a board, with published rows if it is `comparable`."""
    layouts = _board_tables(name, tags)
    if not layouts:
        return []
    if name in PUBLISHED_LABELS and name not in comparable:
        sections: list[str | Rows] = [f"## {name}", _NOT_PUBLISHED]
    else:
        sections = [f"## {_TITLES[name]} ({name})" if name in _TITLES else f"## {name}"]
    if name == "eccv" and _ECCV_CAPTION_TABLE[0].tag in tags:
        columns = [column for column in _ECCV_CAPTION_TABLE if column.tag in tags]
        printed = {
            each: {tag: x for tag, x in row.items() if tag.partition("/")[0] in comparable}
            for each, row in eccv_table_4().items()
        }
        sections.append(_make_columns("Mean of I→T, T→I", columns, printed, model, metrics, chance))
    printed = published_numbers()[name] if name in comparable else {}
    return sections + [_make_columns(*each, printed, model, metrics, chance) for each in layouts]


def _make_facts(
    boards: Mapping[str, BoardResult], names: Sequence[str], metrics: Mapping[str, float]
) -> list[str | Rows]:
    """The definition, labels, counts and missing parts of every board."""
    facts: list[str | Rows] = []
    for name in dict.fromkeys([*boards, *names]):
        lines: list[str | Rows] = [*_make_counts(name, metrics)]
        board = boards.get(name)
        if board is not None:
            lines.insert(0, f"{board.definition} Labels `{board.label_hash}`.".strip())
            lines.append(_reasons(board))
        if any(lines):
            facts += [f"### {name}", *filter(None, lines)]
    return facts


def _warn_of_ties(metrics: Mapping[str, float]) -> list[str]:
    """A warning that names the tables in which most queries are tied."""
    listed = [
        f"{tag.rpartition('/')[0]} {tied:,.0f} of {queries:,.0f}".strip()
        for tag, tied in metrics.items()
        if tag.endswith("tied_queries")
        and tied > (queries := metrics[tag.replace("tied_queries", "queries")]) / 2
    ]
    if not listed:
        return []
    return [f"MOST QUERIES ARE TIED: {'; '.join(listed)}; the order of the items decides."]


def _warn_of_rounding(boards: Sequence[BoardResult]) -> list[str]:
    """A warning that names the tables of which float32's rounding decides more than 1 %."""
    listed = [
        f"{board.name}/{name} {each.rounded:.0%}"
        for board in boards
        for name, each in board.directions.items()
        if each.rounded > 0.01
    ]
    if not listed:
        return []
    return [
        f"ROUNDING DECIDES RANKS: {'; '.join(listed)}, by less than float32 can tell; rank in "
        "float64, with --precision=float64 or the evaluator's `precision`."
    ]


def _warn_of_chance(metrics: Mapping[str, float], chance: Mapping[str, float]) -> list[str]:
    """A warning that names the metrics that no interval separates from chance."""
    tables: dict[str, list[str]] = {}
    for tag in find_chance_results(metrics, chance):
        table, _, metric = tag.rpartition("/")
        tables.setdefault(table, []).append(_METRICS.get(metric, metric))
    if not tables:
        return []
    listed = "; ".join(f"{table} {', '.join(names)}".strip() for table, names in tables.items())
    return [f"NOT BETTER THAN CHANCE, or not separable from it: {listed}."]


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


def _board_tables(board: str, tags: Collection[str]) -> list[tuple[str, list[ReportColumn]]]:
    """(First header, columns) of a board's tables: between modalities, within, correlations."""
    tables = [("Retrieval", _retrieval_columns(board, directions, tags)) for directions in _TABLES]
    rated = [tag for tag in tags if tag.startswith(f"{board}/") and tag.endswith("/spearman")]
    tables.append(
        ("Spearman x100", [ReportColumn(tag.split("/")[1].upper(), tag) for tag in rated])
    )
    return [table for table in tables if table[1]]


def _retrieval_columns(
    board: str, directions: Sequence[str], tags: Collection[str]
) -> list[ReportColumn]:
    # The ECCV Caption paper prints two decimals, since its differences are small.
    decimals = 2 if board == "eccv" or board.startswith("pmrp") else 1
    columns = []
    for direction in directions:
        found = [m for m in _METRICS if metric_tag(board, direction, m) in tags]
        for i, metric in enumerate(found):
            header = f"{_ARROWS[direction]} {_METRICS[metric]}" if i == 0 else _METRICS[metric]
            columns.append(ReportColumn(header, metric_tag(board, direction, metric), decimals))
    if directions == _TABLES[0] and f"{board}/{RSUM}" in tags:
        columns.append(ReportColumn(RSUM, f"{board}/{RSUM}"))
    return columns


def _make_summary(model: str, boards: Sequence[str], metrics: Mapping[str, float]) -> Rows:
    """One table of the model's main numbers, a row per board."""
    columns = {
        header: tag
        for header, tag in _SUMMARY.items()
        if any(f"{board}/{tag}" in metrics for board in boards)
    }
    rows = [
        [board, *(_cell(metrics, ReportColumn("", f"{board}/{tag}")) for tag in columns.values())]
        for board in boards
    ]
    return [[model, *columns], *(row for row in rows if set(row[1:]) - {"-"})]


def _make_columns(
    head: str,
    columns: Sequence[ReportColumn],
    published: Mapping[str, Mapping[str, float]],
    model: str,
    metrics: Mapping[str, float],
    chance: Mapping[str, float],
) -> Rows:
    """One table: our row, its intervals and chance, then published rows with any of the columns."""
    best = {column: _find_best(column.tag, metrics, published) for column in columns}
    body = [[head, *(column.header for column in columns)]]
    body.append([model, *(_cell(metrics, column, best[column]) for column in columns)])
    intervals = [_interval(metrics, column) for column in columns]
    if set(intervals) != {"-"}:
        body.append(["  95 % interval", *intervals])
    guessed = [_chance_cell(chance, column) for column in columns]
    if set(guessed) != {"-"}:
        body.append(["  chance", *guessed])
    for name, printed in published.items():
        as_printed = zip(_as_printed(printed, columns), columns, strict=True)
        cells = [_cell(printed, each, best[column]) for each, column in as_printed]
        if set(cells) != {"-"}:
            body.append([name, *cells])
    return body


def _find_best(
    tag: str, metrics: Mapping[str, float], published: Mapping[str, Mapping[str, float]]
) -> Container[float]:
    """The values of a column that are best, or that the interval does not separate from the best.

    Without published rows there is nothing to be better than.
    """
    value = metrics.get(tag, math.nan)
    others = [row[tag] for row in published.values() if not math.isnan(row.get(tag, math.nan))]
    if not others:
        return ()
    known = others if math.isnan(value) else [value, *others]
    best = min(known) if lower_is_better(tag) else max(known)
    low, high = (metrics.get(f"{tag}_{end}", value) for end in ("low", "high"))
    if not low <= best <= high:
        return (best,)
    return [each for each in known if each == value or low <= each <= high]


def _make_counts(board: str, metrics: Mapping[str, float]) -> list[Rows]:
    """The counts behind the numbers of a board: queries, galleries, ties, pairs."""
    retrieval = [["Behind the ranks", "queries", "gallery", "skipped", "tied"]]
    rated = [["Behind the correlations", "pairs", "pairs per sample"]]
    for direction in DIRECTIONS:
        if f"{board}/{direction}/queries" in metrics:
            counts = [_count(metrics.get(f"{board}/{direction}/{name}")) for name in _COUNTS]
            retrieval.append([_ARROWS[direction], *counts])
    for tag in metrics:
        name, _, rest = tag.partition("/")
        if name == board and rest.endswith("/pairs"):
            counts = [_count(metrics[each]) for each in (tag, f"{tag}_per_sample")]
            rated.append([rest.split("/")[0].upper(), *counts])
    return [rows for rows in (retrieval, rated) if len(rows) > 1]


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
    if math.isnan(value):
        return "-"
    if f"{tag}_std" in metrics:
        return f"{value:.6g} ± {metrics[f'{tag}_std']:.3g}"
    low, high = (metrics.get(f"{tag}_{end}", math.nan) for end in ("low", "high"))
    if math.isnan(low):
        return f"{value:.6g}"
    digits = 1 if "accuracy" in tag.rpartition("/")[2] else 3  # In percent, unlike correlations.
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def _as_printed(
    metrics: Mapping[str, float], columns: Sequence[ReportColumn]
) -> list[ReportColumn]:
    """Columns, with one decimal if the source of a row has no more."""
    if any(round(metrics[c.tag], 1) != metrics[c.tag] for c in columns if c.tag in metrics):
        return list(columns)
    return [dataclasses.replace(column, decimals=1) for column in columns]


def _count(number: float | None) -> str:
    return "-" if number is None else f"{number:,.0f}"  # Ties in ranked lists are not known.


def _cell(metrics: Mapping[str, float], column: ReportColumn, best: Container[float] = ()) -> str:
    """A value, in bold if it is among the best."""
    value = metrics.get(column.tag)
    if value is None or math.isnan(value):  # A constant model has no correlation.
        return "-"
    text = f"{value:.{_decimals(column)}f}"
    if f"{column.tag}_std" in metrics:
        text = f"{value:.{column.decimals}f} ± {metrics[f'{column.tag}_std']:.{column.decimals}f}"
    return Bold(text) if value in best else text


def _chance_cell(chance: Mapping[str, float], column: ReportColumn) -> str:
    """The value of chance, with two digits if it would round to less."""
    value = chance.get(column.tag, math.nan)
    if math.isnan(value):
        return "-"
    digits = 1 - math.floor(math.log10(value)) if 0 < value < 1 else 0
    return f"{value:.{max(_decimals(column), digits)}f}"


def _interval(metrics: Mapping[str, float], column: ReportColumn) -> str:
    low, high = (metrics.get(f"{column.tag}_{end}") for end in ("low", "high"))
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return "-"
    return f"[{low:.{_decimals(column)}f}, {high:.{_decimals(column)}f}]"


def _decimals(column: ReportColumn) -> int:
    return 0 if column.tag.endswith("/median_rank") else column.decimals

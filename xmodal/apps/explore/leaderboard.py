r"""The results of any number of models as a page and as tables for papers.

    python -m xmodal leaderboard runs/a other=results/b --published=paper.json --output=leaderboard

writes leaderboard.html, leaderboard.md, leaderboard.tex and leaderboard.csv into the folder. The
page sorts and filters models and metrics, plots two metrics, and shows what each model found for
some queries; it needs no server. --published is `{"model": {"tag":
number}}` in JSON, or a CSV file with the columns model, metric and value; its rows are gray and
have no rank. Models with several seeds are named as in `xmodal compare`; leaderboard.svg and .pdf
draw their runs. `xmodal evaluate --compare --examples` shows the queries on which two models
differ.
"""

import dataclasses
import itertools
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jinja2

from data_prep.reading.csv_files import read_csv
from xmodal.apps.analysis.metric_tables import choose_metrics, load_models
from xmodal.apps.arguments import make_parser, name_list, read_names
from xmodal.apps.explore.compare import Comparison
from xmodal.apps.explore.seed_plot import draw_runs
from xmodal.core import console
from xmodal.core.errors import UserError
from xmodal.core.files import check_writable, csv_text, write_files
from xmodal.core.page import Group, Page, PageRow, Section
from xmodal.core.text_table import Bold, format_document, format_number
from xmodal.evals.reports.metrics import lower_is_better
from xmodal.evals.reports.queries import read_queries
from xmodal.evals.reports.results import name_tag

_COLUMNS = ("model", "metric", "value", "low", "high", "best_rank", "worst_rank", "published")
_FOUND = "Evenly spaced queries, with what each model finds first; frames mark right answers."
_HOW_TO_READ = (
    "Values have 95 % intervals. A model's rank is given as an interval from 1 plus the number of "
    "models separably better to the number of models not separably worse, by paired differences "
    "where results by query are stored and else by intervals that do not overlap. Bold: the best "
    "model and all that are not separable from it. Intervals leave out the variance between "
    "training seeds, except of several runs: "
    "these have their mean ± standard deviation, and an interval over the runs."
)


class Cell(NamedTuple):
    """A metric of a model, NaN without a value; published ones have neither interval nor rank."""

    value: float
    text: str
    interval: tuple[float, ...] = ()
    ranks: tuple[int, ...] = ()
    best: bool = False

    @property
    def rank(self) -> str:
        """The rank, or the interval of ranks; "" without one."""
        return " to ".join(map(str, dict.fromkeys(self.ranks)))


class Leaderboard:
    """Models x metrics.

    Attributes:
      tags: the metrics, and what people call them.
      rows: the models that have one of the metrics, and their cells, measured ones first.
      published: the names of the models with published values.
    """

    def __init__(
        self,
        comparison: Comparison,
        published: Mapping[str, Mapping[str, float]],
        metrics: Sequence[str] | None = None,
    ) -> None:
        """Takes the results of models.

        Args:
          comparison: the measured models.
          published: published model -> tag -> number.
          metrics: requested tags, see `choose_metrics`; None for a selection.
        """
        given = {**comparison.metrics, **published}
        tags = choose_metrics(given, metrics, at_least=1, paper=False)
        names = [*map(name_tag, tags)]  # Two evaluators may have the same benchmark.
        self.tags = {x: y if names.count(y) == 1 else x for x, y in zip(tags, names, strict=True)}
        self._places = comparison.places
        self.published = {*published}
        rows: dict[str, list[Cell]] = {name: [] for name in comparison.metrics}
        for tag in self.tags:
            ranks, best = comparison.rank_limits(tag), comparison.find_best(tag)
            for name, row in rows.items():
                cell = Cell(math.nan, "-")
                if name in ranks:
                    low, high = comparison.limits(name, tag)
                    interval = (low, high) if low < high else ()
                    value, text = comparison.metrics[name][tag], comparison.format(name, tag)
                    cell = Cell(value, text, interval, ranks[name], name in best)
                row.append(cell)
        for name, numbers in published.items():
            values = [numbers.get(tag, math.nan) for tag in self.tags]
            rows[name] = [Cell(value, format_number(value, ".2f")) for value in values]
        self.rows = {name: row for name, row in rows.items() if any(x.text != "-" for x in row)}

    def document(self, format: str) -> str:
        """Returns the tables of values and of ranks; `format` is "markdown" or "latex"."""
        values, ranks = ([["Model", *self.tags.values()]] for _ in range(2))
        for name, row in self.rows.items():
            cells = [Bold(cell.text) if cell.best else cell.text for cell in row]
            values.append([f"{name} (published)" if name in self.published else name, *cells])
            if name not in self.published:
                ranks.append([name, *(cell.rank or "-" for cell in row)])
        parts = ["# Leaderboard", "## Values", values, "## Ranks", ranks, _HOW_TO_READ]
        return format_document(parts, format)

    def to_csv(self) -> str:
        """Returns a line per model and metric, with intervals and ranks."""
        lines: list[Sequence[object]] = [_COLUMNS]
        for name, row in self.rows.items():
            for tag, cell in zip(self.tags, row, strict=True):
                if cell.text != "-":
                    ends = (*(cell.interval or ("", "")), *(cell.ranks or ("", "")))
                    lines.append([name, tag, cell.value, *ends, int(name in self.published)])
        return csv_text(lines)

    def page(self) -> Page:
        """Returns the page with a table to sort and filter."""
        html, style, script = (
            pathlib.Path(__file__).with_name(f"leaderboard.{end}").read_text(encoding="utf-8")
            for end in ("html", "css", "js")
        )
        template = jinja2.Template(html, autoescape=True, trim_blocks=True, lstrip_blocks=True)
        columns = [(tag, name, lower_is_better(tag)) for tag, name in self.tags.items()]
        axes = [next((x for x in self.tags if f"{d}/" in x), None) for d in ("i2t", "t2i")]
        body = template.render(rows=self.rows, columns=columns, published=self.published, axes=axes)
        title = f"Leaderboard of {len(self.rows)} models"
        return Page(title, self._show_queries(), [_HOW_TO_READ], body, style, script)

    def _show_queries(self) -> list[Group]:
        """What the models found for the same queries."""
        found: dict[str, dict[str, Section]] = {}
        for model, places in self._places.items():
            for (title, name), each in itertools.chain(*(read_queries(x).items() for x in places)):
                known = found.setdefault(title, {}).setdefault(name, Section(name, [], each.query))
                rows = (PageRow(row.items, f"{model}: {row.title}") for row in each.rows)
                found[title][name] = dataclasses.replace(known, rows=[*known.rows, *rows])
        return [Group(title, [*each.values()], _FOUND) for title, each in found.items()]


def load_published(path: str) -> dict[str, dict[str, float]]:
    """Returns model -> tag -> number of a JSON or CSV table."""
    if not path.endswith(".csv"):
        return load_models([path])
    models: dict[str, dict[str, float]] = {}
    for where, row in read_csv(pathlib.Path(path), columns=("model", "metric", "value")):
        try:
            models.setdefault(row["model"], {})[row["metric"]] = float(row["value"])
        except ValueError as error:
            raise UserError(f"{path}, {where}: {error}; value must be a number.") from error
    return models


@console.readable_errors()
def main() -> None:
    """Writes the leaderboard that the command line names."""
    parser = make_parser("leaderboard", __doc__)
    parser.add_argument("models", nargs="+", metavar="[NAME=]FOLDER", help="runs or results")
    parser.add_argument("--metrics", type=name_list, help="tags, * for any characters")
    parser.add_argument("--published", help="table of published results, .json or .csv")
    parser.add_argument("--output", required=True, help="folder of the page and the tables")
    args = parser.parse_args()
    check_writable(args.output)
    comparison = Comparison(read_names(args.models))
    published = load_published(args.published) if args.published else {}
    leaderboard = Leaderboard(comparison, published, args.metrics)
    files: dict[str, str | bytes] = {
        "leaderboard.html": leaderboard.page().to_html(),
        "leaderboard.md": leaderboard.document("markdown"),
        "leaderboard.tex": leaderboard.document("latex"),
        "leaderboard.csv": leaderboard.to_csv(),
    }
    if comparison.runs:
        drawn = draw_runs(comparison.runs, [*leaderboard.tags]).items()
        files |= {f"leaderboard.{end}": content for end, content in drawn}
    write_files(args.output, files)
    size = f"{len(leaderboard.rows)} models x {len(leaderboard.tags)} metrics"
    print(f"{args.output}: {size}; leaderboard.html")
    given = {**comparison.metrics, **published}
    if absent := [name for name in given if name not in leaderboard.rows]:
        print(f"Models without any of these metrics, see --metrics: {', '.join(absent)}")


if __name__ == "__main__":
    console.run(main)

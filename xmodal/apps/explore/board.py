r"""The results of any number of models as a page and as tables for papers.

    python -m xmodal board runs/a other=results/b --published=paper.json --output=board

writes board.html, board.md, board.tex and board.csv into the folder. The page sorts and filters
models and metrics; it needs no server. --published is `{"model": {"tag": number}}` in JSON, or a
CSV file with the columns model, metric and value, such as `xmodal reproduce --write_published`
makes of the papers; its rows are gray and have no rank. `xmodal evaluate --compare --examples`
shows the queries on which two models differ.
"""

import dataclasses
import math
import pathlib
from collections.abc import Mapping, Sequence

import jinja2

from data_prep.reading.csv_files import read_csv
from xmodal.apps.analysis.agreement.metric_tables import choose_metrics, load_models
from xmodal.apps.arguments import make_parser, name_list
from xmodal.apps.explore.compare import open_results
from xmodal.apps.explore.comparison import Comparison
from xmodal.apps.explore.result_folders import read_names
from xmodal.core import console
from xmodal.core.errors import UnexpectedFilesError, UserError
from xmodal.core.page import Page
from xmodal.core.result_files import check_writable, csv_text, write_files
from xmodal.core.text_table import Bold, format_document
from xmodal.evals.reports.metrics import lower_is_better

_COLUMNS = ("model", "metric", "value", "low", "high", "best_rank", "worst_rank", "published")
_HERE = pathlib.Path(__file__).parent
_HOW_TO_READ = (
    "Values have 95 % intervals. A model's rank is given as an interval from 1 plus the number of "
    "models separably better to the number of models not separably worse, by paired differences "
    "where results by query are stored and else by intervals that do not overlap. Bold: the best "
    "model and all that are not separable from it. Intervals leave out the variance between "
    "training seeds."
)


@dataclasses.dataclass(frozen=True)
class Cell:
    """A metric of a model.

    Attributes:
      tag: the metric.
      value: its value; NaN if the model lacks it.
      limits: 95 % interval; empty if unknown.
      ranks: best and worst rank; empty for published values.
      best: whether it is the best model's, or not separable from it.
    """

    tag: str
    value: float
    limits: tuple[float, ...] = ()
    ranks: tuple[int, ...] = ()
    best: bool = False

    @property
    def text(self) -> str:
        """The value."""
        return "-" if math.isnan(self.value) else f"{self.value:.2f}"

    @property
    def interval(self) -> str:
        """The interval; "" without one."""
        return f"[{self.limits[0]:.2f}, {self.limits[1]:.2f}]" if self.limits else ""

    @property
    def rank(self) -> str:
        """The rank, or the interval of ranks; "" without one."""
        return " to ".join(map(str, dict.fromkeys(self.ranks)))


@dataclasses.dataclass(frozen=True)
class ModelRow:
    """The results of one model."""

    name: str
    cells: Sequence[Cell]
    published: bool = False


class ResultBoard:
    """Models x metrics.

    Attributes:
      tags: the metrics.
      rows: the models that have one of the metrics, measured ones first.
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
        if twice := set(published) & set(comparison.metrics):
            raise UserError(f"{sorted(twice)} are both measured and published: write NAME=FOLDER.")
        self.tags = choose_metrics({**comparison.metrics, **published}, metrics, at_least=1)
        columns = [_measure(comparison, tag) for tag in self.tags]
        rows = [ModelRow(name, [column[name] for column in columns]) for name in comparison.metrics]
        rows += [
            ModelRow(name, [Cell(tag, numbers.get(tag, math.nan)) for tag in self.tags], True)
            for name, numbers in published.items()
        ]
        self.rows = [row for row in rows if any(not math.isnan(cell.value) for cell in row.cells)]

    def document(self, format: str) -> str:
        """Returns the tables of values and of ranks; `format` is "markdown" or "latex"."""
        values, ranks = ([["Model", *self.tags]] for _ in range(2))
        for row in self.rows:
            name = f"{row.name} (published)" if row.published else row.name
            texts = [(f"{cell.text} {cell.interval}".strip(), cell) for cell in row.cells]
            values.append([name, *(Bold(text) if cell.best else text for text, cell in texts)])
            if not row.published:
                ranks.append([name, *(cell.rank or "-" for cell in row.cells)])
        parts = ["# Board", "## Values", values, "## Ranks", ranks, _HOW_TO_READ]
        return format_document(parts, format)

    def to_csv(self) -> str:
        """Returns a line per model and metric, with intervals and ranks."""
        lines: list[Sequence[object]] = [_COLUMNS]
        for row in self.rows:
            for cell in row.cells:
                if not math.isnan(cell.value):
                    ends = (*(cell.limits or ("", "")), *(cell.ranks or ("", "")))
                    lines.append([row.name, cell.tag, cell.value, *ends, int(row.published)])
        return csv_text(lines)

    def page(self) -> Page:
        """Returns the page with a table to sort and filter."""
        environment = jinja2.Environment(
            autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
        )
        template = environment.from_string(_read("board.html"))
        columns = [{"tag": tag, "lower": lower_is_better(tag)} for tag in self.tags]
        return Page(
            f"Board of {len(self.rows)} models",
            notes=[_HOW_TO_READ],
            body=template.render(rows=self.rows, columns=columns),
            style=_read("board.css"),
            script=_read("board.js"),
        )


def _measure(comparison: Comparison, tag: str) -> dict[str, Cell]:
    """Model -> its cell."""
    ranks, cells = comparison.rank_limits(tag), {}
    best = comparison.find_best(tag)
    for name, numbers in comparison.metrics.items():
        low, high = comparison.limits(name, tag) if name in ranks else (0.0, 0.0)
        cells[name] = Cell(
            tag,
            numbers.get(tag, math.nan),
            (low, high) if low < high else (),
            ranks.get(name, ()),
            name in best,
        )
    return cells


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def load_published(path: str) -> dict[str, dict[str, float]]:
    """Returns model -> tag -> number of a JSON or CSV table."""
    if not path.endswith(".csv"):
        return load_models([path])
    models: dict[str, dict[str, float]] = {}
    for where, row in read_csv(pathlib.Path(path), columns=("model", "metric", "value")):
        numbers = models.setdefault(row["model"], {})
        try:
            value = float(row["value"])
        except ValueError as error:
            raise UserError(f"{path}, {where}: {error}; value must be a number.") from error
        if numbers.setdefault(row["metric"], value) != value:
            raise UserError(f"{path}, {where}: {row['model']!r} has {row['metric']} twice.")
    return models


@console.readable_errors(FileNotFoundError, UnexpectedFilesError)
def main() -> None:
    """Writes the board that the command line names."""
    parser = make_parser("board", __doc__)
    parser.add_argument("models", nargs="+", metavar="[NAME=]FOLDER", help="runs or results")
    parser.add_argument("--metrics", type=name_list, help="tags, * for any characters")
    parser.add_argument("--published", help="table of published results, .json or .csv")
    parser.add_argument("--output", required=True, help="folder of the page and the tables")
    args = parser.parse_args()
    check_writable(args.output)
    comparison = open_results(read_names(args.models))
    published = load_published(args.published) if args.published else {}
    board = ResultBoard(comparison, published, args.metrics)
    files = {
        "board.html": board.page().to_html(),
        "board.md": board.document("markdown"),
        "board.tex": board.document("latex"),
        "board.csv": board.to_csv(),
    }
    write_files(args.output, files)
    print(f"{args.output}: {len(board.rows)} models x {len(board.tags)} metrics; board.html")
    shown = {row.name for row in board.rows}
    given = {**comparison.metrics, **published}
    if absent := [name for name in given if name not in shown]:
        named = ", ".join(f"{name} ({next(iter(given[name]), 'none')})" for name in absent)
        print(
            "Models left out, which have none of these metrics (--metrics may name theirs): "
            f"{named}"
        )


if __name__ == "__main__":
    console.run(main)

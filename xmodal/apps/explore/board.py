r"""The results of any number of models as a page and as tables for papers.

    python -m xmodal board runs/a other=results/b --published=paper.json --output=board

writes board.html, board.md, board.tex and board.csv into the folder. The page sorts and filters
models and metrics, plots two metrics against each other, and has a card for every model; it needs
no server. --queries=5 adds the queries on which two models differ most, with captions and pictures
of the dataset of a run, --items=RUN. --published is `{"model": {"tag": number}}` in JSON, or a CSV
file with the columns model, metric and value, such as `xmodal reproduce --write_published` makes
of the papers; its rows are gray and have no rank.
"""

import argparse
import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from etils import epath

from xmodal.apps.analysis.agreement.model_table import load_models
from xmodal.apps.arguments import make_parser, name_list
from xmodal.apps.explore.compare import Comparison, open_results, read_names
from xmodal.apps.explore.result_board import ResultBoard
from xmodal.core import console
from xmodal.core.config import lookup
from xmodal.core.errors import UserError
from xmodal.core.page import Group, PageItem, Section
from xmodal.core.result_files import check_writable, write_files
from xmodal.evals.labels.definitions import DIRECTIONS
from xmodal.evals.reports.example_rules import Pick, cut_pick, pick_changed

Show = Callable[[str, int], PageItem]
"""From a side and an id to the item."""
_OTHER_RECORDS = "They are of other records than the test split of --items, so only ids are shown."


def load_published(path: str) -> dict[str, dict[str, float]]:
    """Returns model -> tag -> number of a JSON or CSV table.

    Raises:
      UserError: the file cannot be read, lacks a column, has a cell that is not a number, or a
        model has a metric twice.
    """
    if not path.endswith(".csv"):
        return load_models([path])
    models: dict[str, dict[str, float]] = {}
    try:
        text = epath.Path(path).read_bytes().decode("utf-8-sig")  # Spreadsheets write a mark.
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(
            f"--published: cannot read {path}: {error}; save it as CSV in UTF-8."
        ) from error
    for number, row in enumerate(rows, 2):
        try:
            model, tag, value = row["model"], row["metric"], float(row["value"])
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"{path}, line {number}: {error!r}; a table of published results has the columns "
                "model, metric and value, a number."
            ) from error
        if tag in models.setdefault(model, {}):
            raise UserError(f"{path}, line {number}: {model!r} has {tag} twice; remove one.")
        models[model][tag] = value
    if not models:
        raise UserError(f"{path} has no rows.")
    return models


def query_differences(
    comparison: Comparison,
    ours: str,
    theirs: str,
    count: int,
    show: Show,
    hashes: Mapping[str, str] | None = None,
) -> list[Group]:
    """Returns the queries whose ranks differ most between two models.

    Args:
      comparison: the results.
      ours: name of a model.
      theirs: name of another model.
      count: largest number of queries per board and direction.
      show: makes the item of a query.
      hashes: hashes of the records that it shows, see `Split`, so that no query gets an item of
        another dataset that has the same id; None if it needs no records.

    Raises:
      UserError: a model is unknown, or no ranks are stored.
    """
    for name in (ours, theirs):
        lookup("--between", name, comparison.metrics)
    one, other = comparison.stored(ours), comparison.stored(theirs)
    groups = []
    for evaluator in (name for name in one if name in other):
        knows = hashes is None or _are_among(one[evaluator].records, hashes)
        boards = {board.name: board for board in other[evaluator].results}
        for board in one[evaluator].results:
            found = boards[board.name].directions if board.name in boards else {}
            for name, direction in board.directions.items():
                if name in found and direction.rank is not None:
                    pick = cut_pick(pick_changed(board.name, name, direction, found[name]), count)
                    if len(pick.queries):
                        groups.append(_make_group(pick, ours, theirs, show if knows else None))
    if not groups:
        raise UserError(
            f"{ours} and {theirs} have no query with stored ranks that differ: leave out --queries."
        )
    return groups


def _are_among(records: Mapping[str, str], hashes: Mapping[str, str]) -> bool:
    """Whether results are on some of the records with these hashes; also if it is not known."""
    return not records or not records.items().isdisjoint(hashes.items())


def _make_group(pick: Pick, ours: str, theirs: str, show: Show | None) -> Group:
    """The group of some queries; `show` is None if their items are not known."""
    assert pick.others is not None
    side = DIRECTIONS[pick.direction][0]
    sections = [
        Section(
            f"{side.capitalize()} {query}: rank {rank + 1:,} by {ours}, {other + 1:,} by {theirs}",
            [],
            PageItem() if show is None else show(side, int(query)),
        )
        for query, rank, other in zip(pick.queries, pick.ranks, pick.others, strict=True)
    ]
    note = pick.note if show is not None else f"{pick.note} {_OTHER_RECORDS}"
    return Group(f"{ours} and {theirs}, {pick.title}", sections, note)


def _open_items(run: str) -> tuple[Show, Mapping[str, str]]:
    """Shows items of the test split of a run's dataset; and the hashes of its records."""
    from xmodal import data
    from xmodal.api.run_splits import read_run_data
    from xmodal.evals.reports.example_page import ShownItems
    from xmodal.evals.scores.embed import Items

    split = data.eval_split(read_run_data(run), split="test")
    return ShownItems(cast(Items, split)), split.hashes


def _differences(args: argparse.Namespace, comparison: Comparison) -> Sequence[Group]:
    if args.queries < 0:
        raise UserError(f"--queries={args.queries} must be at least 0.")
    if not args.queries:
        if args.between or args.items:
            raise UserError("--between and --items choose and show queries: set --queries, too.")
        return ()
    pair = args.between.split(",") if args.between else list(comparison.metrics)[:2]
    if len(pair) != 2:
        raise UserError(f"--queries compares two models; name them, --between=A,B; got {pair}.")
    shown: tuple[Show, Mapping[str, str] | None] = (lambda side, item: PageItem()), None
    if args.items:
        shown = _open_items(args.items)
    ours, theirs = pair
    return query_differences(comparison, ours, theirs, args.queries, *shown)


@console.readable_errors()
def main() -> None:
    """Writes the board that the command line names."""
    parser = make_parser("board", __doc__)
    parser.add_argument("models", nargs="+", metavar="[NAME=]FOLDER", help="runs or results")
    parser.add_argument("--metrics", type=name_list, help="tags, * for any characters")
    parser.add_argument("--published", help="table of published results, .json or .csv")
    parser.add_argument("--queries", type=int, default=0, help="queries per board and direction")
    parser.add_argument("--between", help="the two models of --queries, A,B; by default the first")
    parser.add_argument("--items", help="run whose dataset has the captions and pictures")
    parser.add_argument("--output", required=True, help="folder of the page and the tables")
    args = parser.parse_args()
    check_writable(args.output)
    folders = read_names(args.models)
    comparison = open_results(folders)
    published = load_published(args.published) if args.published else {}
    board = ResultBoard(comparison, folders, published, args.metrics)
    files = {
        "board.html": board.page(_differences(args, comparison)).to_html(),
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

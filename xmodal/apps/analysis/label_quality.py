r"""Precision and recall of one set of positives against another.

    python -m xmodal label_quality --labels=cxc_image_to_caption.json \
        --truth=eccv_image_to_caption.json
    python -m xmodal label_quality --labels=eccv_caption --truth=mturk_parsed.csv

Files are lists of positives as eccv_caption releases them: {"query id": [ids]}.

If --labels is a folder, the command prints table 2 of the ECCV Caption paper for all lists in it.
--truth is then the output of `xmodal annotate aggregate`, or mturk_parsed.csv, the raters' answers
that the paper's authors offer. If the folder has lists named eccv, only their queries count.
"Judged" is the precision among judged pairs, as in the paper's later revision; the first revision
takes pairs that nobody saw as wrong.
"""

import math
import pathlib
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from data_prep.eccv_labels.label_files import ENDS, read_mturk, read_positives
from xmodal.apps.arguments import make_parser
from xmodal.core import console
from xmodal.core.text_table import Rows, format_table

# Query id -> ids of its positives.
PositiveLists = Mapping[int, Collection[int]]


class LabelQuality(NamedTuple):
    """Precision and recall of labels.

    Attributes:
      precision: mean over queries, in percent; NaN if it is defined for none.
      recall: mean over queries, in percent; NaN if it is defined for none.
      precision_queries: number of queries in the precision: annotated, with a labeled positive.
      recall_queries: number of queries in the recall: those with a true positive.
    """

    precision: float
    recall: float
    precision_queries: int
    recall_queries: int


def label_quality(
    labels: PositiveLists, truth: PositiveLists, *, annotated: PositiveLists | None = None
) -> LabelQuality:
    """Dataset precision and recall as in section 3 of the ECCV Caption paper.

    With r the positives of a query in `labels` and t those in `truth`, precision is the mean of
    |r and t| / |r| and recall the mean of 1 - |t without r| / |t|, over the queries of `truth`,
    since only these were annotated. A query without labels has recall 0 and no precision; one
    without true positives has precision 0 and no recall.

    Args:
      labels: the set under test.
      truth: the reference set, usually small and carefully made.
      annotated: the annotated items, by query. Others are left out of r in the precision, since
        items without annotation are not wrong. None counts them as wrong, as in the first revision
        of the paper, which gave a precision of 47 % for COCO's own captions.
    """
    precisions, recalls = [], []
    for query, positives in truth.items():
        true, found = set(positives), set(labels.get(query, ()))
        if true:
            recalls.append(100 * len(true & found) / len(true))
        if annotated is not None:
            found &= set(annotated.get(query, ()))
        if found:
            precisions.append(100 * len(true & found) / len(found))
    precision, recall = (
        float(np.mean(each)) if each else math.nan for each in (precisions, recalls)
    )
    return LabelQuality(precision, recall, len(precisions), len(recalls))


@console.readable_errors()
def main() -> None:
    """Evaluates the labels that the command line names."""
    parser = make_parser("label_quality", __doc__)
    parser.add_argument("--labels", required=True, help="positives to evaluate, JSON or a folder")
    parser.add_argument("--truth", required=True, help="reference positives, JSON, CSV or a folder")
    parser.add_argument("--annotated", help="items that were looked at, by query")
    parser.add_argument("--strict", action="store_true", help="mturk_parsed.csv: only 100 %% yes")
    parser.add_argument("--latex", action="store_true", help="LaTeX in place of Markdown")
    args = parser.parse_args()
    if pathlib.Path(args.labels).is_dir():
        rows = _tabulate(pathlib.Path(args.labels), pathlib.Path(args.truth), args.strict)
        print(format_table(rows, "latex" if args.latex else "markdown"))
        return
    labels, truth = (read_positives(pathlib.Path(path)) for path in (args.labels, args.truth))
    annotated = read_positives(pathlib.Path(args.annotated)) if args.annotated else None
    found = label_quality(labels, truth, annotated=annotated)
    rows = [["", "percent", "queries"]]
    for name in ("precision", "recall"):
        queries = getattr(found, f"{name}_queries")
        rows.append([name, f"{getattr(found, name):.2f}", f"{queries:,}"])
    print(format_table(rows, "latex" if args.latex else "markdown"))


def _tabulate(labels: pathlib.Path, truth: pathlib.Path, strict: bool) -> Rows:
    """Precision and recall of all lists of a folder, in both directions."""
    head = ["labels"]
    found: dict[str, list[str]] = {}
    for direction, end in ENDS.items():
        head += (f"{direction.upper()} {each}" for each in ("precision", "judged", "recall"))
        lists = {path.name: read_positives(path) for path in sorted(labels.glob(f"*_{end}.json"))}
        positives, judged = _read_truth(truth, end, strict)
        queries = lists.get(f"eccv_{end}.json", positives)
        positives = {query: items for query, items in positives.items() if query in queries}
        number = sum(map(len, positives.values()))
        some = sum(map(bool, positives.values()))
        head[-1] += f" of {number:,} positives of {some:,} queries"
        for file, own in lists.items():
            plain = label_quality(own, positives)
            among = label_quality(own, positives, annotated=judged)
            cells = plain.precision, among.precision, plain.recall
            row = found.setdefault(file.removesuffix(f"_{end}.json"), [])
            row += (f"{each:.1f}" for each in cells)
    found.pop("annotated", None)
    return [head, *([name, *cells] for name, cells in found.items())]


def _read_truth(path: pathlib.Path, end: str, strict: bool) -> tuple[PositiveLists, PositiveLists]:
    """The positives and the judged items of a direction, by query; some have no positive."""
    if path.is_dir():
        files = (path / f"{name}_{end}.json" for name in ("eccv", "annotated"))
        positives, judged = map(read_positives, files)
        return {query: [] for query in judged} | positives, judged
    lists: tuple[dict[int, list[int]], dict[int, list[int]]] = {}, {}
    for pair, answers in read_mturk(path).items():
        query, item = pair if end.startswith("caption") else pair[::-1]
        lists[1].setdefault(query, []).append(item)
        lists[0].setdefault(query, []).extend([item] * (min(answers) <= 2 - strict))
    return lists


if __name__ == "__main__":
    console.run(main)

r"""Precision and recall of one set of positives against another.

    python -m xmodal label_quality --labels=cxc_image_to_caption.json \
        --truth=eccv_image_to_caption.json

Files are lists of positives as eccv_caption releases them: {"query id": [ids]}.
"""

import math
import pathlib
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from data_prep.eccv_labels.label_files import read_positives
from xmodal.apps.arguments import make_parser
from xmodal.core import console
from xmodal.core.text_table import format_table

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
    since only these were annotated. A query without labels has recall 0 and no precision.

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
    parser.add_argument("--labels", required=True, help="positives to evaluate, a JSON file")
    parser.add_argument("--truth", required=True, help="reference positives, a JSON file")
    parser.add_argument("--annotated", help="items that were looked at, by query")
    parser.add_argument("--latex", action="store_true", help="LaTeX in place of Markdown")
    args = parser.parse_args()
    labels, truth = (read_positives(pathlib.Path(path)) for path in (args.labels, args.truth))
    annotated = read_positives(pathlib.Path(args.annotated)) if args.annotated else None
    found = label_quality(labels, truth, annotated=annotated)
    rows = [["", "percent", "queries"]]
    for name in ("precision", "recall"):
        queries = getattr(found, f"{name}_queries")
        rows.append([name, f"{getattr(found, name):.2f}", f"{queries:,}"])
    print(format_table(rows, "latex" if args.latex else "markdown"))


if __name__ == "__main__":
    console.run(main)

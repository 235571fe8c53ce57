r"""Plots the gap between a caption's best two scores over the rank of its image.

    python -m xmodal score_gaps --run=RUN --output=FIGURES

Figure 3b of CMCM, with which its authors chose the threshold T of the selective refinement,
`gap` of `config.evals.NAME.reranker`: captions with a smaller gap are ranked again. The axes are
those of the plot in the authors' code. Takes the pools of an evaluator of type `pools`, and the
ranks that it gives. Prints the share of captions that find their image first by gap, in percent: T
is the gap from which on nearly all do. Writes score_gaps.png.
"""

import itertools

import numpy as np

from xmodal.apps.analysis.canvas import GRAY, color, new_figure, to_bytes
from xmodal.apps.arguments import add_texts, make_parser
from xmodal.core import console
from xmodal.core.files import check_writable, write_files
from xmodal.core.text_table import Rows, align_columns

_EDGES = (0, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, np.inf)
_THRESHOLDS = {0.05: "T in the code", 0.1: "T in the paper"}


def tabulate_gaps(gaps: np.ndarray, ranks: np.ndarray) -> Rows:
    """Returns the cells of a table: a row for every range of gaps in which there are captions.

    Args:
      gaps: best less second-best score of every caption, float [Q].
      ranks: rank of its image from 1, int [Q].
    """
    rows = [["gap from", "captions", "rank 1 %", "rank 1 % from here on"]]
    for low, high in itertools.pairwise(_EDGES):
        inside, beyond = ranks[(low <= gaps) & (gaps < high)], ranks[gaps >= low]
        if len(inside):
            first = [f"{100 * np.mean(each == 1):.1f}" for each in (inside, beyond)]
            rows.append([f"{low:g}", f"{len(inside):,}", *first])
    return rows


def draw_gaps(gaps: np.ndarray, ranks: np.ndarray, *, title: str = "") -> bytes:
    """Returns a PNG of the gaps and ranks of captions, see `tabulate_gaps`."""
    with new_figure(5.5, 4, title) as figure:
        axes = figure.subplots()
        axes.scatter(ranks, gaps, s=6, color=color(0), alpha=0.35, linewidths=0)
        for place, name in _THRESHOLDS.items():
            axes.axhline(place, color=GRAY, linewidth=0.8, linestyle=":")
            axes.annotate(name, (1, place), (1, 1), ("axes fraction", "data"),
                          textcoords="offset points", ha="right", color=GRAY)  # fmt: skip
        axes.set(xscale="log", xlabel="rank of the caption's image")
        axes.set(ylabel="gap between the best two scores")
        axes.xaxis.set_major_formatter("{x:g}")
        return to_bytes(figure)


@console.readable_errors()
def main() -> None:
    """Draws the figure and prints the table that the command line requests."""
    parser = make_parser("score_gaps", __doc__)
    parser.add_argument("--run", required=True, help="folder of a run")
    parser.add_argument("--step", default="best", help="checkpoint: a number, best or latest")
    parser.add_argument("--evaluator", default="pools", help="name in config.evals")
    add_texts(parser, split="split of the dataset; default: the evaluator's final split")
    parser.add_argument("--output", required=True, help="folder for the figure")
    args = parser.parse_args()
    check_writable(args.output)
    # It imports JAX, but --help and errors in arguments should be fast.
    from xmodal.api.run_splits import open_evaluated_split

    found = open_evaluated_split(
        args.run, None, args.evaluator, args.split, args.step, None, kind="pools"
    )
    gaps, ranks = found.evaluator.find_gaps(found.embeddings)
    table = tabulate_gaps(gaps, ranks)
    print(align_columns(table, right=range(len(table[0]))))
    title = f"{found.model_name}, {found.evaluator.split.split}: {len(gaps):,} captions"
    write_files(args.output, {"score_gaps.png": draw_gaps(gaps, ranks, title=title)})
    print(f"{args.output}: score_gaps.png")


if __name__ == "__main__":
    console.run(main)

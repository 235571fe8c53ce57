r"""Results of several models side by side: tables, paired differences, ranks and agreement.

    python -m xmodal compare multitask=runs/quickstart other=results/other
    python -m xmodal compare runs/a runs/b --metrics=shapes/i2t/recall@1 --latex
    python -m xmodal compare "runs/a_*" "runs/b_*"

The command prints the table, and the paired differences of the first model from every other one. A
pattern names the runs of several seeds: the table has their means and standard deviations, and the
differences are tested over the runs, paired if both models have the same seeds.
"""

import os
from collections.abc import Mapping

from xmodal.apps.arguments import make_parser, name_list
from xmodal.apps.explore.comparison import Comparison, SeedComparison
from xmodal.apps.explore.result_folders import find_runs, read_names
from xmodal.core import console
from xmodal.core.errors import UserError


def compare(results: Mapping[str, str | os.PathLike]) -> Comparison:
    """Opens the results of several models.

        comparison = xmodal.compare({"multitask": "runs/quickstart", "other": "results/other"})
        print(comparison.table())

    Args:
      results: name of a model -> its run, whose final evaluation is used, or a folder written by
        `xmodal.eval_main` or `Evaluation.save`; or a pattern with `*` of runs of several seeds, if
        it is one for all models.
    """
    if not isinstance(results, Mapping):
        raise UserError(f"results are {results!r}; pass a mapping of names to folders.")
    if len(results) < 2:
        raise UserError(f"A comparison needs at least two models; given: {list(results)}.")
    return open_results(results)


def open_results(results: Mapping[str, str | os.PathLike]) -> Comparison:
    """Opens the results of one or more models; see `compare` for arguments and errors."""
    runs = {name: find_runs(folder) for name, folder in results.items()}
    if max(map(len, runs.values())) > 1:
        comparison: Comparison = SeedComparison(runs)
    else:
        comparison = Comparison({name: folder for name, (folder,) in runs.items()})
    comparison.check_labels()
    return comparison


@console.readable_errors()
def main() -> None:
    """Prints the comparison that the command line names."""
    parser = make_parser("compare", __doc__)
    parser.add_argument("models", nargs="+", metavar="[NAME=]FOLDER", help="runs or results")
    parser.add_argument("--metrics", type=name_list, help="tags, * for any characters")
    parser.add_argument("--latex", action="store_true", help="LaTeX in place of Markdown")
    args = parser.parse_args()
    comparison = compare(read_names(args.models))
    format = "latex" if args.latex else "markdown"
    print(comparison.table(args.metrics, format), end="\n\n")
    ours, *others = comparison.metrics
    tables = (comparison.differences(ours, each, format, args.metrics) for each in others)
    print("\n".join(tables), end="")


if __name__ == "__main__":
    console.run(main)

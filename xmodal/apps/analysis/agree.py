r"""Compares metrics by how they rank models: Kendall's tau-b, ranks and a bump chart.

    python -m xmodal agree --models=OUT1,OUT2,OUT3 --output=AGREEMENT

--models takes folders of evaluations and JSON tables {model: {tag: number}}.
"""

from collections.abc import Sequence

from xmodal.apps.analysis.agreement.agreement_report import write_agreement
from xmodal.apps.analysis.agreement.metric_tables import (
    check_labels,
    choose_metrics,
    describe_left_out,
    load_models,
)
from xmodal.apps.arguments import make_parser, name_list
from xmodal.core import console
from xmodal.core.errors import UserError
from xmodal.core.result_files import check_writable


@console.readable_errors()
def main() -> None:
    """Compares the metrics that the command line names."""
    parser = make_parser("agree", __doc__)
    parser.add_argument(
        "--models", type=name_list, required=True, help="result folders, JSON tables"
    )
    parser.add_argument("--metrics", type=name_list, help="tags to compare, * for any characters")
    parser.add_argument("--output", required=True, help="folder for the tables and the chart")
    args = parser.parse_args()
    check_writable(args.output)
    print(compare(args.models, args.output, args.metrics), flush=True)


def compare(paths: Sequence[str], output: str, metrics: Sequence[str] | None = None) -> str:
    """Compares the metrics of several models and writes the result.

    Args:
      paths: JSON tables of models and folders of evaluations; see `load_models`.
      output: folder to write to; see `write_agreement`.
      metrics: tags to compare; None for the usual ones, see `choose_metrics`.

    Returns:
      The Markdown that was written.
    """
    models = load_models(paths)
    notes = check_labels(paths)
    if len(models) < 2:
        raise UserError(
            f"Metrics are compared by how they rank models, and {list(paths)} has only "
            f"{next(iter(models))!r}: name two or more."
        )
    if metrics is None and (left_out := describe_left_out(models)):
        notes = (*notes, left_out)
    return write_agreement(models, choose_metrics(models, metrics), output, notes=notes)


if __name__ == "__main__":
    console.run(main)

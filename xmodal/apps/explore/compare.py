"""Results of several models side by side: tables, paired differences, ranks and agreement."""

import math
import os
from collections.abc import Mapping, Sequence

from etils import epath

from xmodal.apps.analysis.agreement.agreement_report import format_agreement
from xmodal.apps.analysis.agreement.bump_chart import draw_bump_chart
from xmodal.apps.analysis.agreement.metric_choice import choose_metrics
from xmodal.apps.analysis.agreement.model_table import load_models
from xmodal.apps.analysis.agreement.rank_correlation import kendall_tau_b, ranks_of_models
from xmodal.apps.analysis.agreement.same_labels import check_labels
from xmodal.base.config import UserError, lookup
from xmodal.base.text_table import format_table
from xmodal.evals.reports.paired_differences import Difference, Differences
from xmodal.evals.reports.paired_differences import compare as compare_results
from xmodal.evals.reports.store import RANKS, load_ranks
from xmodal.evals.results import evaluator_tag
from xmodal.runs.folder.finished import FINAL

_NUMBERS = "metrics.json"
_SINGLE = "."


def compare(results: Mapping[str, str | os.PathLike]) -> "Comparison":
    """Opens the results of several models.

        comparison = xmodal.compare({"multitask": "runs/quickstart", "other": "results/other"})
        print(comparison.table())

    Args:
      results: name of a model -> its run, whose final evaluation is used, or a folder written by
        `xmodal.eval_main` or `Evaluation.save`.

    Raises:
      UserError: there are fewer than two models, a folder has no results, or the labels differ.
    """
    if not isinstance(results, Mapping):
        raise UserError(f"results are {results!r}; pass a mapping of names to folders.")
    if len(results) < 2:
        raise UserError(f"A comparison needs at least two models; given: {list(results)}.")
    folders = {name: _find(folder) for name, folder in results.items()}
    for evaluator in sorted({each for folder in folders.values() for each in _evaluators(folder)}):
        paths = [folder / evaluator for folder in folders.values()]
        check_labels([os.fspath(path) for path in paths if (path / RANKS).exists()])
    return Comparison(folders)


def _find(folder: str | os.PathLike) -> epath.Path:
    path = epath.Path(folder)
    for place in (path, path / FINAL):
        if (place / _NUMBERS).exists():
            return place
    raise UserError(f"{path} is neither a finished run nor the results of an evaluation.")


def _evaluators(folder: epath.Path) -> list[str]:
    """Folders of evaluators in the folder of all results; `_SINGLE` for a single evaluation."""
    if (folder / RANKS).exists():
        return [_SINGLE]
    return sorted(path.name for path in folder.iterdir() if (path / RANKS).exists())


def _tag(evaluator: str, tag: str) -> str:
    return tag if evaluator == _SINGLE else evaluator_tag(evaluator, tag)


class Comparison:
    """Results of several models; made by `xmodal.compare`.

    Attributes:
      metrics: model -> tag -> number, as `metrics.json` has them, NaN where undefined.
    """

    def __init__(self, folders: Mapping[str, epath.Path]) -> None:
        """Reads the numbers; `folders` has the folders of the results by model."""
        self._folders = dict(folders)
        self.metrics: dict[str, dict[str, float]] = {}
        for name, folder in folders.items():
            (self.metrics[name],) = load_models([os.fspath(folder)]).values()

    def table(self, tags: Sequence[str] | None = None) -> str:
        """Returns a Markdown table with a row for every metric and a column for every model.

        Args:
          tags: tags of `metrics.json`; None for the default ones.

        Raises:
          UserError: no model has a metric with that tag.
        """
        rows = [["", *self.metrics]]
        # A metric that is undefined for some models is a row, too.
        reported = {name: dict.fromkeys(numbers, 0.0) for name, numbers in self.metrics.items()}
        for tag in choose_metrics(reported, tags, at_least=1):
            found = (numbers.get(tag, math.nan) for numbers in self.metrics.values())
            rows.append([tag, *("-" if math.isnan(x) else f"{x:.2f}" for x in found)])
        return format_table(rows)

    def differences(self, ours: str, theirs: str) -> str:
        """Returns a Markdown table of the paired differences of two models, with intervals.

        Evaluations without values for single items or samples, such as those of type `pairs`, are
        left out. Tags are those of `metrics.json`.

        Raises:
          UserError: a model is unknown, or they have no evaluation in common.
        """
        left, right = (lookup("model", name, self._folders) for name in (ours, theirs))
        shared = [each for each in _evaluators(left) if (right / each / RANKS).exists()]
        if not shared:
            raise UserError(f"{left} and {right} have no evaluation in common.")
        found: dict[str, Difference] = {}
        for name in shared:
            stored = [load_ranks(folder / name) for folder in (left, right)]
            if all(each.results or each.numbers for each in stored):
                differences = compare_results(*stored)
                found |= {_tag(name, tag): each for tag, each in differences.items()}
        if not found:
            raise UserError(
                f"The evaluations {shared} of {left} and {right} have no values for single items "
                "or samples to compare; evaluate both on boards or in pools."
            )
        return str(Differences(found, name=ours, other=theirs))

    def agreement(self, tags: Sequence[str] | None = None) -> str:
        """Returns Markdown with Kendall's tau-b between metrics, and the models' ranks by each.

        See `table` for `tags`.
        """
        chosen = choose_metrics(self.metrics, tags)
        found = kendall_tau_b(self.metrics, chosen)
        return format_agreement(found, ranks_of_models(self.metrics, chosen))

    def draw_ranks(self, tags: Sequence[str] | None = None) -> bytes:
        """Returns a PNG with a line per model over the metrics; see `table` for `tags`."""
        ranks = ranks_of_models(self.metrics, choose_metrics(self.metrics, tags))
        return draw_bump_chart(ranks, title=f"Ranks of {len(self.metrics)} models")

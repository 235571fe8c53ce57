r"""Results of several models side by side: tables, paired differences, ranks and agreement.

    python -m xmodal compare multitask=runs/quickstart other=results/other
    python -m xmodal compare runs/a runs/b --metrics=shapes/i2t/recall@1 --latex
    python -m xmodal compare "runs/a_*" "runs/b_*"

The command prints the table, and the paired differences of the first model from every other one. A
pattern names the runs of several seeds: the table has their means and standard deviations, and the
differences are tested over the runs, paired if both models have the same seeds.
"""

import contextlib
import functools
import glob
import itertools
import math
import os
from collections.abc import Mapping, Sequence

import numpy as np
from etils import epath

from xmodal.apps.analysis.agree import draw_bump_chart, format_agreement, ranks_of_models
from xmodal.apps.analysis.metric_tables import (
    check_labels,
    choose_metrics,
    find_same,
    load_models,
)
from xmodal.apps.arguments import make_parser, name_list
from xmodal.core import console
from xmodal.core.config import lookup
from xmodal.core.errors import UserError
from xmodal.core.json_files import read_json
from xmodal.core.result_files import FINAL
from xmodal.core.text_table import Bold, format_table
from xmodal.evals.reports.metrics import lower_is_better
from xmodal.evals.reports.paired_differences import (
    Difference,
    Differences,
    UnequalCandidatesError,
    compare_means,
)
from xmodal.evals.reports.paired_differences import compare as compare_results
from xmodal.evals.reports.results import evaluator_tag
from xmodal.evals.reports.store import RANKS, SINGLE, find_evaluations, load_ranks


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


def read_names(models: Sequence[str]) -> dict[str, str]:
    """Returns name -> folder for arguments `[NAME=]FOLDER`."""
    folders: dict[str, str] = {}
    for given in models:
        name, equals, folder = given.partition("=")
        if not equals or glob.glob(given):  # The folder's own name has an "=".
            name, folder = os.path.basename(os.path.normpath(given)), given
            name = given if glob.has_magic(given) else name
        if name in folders:
            raise UserError(
                f"{folders[name]} and {folder} share the name {name!r}: write NAME=FOLDER."
            )
        folders[name] = folder
    return folders


def compare(results: Mapping[str, str | os.PathLike]) -> "Comparison":
    """Opens the results of several models.

        comparison = xmodal.compare({"multitask": "runs/quickstart", "other": "results/other"})
        print(comparison.table())

    Args:
      results: name of a model -> its run, whose final evaluation is used, or a folder written by
        `xmodal.eval_main` or `Evaluation.save`; or a pattern with `*` of runs of several seeds, if
        it is one for all models.
    """
    if not isinstance(results, Mapping) or len(results) < 2:
        raise UserError(f"results are {results!r}; pass two or more names and their folders.")
    return open_results(results)


def open_results(results: Mapping[str, str | os.PathLike]) -> "Comparison":
    """Opens the results of one or more models; see `compare` for arguments and errors."""
    runs = {name: _find_runs(folder) for name, folder in results.items()}
    if max(map(len, runs.values())) > 1:
        comparison: Comparison = SeedComparison(runs)
    else:
        comparison = Comparison({name: folder for name, (folder,) in runs.items()})
    return comparison


def _find_runs(given: str | os.PathLike) -> list[epath.Path]:
    """The results in a folder, or in all folders of a pattern."""
    given, places = os.fspath(given), []
    found = [] if epath.Path(given).exists() else sorted(glob.glob(given))
    for folder in map(epath.Path, [each for each in found if os.path.isdir(each)] or [given]):
        place = folder if (folder / "metrics.json").exists() else folder / FINAL
        if not (place / "metrics.json").exists():
            raise UserError(f"{folder} is neither a finished run nor the results of an evaluation.")
        places.append(place)
    return places


def _evaluations_of(folders: Mapping[str, epath.Path]) -> dict[str, dict[str, epath.Path]]:
    """Model -> evaluator -> its folder, where an evaluator has one name for all models.

    A single evaluation, as of own functions, has the name of the evaluator of another model's run
    that has the same labels and records; `SINGLE` if all are single.
    """
    found = {model: find_evaluations(folder) for model, folder in folders.items()}
    named = next((each for each in found.values() if each and SINGLE not in each), None)
    for model, each in found.items():
        if named and SINGLE in each:
            same = find_same(each[SINGLE], named)
            if len(same) != 1:
                places = ", ".join(map(str, named.values()))
                raise UserError(
                    f"The labels and records of {model} in {folders[model]} are those of "
                    f"{'several' if same else 'none'} of {places}: evaluate on the same split, or "
                    "name one of these folders in place of the run."
                )
            found[model] = {same[0]: each[SINGLE]}
    return found


def _tag_of(evaluator: str, tag: str) -> str:
    """The tag in `metrics.json` of a metric of an evaluation."""
    return tag if evaluator == SINGLE else evaluator_tag(evaluator, tag)


def _read_seed(results: epath.Path) -> str:
    """The seed of the run that has these results; "" if it is not known."""
    config = results.parent / "config.json"
    found = read_json(config, "use another folder.") if config.exists() else {}
    return str(found.get("seed", ""))


class Comparison:
    """Results of several models; made by `xmodal.compare`.

    Attributes:
      metrics: model -> tag -> number, as `metrics.json` has them, NaN where undefined.
    """

    def __init__(self, folders: Mapping[str, epath.Path]) -> None:
        """Reads the numbers; `folders` has the folders of the results by model."""
        self._evaluations = _evaluations_of(folders)
        self._differences = functools.cache(self._compute_differences)
        self.metrics: dict[str, dict[str, float]] = {}
        for name, folder in folders.items():
            (found,) = load_models([os.fspath(folder)]).values()
            if (folder / RANKS).exists():
                (evaluator,) = self._evaluations[name]
                found = {_tag_of(evaluator, tag): value for tag, value in found.items()}
            self.metrics[name] = found
        for evaluator in {each for found in self._evaluations.values() for each in found}:
            places = (each[evaluator] for each in self._evaluations.values() if evaluator in each)
            check_labels([os.fspath(place) for place in places])

    def table(self, tags: Sequence[str] | None = None, format: str = "markdown") -> str:
        """Returns a table with a row for every metric and a column for every model.

        Args:
          tags: tags of `metrics.json`, `*` for any characters; None for a selection.
          format: "markdown"; or "latex", with 95 % intervals, and in bold the best of every row and
            all that are not separable from it: by the paired difference, or, where values by query
            are not stored, because their intervals overlap.
        """
        rows = [["", *self.metrics]]
        for tag in self._choose(tags):
            best = self.find_best(tag) if format == "latex" else ()
            cells = [(name, self._cell(name, tag, format)) for name in self.metrics]
            rows.append([tag, *(Bold(cell) if name in best else cell for name, cell in cells)])
        return format_table(rows, format)

    def _choose(self, tags: Sequence[str] | None) -> tuple[str, ...]:
        # A metric that is undefined for some models is a row, too.
        reported = {name: dict.fromkeys(numbers, 0.0) for name, numbers in self.metrics.items()}
        return choose_metrics(reported, tags, at_least=1)

    def differences(
        self,
        ours: str,
        theirs: str,
        format: str = "markdown",
        tags: Sequence[str] | None = None,
    ) -> str:
        """Returns a table of the paired differences of two models, with intervals.

        Evaluations without values for single items or samples, such as those of type
        `embedding_similarity`, are left out. Tags are those of `metrics.json`; `tags` chooses some,
        as in `table`.
        """
        for name in (ours, theirs):
            lookup("model", name, self.metrics)
        found = self._differences(ours, theirs)
        if not found:
            raise UserError(
                f"{ours} and {theirs} have no evaluation in common that can be compared: evaluate "
                "both on benchmarks or in pools, with equal `top` and `first_stage` of a reranker."
            )
        return found.table(format, None if tags is None else self._choose(tags))

    def _compute_differences(self, ours: str, theirs: str) -> Differences:
        """Paired differences by the tags of `metrics`; empty without values by query."""
        found: dict[str, Difference] = {}
        drawn, theirs_too = "", self._evaluations[theirs]
        for name in (each for each in self._evaluations[ours] if each in theirs_too):
            stored = [load_ranks(self._evaluations[model][name]) for model in (ours, theirs)]
            if all(each.results for each in stored):
                # Second stages on other candidates cannot be compared.
                with contextlib.suppress(UnequalCandidatesError):
                    differences = compare_results(*stored)
                    found |= {_tag_of(name, tag): each for tag, each in differences.items()}
                    drawn = drawn or differences.drawn
        return Differences(found, name=ours, other=theirs, drawn=drawn)

    def rank_limits(self, tag: str) -> dict[str, tuple[int, int]]:
        """Returns the best and the worst rank that a model can have by a metric.

        The best is 1 plus the number of models that are separably better, the worst the number of
        models minus that of those which are separably worse, see `separates`.

        Args:
          tag: tag of `metrics`.

        Returns:
          Model -> ranks from 1, of the models that have the metric.
        """
        values, ahead = self._values(tag), -1.0 if lower_is_better(tag) else 1.0
        better, worse = dict.fromkeys(values, 0), dict.fromkeys(values, 0)
        for one, other in itertools.combinations(values, 2):
            difference = ahead * (values[one] - values[other])
            if difference and self.separates(one, other, tag):
                first, second = (one, other) if difference > 0 else (other, one)
                better[second] += 1
                worse[first] += 1
        return {name: (1 + better[name], len(values) - worse[name]) for name in values}

    def _values(self, tag: str) -> dict[str, float]:
        """The models that have a metric, and its values."""
        values = {name: numbers.get(tag, math.nan) for name, numbers in self.metrics.items()}
        return {name: value for name, value in values.items() if not math.isnan(value)}

    def find_best(self, tag: str) -> list[str]:
        """Returns the models with the best value of a metric, or not separable from it."""
        values = self._values(tag)
        if len(values) < 2:
            return []
        best = (min if lower_is_better(tag) else max)(values, key=lambda name: values[name])
        return [name for name in values if name == best or not self.separates(best, name, tag)]

    def separates(self, ours: str, theirs: str, tag: str) -> bool:
        """Returns whether a metric of two models is separable from noise.

        By the paired difference, or, where values by query are not stored or second stages scored
        other candidates, because their intervals do not overlap.
        """
        ours, theirs = sorted((ours, theirs))  # Their differences are computed once.
        paired = self._differences(ours, theirs).get(tag)
        if paired is not None:
            return paired.separable
        (low, high), (other_low, other_high) = (self.limits(name, tag) for name in (ours, theirs))
        return low > other_high or high < other_low

    def limits(self, model: str, tag: str) -> tuple[float, float]:
        """Returns the interval of a metric; the value itself without one."""
        numbers = self.metrics[model]
        low, high = (numbers.get(f"{tag}_{end}", numbers[tag]) for end in ("low", "high"))
        return low, high

    def _cell(self, model: str, tag: str, format: str) -> str:
        value = self.metrics[model].get(tag, math.nan)
        if math.isnan(value):
            return "-"
        low, high = self.limits(model, tag)
        with_interval = format == "latex" and low < high
        return f"{value:.2f} [{low:.2f}, {high:.2f}]" if with_interval else f"{value:.2f}"

    def agreement(self, tags: Sequence[str] | None = None, format: str = "markdown") -> str:
        """Returns tables of Kendall's tau-b between metrics, and of the models' ranks by each.

        See `table` for `tags`.
        """
        return format_agreement(self.metrics, choose_metrics(self.metrics, tags), format)

    def draw_ranks(self, tags: Sequence[str] | None = None) -> bytes:
        """Returns a PNG with a line per model over the metrics; see `table` for `tags`."""
        ranks = ranks_of_models(self.metrics, choose_metrics(self.metrics, tags))
        return draw_bump_chart(ranks, title=f"Ranks of {len(self.metrics)} models")


class SeedComparison(Comparison):
    """Means over several runs of every model, such as of several seeds; see `Comparison`.

    Attributes:
      metrics: model -> tag -> mean; `_std` of a tag is the sample standard deviation of the runs.
    """

    def __init__(self, runs: Mapping[str, Sequence[epath.Path]]) -> None:
        """Reads the numbers of the runs of every model; `runs` has their folders."""
        super().__init__({os.fspath(each): each for folders in runs.values() for each in folders})
        self._seeds: dict[str, list[str]] = {}
        self._of_runs: dict[str, dict[str, list[float]]] = {}
        for name, folders in runs.items():
            if len(folders) < 2:
                raise UserError(
                    f"{name} has one run, {folders[0]}, and another model several: the variance "
                    "between seeds needs two runs or more of each."
                )
            seeds = sorted((_read_seed(each), os.fspath(each)) for each in folders)
            self._seeds[name] = [seed for seed, _ in seeds]
            numbers = {run: self.metrics[run] for _, run in seeds}
            self._of_runs[name] = {
                tag: [each.get(tag, math.nan) for each in numbers.values()]
                for tag in choose_metrics(numbers, ["*"], at_least=1)
            }
        self.metrics = {
            name: {tag: float(np.mean(values)) for tag, values in found.items()}
            | {f"{tag}_std": float(np.std(values, ddof=1)) for tag, values in found.items()}
            for name, found in self._of_runs.items()
        }

    def _compute_differences(self, ours: str, theirs: str) -> Differences:
        """Differences of the means over runs."""
        seeds, others = self._seeds[ours], self._seeds[theirs]
        paired = seeds == others and "" not in seeds and len(set(seeds)) == len(seeds)
        values = self._of_runs[ours], self._of_runs[theirs]
        how = f"paired by their seeds, {', '.join(seeds)}" if paired else "not paired (Welch)"
        shared = f"Means of {len(seeds)} and {len(others)} runs, {how}."
        found = compare_means(*values, "runs", paired=paired)
        return Differences(found, name=ours, other=theirs, shared=shared)

    def _cell(self, model: str, tag: str, format: str) -> str:
        value, deviation = super()._cell(model, tag, format), self.metrics[model].get(f"{tag}_std")
        return value if value == "-" or deviation is None else f"{value} ± {deviation:.2f}"


if __name__ == "__main__":
    console.run(main)

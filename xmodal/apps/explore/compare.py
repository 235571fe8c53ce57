r"""Results of several models side by side: tables, paired differences, ranks and agreement.

    python -m xmodal compare multitask=runs/quickstart other=results/other
    python -m xmodal compare runs/a runs/b --metrics=shapes/i2t/recall@1 --latex
    python -m xmodal compare "runs/a_*" b=runs/b_0,runs/b_1 results/c
    python -m xmodal compare runs/a --clip_benchmark > results.csv

The command prints the table, and the paired differences of the first model from every other one. A
pattern, a list, or a folder of runs `seed_*` names the runs of several seeds: the table has their
means and standard deviations, and differences are tested over the runs, paired if both models have
the same seeds; `xmodal leaderboard` draws the means and every run.
"""

import functools
import itertools
import math
import os
from collections.abc import Mapping, Sequence

import numpy as np
from etils import epath

from xmodal.apps.analysis.agree import format_agreement, tau_intervals
from xmodal.apps.analysis.metric_tables import check_labels, choose_metrics
from xmodal.apps.arguments import make_parser, name_list, read_names
from xmodal.apps.explore.clip_benchmark import format_clip_benchmark
from xmodal.apps.explore.result_folders import find_runs, match_evaluations, read_seed
from xmodal.core import console
from xmodal.core.config import lookup
from xmodal.core.errors import UserError
from xmodal.core.files import read_numbers
from xmodal.core.text_table import Bold, format_table
from xmodal.evals.reports.evaluation import SINGLE, load_ranks
from xmodal.evals.reports.metrics import lower_is_better
from xmodal.evals.reports.paired_differences import (
    Difference,
    Differences,
    compare_means,
)
from xmodal.evals.reports.paired_differences import compare as compare_results
from xmodal.evals.reports.results import evaluator_tag


@console.readable_errors()
def main() -> None:
    """Prints the comparison that the command line names."""
    parser = make_parser("compare", __doc__)
    parser.add_argument("models", nargs="+", metavar="[NAME=]FOLDER", help="runs or results")
    parser.add_argument("--metrics", type=name_list, help="tags, * for any characters")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--latex", action="store_true", help="LaTeX in place of Markdown")
    kind.add_argument("--clip_benchmark", action="store_true", help="only CLIP_benchmark's CSV")
    args = parser.parse_args()
    comparison = compare(read_names(args.models))
    if args.clip_benchmark:
        print(format_clip_benchmark(comparison.metrics), end="")
        return
    format = "latex" if args.latex else "markdown"
    print(comparison.table(args.metrics, format), end="\n\n")
    ours, *others = comparison.metrics
    tables = (comparison.differences(ours, each, format, args.metrics) for each in others)
    print("\n".join(tables), end="")


def compare(results: Mapping[str, str | os.PathLike]) -> "Comparison":
    """Opens the results of several models.

        comparison = xmodal.compare({"multitask": "runs/quickstart", "other": "results/other"})
        print(comparison.table())

    Args:
      results: name of a model -> its run, whose final evaluation is used, or a folder written by
        `xmodal.eval_main` or `Evaluation.save`; or runs of several seeds, see
        `find_runs`, if all models have several.
    """
    return Comparison(results)


def _tag_of(evaluator: str, tag: str) -> str:
    """The tag in `metrics.json` of a metric of an evaluation."""
    return tag if evaluator == SINGLE else evaluator_tag(evaluator, tag)


class Comparison:
    """Results of several models, or of several runs of each; made by `xmodal.compare`.

    Attributes:
      metrics: model -> tag -> number, as `metrics.json` has them, NaN where undefined; of several
        runs the means, and `_std` of a tag, the sample standard deviation of the runs.
      runs: of several runs, model -> tag -> the number of every run, in the order of their seeds.
    """

    def __init__(self, results: Mapping[str, str | os.PathLike]) -> None:
        """Reads the numbers; see `compare`, also for one model."""
        self._folders = {name: find_runs(given) for name, given in results.items()}
        folders = list(itertools.chain(*self._folders.values()))
        self._evaluations = match_evaluations(folders)
        self._differences = functools.cache(self._compute_differences)
        self._labels: dict[str, str] = {}
        for evaluator in {each for found in self._evaluations.values() for each in found}:
            places = (each[evaluator] for each in self._evaluations.values() if evaluator in each)
            self._labels |= check_labels([os.fspath(place) for place in places])
        self._has_seeds = len(folders) > len(self._folders)
        self.metrics: dict[str, dict[str, float]] = {}
        self.runs: dict[str, dict[str, list[float]]] = {}
        for name, runs in self._folders.items():
            numbers = {os.fspath(run): self._read_numbers(run) for run in runs}
            if not self._has_seeds:
                (self.metrics[name],) = numbers.values()
                continue
            if len(runs) < 2:
                raise UserError(
                    f"{name} has one run, {runs[0]}, and another model several: the variance "
                    "between seeds needs two runs or more of each."
                )
            found = self.runs[name] = {
                tag: [each.get(tag, math.nan) for each in numbers.values()]
                for tag in choose_metrics(numbers, ["*"], at_least=1)
            }
            means = {tag: float(np.mean(values)) for tag, values in found.items()}
            deviations = {f"{tag}_std": float(np.std(x, ddof=1)) for tag, x in found.items()}
            self.metrics[name] = means | deviations

    @property
    def places(self) -> dict[str, list[epath.Path]]:
        """The evaluation folders of every model; for several runs, those of the first one."""
        return {
            name: [*self._evaluations[runs[0]].values()] for name, runs in self._folders.items()
        }

    def _read_numbers(self, folder: epath.Path) -> dict[str, float]:
        found = read_numbers(folder / "metrics.json", "evaluate again.")
        evaluations = self._evaluations[folder].items()
        if single := [evaluator for evaluator, place in evaluations if place == folder]:
            found = {_tag_of(single[0], tag): value for tag, value in found.items()}
        return found

    def table(self, tags: Sequence[str] | None = None, format: str = "markdown") -> str:
        """Returns a table with a row for every metric and a column for every model.

        Args:
          tags: tags of `metrics.json`, `*` for any characters; None for a selection.
          format: "markdown"; or "latex", with 95 % intervals, and in bold the best of every row and
            all that are not separable from it: by the paired difference, or, where values by query
            are not stored, because their intervals overlap.
        """
        runs = {name: f" ({len(each)} runs)" for name, each in self._folders.items()}
        rows = [["", *(f"{name}{runs[name] * self._has_seeds}" for name in self.metrics)]]
        for tag in self.choose(tags):
            best = self.find_best(tag) if format == "latex" else ()
            intervals = format == "latex"
            cells = [(x, self.format(x, tag, intervals=intervals)) for x in self.metrics]
            rows.append([tag, *(Bold(cell) if name in best else cell for name, cell in cells)])
        return format_table(rows, format)

    def choose(self, tags: Sequence[str] | None) -> tuple[str, ...]:
        """Returns the tags that these patterns choose, see `table`."""
        # A metric that is undefined for some models is a row as well.
        reported = {name: dict.fromkeys(numbers, 0.0) for name, numbers in self.metrics.items()}
        return choose_metrics(reported, tags, at_least=1, paper=False)

    def differences(
        self,
        ours: str,
        theirs: str,
        format: str = "markdown",
        tags: Sequence[str] | None = None,
    ) -> str:
        """Returns a table of the paired differences of two models, with intervals.

        Evaluations without values for single items or samples, such as those of type
        `embedding_similarity`, are left out. Means over runs are compared by a t-test. Tags are
        those of `metrics.json`; `tags` chooses some, as in `table`.
        """
        for name in (ours, theirs):
            lookup("model", name, self.metrics)
        found = self._differences(ours, theirs)
        if not found:
            raise UserError(
                f"{ours} and {theirs} have no evaluation in common that can be compared: evaluate "
                "both on benchmarks or in pools, with equal `top` and `first_stage` of a reranker."
            )
        return found.table(format, None if tags is None else self.choose(tags))

    def _compute_differences(self, ours: str, theirs: str) -> Differences:
        """Differences by the tags of `metrics`; empty without values by query."""
        runs = self._folders[ours], self._folders[theirs]
        if self._has_seeds:
            seeds, others = ([read_seed(run) for run in each] for each in runs)
            paired = seeds == others and "" not in seeds and len(set(seeds)) == len(seeds)
            how = f"paired by their seeds, {', '.join(seeds)}" if paired else "not paired (Welch)"
            shared = f"Means of {len(seeds)} and {len(others)} runs, {how}."
            means = compare_means(self.runs[ours], self.runs[theirs], "runs", paired=paired)
            return Differences(means, name=ours, other=theirs, shared=shared)
        found: dict[str, Difference] = {}
        own, other = (self._evaluations[run] for (run,) in runs)
        for name in (each for each in own if each in other):
            stored = load_ranks(own[name]), load_ranks(other[name])
            if all(each.results for each in stored):
                differences = compare_results(*stored).items()
                found |= {_tag_of(name, tag): each for tag, each in differences}
        return Differences(found, name=ours, other=theirs)

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
        best, worst = dict.fromkeys(values, 1), dict.fromkeys(values, len(values))
        for one, other in itertools.permutations(values, 2):
            if ahead * (values[one] - values[other]) > 0 and self.separates(one, other, tag):
                best[other] += 1
                worst[one] -= 1
        return {name: (best[name], worst[name]) for name in values}

    def _values(self, tag: str) -> dict[str, float]:
        """The models that have a metric, and its values."""
        values = {name: numbers.get(tag, math.nan) for name, numbers in self.metrics.items()}
        return {name: value for name, value in values.items() if not math.isnan(value)}

    def find_best(self, tag: str) -> list[str]:
        """Returns the models with the best value of a metric, or not separable from it."""
        values = self._values(tag)
        if len(values) < 2:
            return []
        best = (min if lower_is_better(tag) else max)(values, key=values.__getitem__)
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
        """Returns the interval of a metric or its mean over runs; the value twice without one."""
        numbers = self.metrics[model]
        if values := self.runs.get(model, {}).get(tag):
            mean = compare_means({tag: values}, {tag: [0.0] * len(values)}, "runs")[tag]
            return mean.low, mean.high
        low, high = (numbers.get(f"{tag}_{end}", numbers[tag]) for end in ("low", "high"))
        return low, high

    def format(self, model: str, tag: str, *, intervals: bool = True) -> str:
        """Returns a number with its deviation over several runs, or else with its interval."""
        value = self.metrics[model].get(tag, math.nan)
        if math.isnan(value):
            return "-"
        if tag in self.runs.get(model, {}):
            return f"{value:.2f} ± {self.metrics[model][f'{tag}_std']:.2f}"
        low, high = self.limits(model, tag)
        ends = f" [{low:.2f}, {high:.2f}]" if intervals and low < high else ""
        return f"{value:.2f}{ends}"

    def agreement(self, tags: Sequence[str] | None = None, format: str = "markdown") -> str:
        """Returns tables of Kendall's tau-b between metrics, and of the models' ranks by each.

        See `table` for `tags`.
        """
        chosen = choose_metrics(self.metrics, tags)
        limits = tau_intervals(self.metrics, chosen)
        return format_agreement(self.metrics, chosen, self._labels, limits, format)


if __name__ == "__main__":
    console.run(main)

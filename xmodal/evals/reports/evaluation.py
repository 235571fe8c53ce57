"""The result of evaluating any source: numbers, report and files."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath

from xmodal.core.files import format_csv, format_json, write_files
from xmodal.core.page import Page, from_markdown
from xmodal.evals.evaluators.benchmarks import BenchmarksEvaluator
from xmodal.evals.evaluators.evaluator import Evaluator, Provenance
from xmodal.evals.reports.examples import make_example_page
from xmodal.evals.reports.paired_differences import Differences, compare
from xmodal.evals.reports.report import format_report
from xmodal.evals.reports.results import Result, evaluator_tag
from xmodal.evals.reports.store import RANKS, StoredResults, find_ranks, pack_ranks
from xmodal.evals.reports.summary import compute_chance_values, summarize
from xmodal.evals.scores.embed import Items
from xmodal.evals.scores.sources import (
    Embeddings,
    ModelAdapter,
    RankedLists,
    ScoreMatrix,
)

# Files in the folder of an evaluation.
EXAMPLES = "examples.html"
REPORT = "report.html"
LATEX = "report.tex"
_COMPARISON = ("comparison.json", "comparison.md")


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """All results of one model on the labels of one evaluator; made by `evaluate_source`.

    Attributes:
      name: name of the model's row in the tables.
      results: one per benchmark, or the numbers of an evaluator without benchmarks.
      similarity: similarity that ranked the items; "none" without embeddings, or "scores" or
        "rankings" if those were given.
      provenance: provenance of the labels.
      samples: samples of every bootstrap.
      seed: seed of every bootstrap.
      evaluator: its name in `config.evals`; "" for a source from files.
      trained_on: hash of the records of the model's training data, by name, if known.
      page: example queries, see `examples.make_example_page`.
    """

    name: str
    results: Sequence[Result]
    similarity: str
    provenance: Provenance
    samples: int = 1000
    seed: int = 0
    evaluator: str = ""
    trained_on: Mapping[str, str] = dataclasses.field(default_factory=dict)
    page: Page | None = None

    @property
    def benchmarks(self) -> list[Result]:
        """The results that are benchmarks."""
        return [each for each in self.results if not each.metrics]

    @functools.cached_property
    def metrics(self) -> dict[str, float]:
        """Benchmark/direction/metric -> number, with 95 % intervals; see `summary.summarize`."""
        return summarize(self.results, intervals=True, samples=self.samples, seed=self.seed)

    @functools.cached_property
    def chance(self) -> dict[str, float]:
        """The values of a random order or a guess, by tag."""
        return compute_chance_values(self.results)

    @property
    def tagged(self) -> dict[str, float]:
        """`metrics` with the evaluator's name in front of every tag, see `evaluator_tag`."""
        return {evaluator_tag(self.evaluator, tag): x for tag, x in self.metrics.items()}

    def report(self, format: str = "markdown") -> str:
        """Returns the tables in "markdown" or "latex", see `report.format_report`."""
        return format_report(self, format)

    def __repr__(self) -> str:
        """Returns the report: consoles and notebooks show it in place of all ranks."""
        return self.report()

    _repr_markdown_ = __repr__

    @property
    def stored(self) -> StoredResults:
        """The results that can be compared with those of another model."""
        kept = [each for each in self.results if each.repeats or not each.metrics]
        return StoredResults(kept, self.name, records=self.provenance.records)

    def compare(self, other: "Evaluation | epath.PathLike | StoredResults") -> Differences:
        """Returns the paired differences from another model on the same labels, by tag.

        `other` is its evaluation, or its run, whose evaluation on these labels is found, or the
        folder of an evaluation or `ranks.npz` in it, or the result of `store.load_ranks`. The
        result prints as a table.
        """
        ours = self.stored
        if isinstance(other, Evaluation):
            other = other.stored
        if not isinstance(other, StoredResults):
            other = find_ranks(other, self.evaluator, ours.labels, ours.records)
        return compare(ours, other, samples=self.samples, seed=self.seed)

    def save(self, folder: epath.PathLike, *, comparison: Differences | None = None) -> None:
        """Writes `ranks.npz`, `benchmarks.json`, `report.md`, `metrics.csv` and `metrics.json`,
        last.

        A page of examples is written to `examples.html`, what `compare` returned to
        `comparison.json` and `comparison.md`; otherwise, those of an earlier evaluation are
        removed. `report.html` is the report as a web page, `report.tex` its tables in LaTeX, both
        with the comparison. Everything is computed before the first file is written, see
        `files.write_files`.
        """
        page, tables = self.report(), self.report("latex")
        facts = {each.name: self._describe(each) for each in self.results}
        contents: dict[str, str | bytes] = {
            RANKS: pack_ranks(self.stored),
            "benchmarks.json": format_json(facts),
            "report.md": page,
        }
        if self.page is not None:
            contents[EXAMPLES] = self.page.to_html()
            page += f"\n[Example queries]({EXAMPLES})\n"
        if comparison is not None:
            text = str(comparison)
            contents |= zip(_COMPARISON, (format_json(comparison.flatten()), text), strict=True)
            page += f"\n{text}"
            tables += f"\n{comparison.table('latex')}"
        contents[REPORT], contents[LATEX] = from_markdown(page).to_html(), tables
        contents["metrics.csv"] = format_csv(self.name, self.metrics)
        contents["metrics.json"] = format_json(self.metrics)
        write_files(folder, contents, stale={*_COMPARISON, EXAMPLES} - set(contents))

    def _describe(self, result: Result) -> dict[str, Any]:
        """A result for `benchmarks.json`."""
        directions = result.directions.items()
        return {
            "definition": result.definition,
            "label_hash": result.label_hash,
            "similarity": self.similarity,
            "bootstrap": {"samples": self.samples, "seed": self.seed},
            "galleries": {name: each.counts for name, each in directions},
            "skipped": dict(result.skipped),
            "rescored": {n: dataclasses.asdict(x.rescored) for n, x in directions if x.rescored},
            "missing": {f"{n}/{tag}": why for n, x in directions for tag, why in x.missing.items()},
            "records": dict(self.provenance.records),
            "trained_on": dict(self.trained_on),
        }


def evaluate_source(
    evaluator: Evaluator,
    adapter: ModelAdapter,
    *,
    name: str,
    evaluator_name: str = "",
    notes: Sequence[str] = (),
    trained_on: Mapping[str, str] | None = None,
    split: Items | None = None,
    examples: int = 0,
    other: StoredResults | None = None,
) -> Evaluation:
    """Returns the evaluation of a model by an evaluator; see `Evaluation` for details.

    Args:
      evaluator: the evaluator.
      adapter: the model, or a file of it.
      name: name of the model.
      evaluator_name: its name in `config.evals`.
      notes: notes on the model; they follow those on the labels.
      trained_on: see `Evaluation`.
      split: split of the labels, for examples of benchmarks; None for no examples.
      examples: number of queries per rule on the page of examples; 0 for no page.
      other: results to compare with, for the page.
    """
    results, source = evaluator.run(adapter), evaluator.source(adapter)
    similarity = "rankings" if isinstance(source, RankedLists) else "scores"
    if isinstance(source, Embeddings):
        # A model without embeddings has a similarity in name only.
        own = source.similarity if source.modalities else "none"
        similarity = evaluator.options.ranks_by or own
    page = None
    if (
        (examples and split is not None and isinstance(evaluator, BenchmarksEvaluator))
        # Files of candidates and lists lack the scores of most items.
        and isinstance(source, Embeddings | ScoreMatrix)
    ):
        page = make_example_page(evaluator, source, results, split, examples, name, other)
    provenance, options = evaluator.provenance, evaluator.options
    notes = [*provenance.notes, *notes]
    warnings = [*provenance.warnings, *evaluator.warnings()]
    return Evaluation(
        name=name, results=results, similarity=similarity,
        provenance=dataclasses.replace(provenance, notes=notes, warnings=warnings),
        samples=options.bootstrap_samples, seed=options.seed, evaluator=evaluator_name,
        trained_on=trained_on or {}, page=page,
    )  # fmt: skip

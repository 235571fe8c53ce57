"""The evaluators of a config, the splits that they use, and their results for any model."""

import collections
import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, cast

import jax
from jax.sharding import Mesh

from xmodal import data
from xmodal.core import processes
from xmodal.core.config import read
from xmodal.core.errors import UserError
from xmodal.evals import Evaluation, evaluate_source, make_evaluator
from xmodal.evals.evaluators import Evaluator, Options
from xmodal.evals.evaluators.benchmarks import BenchmarksOptions
from xmodal.evals.reports.evaluate import EXAMPLES
from xmodal.evals.reports.evaluation import Points, find_evaluations, find_ranks, find_same
from xmodal.evals.reports.paired_differences import check_comparable
from xmodal.evals.reports.results import evaluator_tag
from xmodal.evals.scores import files
from xmodal.evals.scores.embed import Items
from xmodal.evals.scores.sources import Embeddings, ModelAdapter
from xmodal.train.tensorboard import Views


@dataclasses.dataclass(frozen=True)
class Request:
    """Splits to evaluate, and pages and files beside the numbers.

    Attributes:
      split: split of the run's dataset; None for the final split of every evaluator.
      compare: results of another model, see `EvalSuite.load_others`; None for no comparison.
      examples: queries of every rule on the pages of examples; 0 for no pages.
      saved: kind -> file to write: "embeddings" (npz), of which all evaluators must share one set;
        "scores" (npz) that an evaluator of benchmarks ranks by; "rankings" (JSON), the first items
        of every query of the same evaluator.
      lenient: whether an evaluator that `compare` has no results of is left out, not an error.
    """

    split: str | None = None
    compare: str | None = None
    examples: int = EXAMPLES
    saved: Mapping[str, str] = dataclasses.field(default_factory=dict)
    lenient: bool = False


FINAL_SPLITS = Request()


class Subject(NamedTuple):
    """A model to evaluate.

    Attributes:
      name: name of its row in tables.
      adapter: the model.
      notes: items -> notes on the model, for the report.
      trained_on: hash of the records of the training data, by name.
      step: step of a run's checkpoint.
      curves: see `Evaluation`.
    """

    name: str
    adapter: ModelAdapter
    notes: Callable[[Items], Sequence[str]] = lambda items: ()
    trained_on: Mapping[str, str] | None = None
    step: int | None = None
    curves: Mapping[str, Points] | None = None


class EvalSuite:
    """Evaluators by name; each evaluator and split is opened once.

    Attributes:
      options: the options of every evaluator.
      datasets: `config.data` of every evaluator, with its own changes.
    """

    def __init__(
        self,
        options: Mapping[str, Options],
        run: data.DataConfig,
        modalities: Collection[str],
        mesh: Mesh,
        names: Collection[str] | None = None,
        train_split: str = "train",
    ) -> None:
        """Reads the datasets of the evaluators; none is opened.

        Args:
          options: options of the evaluators, by name.
          run: `config.data` of the run.
          modalities: the modalities that have embeddings, of "image" and "text".
          mesh: devices of the evaluators.
          names: evaluators to use; None for all.
          train_split: the split of `run` that is trained on.
        """
        if unknown := sorted(set(names or ()) - set(options)):
            raise UserError(f"Unknown evaluator(s) {unknown}; config.evals has {sorted(options)}.")
        self.options = {name: options[name] for name in options if not names or name in names}
        self.datasets = read_datasets(run, self.options)
        self._run, self._train_split = run, train_split
        self._modalities, self._mesh = modalities, mesh
        self._evaluators: dict[tuple[str, str], Evaluator] = {}
        self._splits: dict[tuple[str, str], Items] = {}

    def check(self, name: str, split: str) -> None:
        """Raises an error if a split is missing or lacks a column, see `data.prepare`."""
        splits = [split, *self.options[name].splits_read]
        data.prepare(self.datasets[name], splits=splits)

    def split_of(self, name: str, split: str | None) -> str:
        """Returns the split to evaluate: an evaluator with its own dataset keeps its final one."""
        options = self.options[name]
        return options.final_split if split is None or options.data is not None else split

    def items(self, name: str, split: str) -> Items:
        """Returns the split that an evaluator uses."""
        own, train_split = self.datasets[name], self._train_split
        key = (repr(own), split)
        if key not in self._splits:
            # The run's tokenizer reads the texts of any dataset.
            reads_text = self.options[name].data and self._run.text is not None
            tokenizer = data.load_tokenizer(self._run, train_split) if reads_text else None
            found = data.eval_split(own, split=split, tokenizer=tokenizer, train_split=train_split)
            self._splits[key] = cast(Items, found)
        return self._splits[key]

    def evaluator(self, name: str, split: str) -> Evaluator:
        """Returns the evaluator of a split; its labels are read at the first call."""
        if (name, split) not in self._evaluators:
            self.check(name, split)
            items = self.items(name, split)
            self._evaluators[name, split] = make_evaluator(
                name, self.options[name], items, self._modalities, self._mesh
            )
        return self._evaluators[name, split]

    def tags(self) -> dict[str, dict[str, str]]:
        """Returns evaluator -> tag of a metric -> the same without the evaluator."""
        found = {}
        for name, options in self.options.items():
            tags = self.evaluator(name, options.split).tags(self._modalities)
            found[name] = {evaluator_tag(name, tag): tag for tag in tags}
        return found

    def load_others(self, request: Request) -> dict[str, Evaluation]:
        """Opens all splits and returns stored results of another model by evaluator.

        Call it before any work, to find mistakes in a split or a comparison early.

        Args:
          request: names the split, and the folder of results, see `find_ranks`.
        """
        others = {}
        for name in self.options:
            evaluator = self.evaluator(name, self.split_of(name, request.split))
            labels, records = evaluator.hashes, evaluator.provenance.records
            if request.compare is None or not labels:  # It has no values of single queries.
                continue
            places = find_evaluations(request.compare)
            if request.lenient and name not in find_same(labels, records, places):
                continue
            others[name] = find_ranks(request.compare, name, labels, records)
            check_comparable(labels, others[name])
        return others

    def evaluate(
        self,
        subject: Subject,
        request: Request = FINAL_SPLITS,
        *,
        others: Mapping[str, Evaluation] | None = None,
        view: Views | None = None,
    ) -> list[Evaluation]:
        """Returns one evaluation per evaluator.

        Args:
          subject: the model.
          request: the splits to evaluate and the files to save.
          others: evaluator -> another model to compare with, for the pages of examples.
          view: called with every evaluation of embeddings.
        """
        adapter = subject.adapter
        used = {n: self.evaluator(n, self.split_of(n, request.split)) for n in self.options}
        # Files are checked before any work, and in all processes, which would wait for one that
        # failed.
        for kind, path in request.saved.items():
            ending = ".json" if kind == "rankings" else ".npz"
            check = functools.partial(files.check_savable, path, ending)
            processes.first_does(f"check {path}", check)
        sources = {kind: self._source_of(kind, used) for kind in request.saved}
        evaluations = []
        for name, evaluator in used.items():
            evaluation = evaluate_source(
                evaluator,
                adapter,
                name=subject.name,
                evaluator_name=name,
                notes=subject.notes(evaluator.split),
                trained_on=subject.trained_on,
                examples=request.examples,
                other=(others or {}).get(name),
                curves=subject.curves,
            )
            evaluations.append(evaluation)
            if view is not None and isinstance(source := evaluator.source(adapter), Embeddings):
                view(name, evaluator, source, evaluation.results)
        for kind, evaluator in sources.items():
            found = getattr(evaluator, kind)(adapter)  # In all processes.
            if jax.process_index() == 0:
                getattr(files, f"save_{kind}")(request.saved[kind], found)
        return evaluations

    def _source_of(self, kind: str, used: Mapping[str, Evaluator]) -> Evaluator:
        """Returns the only evaluator with embeddings, scores or rankings of its own."""
        named = self.options.items()
        if kind == "embeddings":
            names = [*{(id(used[n].split), repr(x.similarity)): n for n, x in named}.values()]
        else:
            names = [n for n, x in named if x.scores_pairs]
            names = names or [n for n, x in named if isinstance(x, BenchmarksOptions)]
        if len(names) != 1:
            raise UserError(
                f"--save_{kind} writes one set of {kind}, and these evaluators have their own: "
                f"{sorted(names)}. Use --evaluators to name one, or, for scores, set a reranker."
            )
        return used[names[0]]


def read_datasets(
    run: Mapping[str, Any] | data.DataConfig, options: Mapping[str, Options]
) -> dict[str, data.DataConfig]:
    """Returns `config.data` with the changes of each evaluator and the labels that it reads.

    Evaluators that differ only in the labels they read get all of these labels. They then share a
    split, and thus its embeddings.

    Args:
      run: `config.data` of the run.
      options: the evaluators.
    """
    found, labels = {}, collections.defaultdict[str, set[str]](set)
    run = read(data.DataConfig, "config.data", run)
    section = dataclasses.asdict(run)
    for name, each in options.items():
        where = f"config.evals.{name}.data"
        changed = data.with_changes({**section, "labels": each.labels_read}, each.data or {})
        own = read(data.DataConfig, where, changed)
        if own.text is not None and (text := run.text) is not None:
            vocabulary = own.text.vocabulary or text.vocabulary  # The run may have learned one.
            if dataclasses.replace(own.text, prompt=text.prompt, vocabulary=vocabulary) != text:
                raise UserError(
                    f"{where}.text may only change the prompt: every evaluator reads texts with "
                    "the tokenizer of config.data.text."
                )
        found[name] = dataclasses.replace(own, labels=())
        labels[repr(found[name])].update(own.labels)
    return {
        name: dataclasses.replace(each, labels=tuple(sorted(labels[repr(each)])))
        for name, each in found.items()
    }

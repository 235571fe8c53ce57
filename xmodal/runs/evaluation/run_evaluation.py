"""Evaluates a run: combines its model, the splits of its datasets and its evaluators.

The training loop, its final evaluation and `xmodal.eval_main` all call `RunEvaluation`, so their
numbers cannot differ.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import jax

from xmodal import data
from xmodal.base.config import UserError, lookup
from xmodal.evals import Embedder, Embeddings, Evaluation
from xmodal.evals.embed import Items
from xmodal.evals.evaluators import Options
from xmodal.evals.evaluators.evaluator import with_similarity
from xmodal.evals.example_page import check_examples
from xmodal.evals.inputs import arrays
from xmodal.evals.inputs.ensemble import average
from xmodal.evals.reports.store import StoredResults
from xmodal.evals.reports.summary import summarize
from xmodal.evals.results import evaluator_tag
from xmodal.runs.evaluation.suite import FINAL_SPLITS, EvalSuite, Opened, Request, evaluate_all
from xmodal.runs.parts import Parts
from xmodal.runs.predictors import make_predictors
from xmodal.runs.tensorboard.example_views import View
from xmodal.similarity import Similarity
from xmodal.training.optimization.schedules import is_due
from xmodal.training.state import TrainState
from xmodal.training.tree import Tree


class RunEvaluation:
    """Evaluates states and weights of one model; each side is compiled once.

    Attributes:
      parts: parts of the run.
      suite: its evaluators.
    """

    def __init__(
        self, parts: Parts, *, names: Collection[str] | None = None, trains: bool = True
    ) -> None:
        """Reads `config.evals` and prepares its datasets.

        Args:
          parts: parts of the run.
          names: evaluators to use; None for all.
          trains: whether training splits are evaluated too; their labels are read here.

        Raises:
          UserError: an unknown type, option, board or name; a dataset or model without the
            labels or sides of an evaluator; a run that waits for a metric that nothing reports.
          data.DatasetMissingError: a dataset is missing; says how to get it.
        """
        self.parts = parts
        self.suite = EvalSuite(parts.config.to_dict(), parts.model.towers, parts.mesh, names)
        for name, each in self.suite.options.items():
            for split in {each.split, each.final_split} if trains else ():
                self.suite.check(name, split)
        # Files may have changed since the same command last ran.
        datasets = [parts.settings.data, *self.suite.datasets]
        self.follows_files = any(map(data.follows_files, datasets))
        self._embedder = make_embedder(parts)
        if trains:
            self._check_awaited()

    def is_due(self, step: int) -> bool:
        """Returns whether an evaluator is due at a step of training."""
        return bool(self._due(step))

    def run_state(self, step: int, state: TrainState, view: View | None = None) -> dict[str, float]:
        """Returns the metrics of the evaluators that are due, evaluator/board/direction/metric.

        Args:
          step: step of the state.
          state: state with the same sharding as in training.
          view: called with every evaluation.
        """
        found: dict[str, float] = {}
        embedded = self.embedding(state.all_params(), state.model_state)
        for name in self._due(step):
            split = self.suite.options[name].split
            source, evaluator = embedded.get(name, split), self.suite.evaluator(name, split)
            results = evaluator.run(source)
            if view is not None:
                view(name, evaluator, source, results, self.suite.items(name, split))
            metrics = summarize(results, intervals=False)
            found |= {evaluator_tag(name, tag): value for tag, value in metrics.items()}
        return found

    def tags(self) -> dict[str, dict[str, str]]:
        """Returns evaluator -> tag of a metric -> the same without the evaluator."""
        towers = self.parts.model.towers
        return {
            name: {
                evaluator_tag(name, tag): tag
                for tag in self.suite.evaluator(name, options.split).tags(towers)
            }
            for name, options in self.suite.options.items()
        }

    def evaluate(
        self,
        params: Tree,
        model_state: Tree,
        *,
        name: str,
        request: Request = FINAL_SPLITS,
        notes: Callable[[Items], Sequence[str]] = lambda items: (),
        trained_on: Mapping[str, str] | None = None,
        together_with: Sequence["EmbeddingCache"] = (),
        others: Mapping[str, StoredResults] | None = None,
        view: View | None = None,
    ) -> list[Evaluation]:
        """Returns one evaluation per evaluator.

        Args:
          params: parameters of the model and its tasks.
          model_state: running statistics of the same.
          name: name of the model's row in tables.
          request: what to evaluate and to save.
          notes: items -> notes on the model, for the report.
          trained_on: hash of the records of the training data, by name.
          together_with: `embedding` of other models; the mean of all scores is evaluated.
          others: evaluator -> another model to compare with, for these pages.
          view: called with every evaluation.

        Raises:
          UserError: the split is unknown; the evaluators use several sets of embeddings but
            one is to be saved; or examples are requested and no evaluator has any.
        """
        check_examples(request.examples, self.suite.options)
        embedded = self.embedding(params, model_state)
        splits = {each: self.suite.split_of(each, request.split) for each in self.suite.options}
        similarity = None
        if request.save_embeddings is not None:
            keys = {embedded.key(*item) for item in splits.items()}
            similarity = _similarity_to_save(
                self.parts.model.similarity, self.suite.options.values(), keys
            )
        evaluations = evaluate_all(
            self._open_all(splits, embedded, together_with),
            name=name,
            notes=notes,
            trained_on=trained_on,
            examples=request.examples,
            others=others,
            view=view,
        )
        if request.save_embeddings is not None and jax.process_index() == 0:
            shared = with_similarity(embedded.get(*next(iter(splits.items()))), similarity)
            arrays.save_embeddings(request.save_embeddings, shared)
        return evaluations

    def embedding(self, params: Tree, model_state: Tree) -> "EmbeddingCache":
        """Returns the embeddings with these weights, each computed on first use."""
        return EmbeddingCache(self.parts, self.suite, self._embedder, (params, model_state))

    def _open_all(
        self,
        splits: Mapping[str, str],
        embedded: "EmbeddingCache",
        together_with: Sequence["EmbeddingCache"],
    ) -> Iterator[Opened]:
        for name, split in splits.items():
            source = embedded.get(name, split)
            if together_with:
                similarity = self.suite.options[name].similarity
                members = [source, *(other.get(name, split) for other in together_with)]
                source = average([with_similarity(each, similarity) for each in members])
            evaluator, items = self.suite.evaluator(name, split), self.suite.items(name, split)
            yield Opened(name, evaluator, items, source)

    def _due(self, step: int) -> list[str]:
        total_steps = self.parts.settings.total_steps
        return [
            name
            for name, options in self.suite.options.items()
            if is_due(step, options.every, total_steps)
        ]

    def _check_awaited(self) -> None:
        """Raises an error if no evaluator reports a tag that the config waits for."""
        known = self.tags()
        for where, tag in self.parts.settings.awaited_metrics.items():
            of_evaluator = lookup(where, tag.partition("/")[0], known)
            lookup(where, tag, of_evaluator)


class EmbeddingCache:
    """Embeddings from one set of weights, computed once for all evaluators that share them."""

    def __init__(
        self, parts: Parts, suite: EvalSuite, embedder: Embedder, weights: tuple[Tree, Tree]
    ) -> None:
        """Takes the weights `(params, model_state)` of a model and its tasks."""
        self._parts, self._suite = parts, suite
        self._embedder, self._weights = embedder, weights
        self._found: dict[Any, Embeddings] = {}

    def key(self, name: str, split: str) -> tuple[Any, str]:
        """Returns (items, field), shared by evaluators whose items have the same embeddings.

        Raises:
          UserError: the run has no such evaluator.
        """
        options = lookup(f"config.evals of {self._parts.config.name}", name, self._suite.options)
        field = options.field or self._parts.model.similarity.config.field
        return self._suite.items_key(name, split), field

    def get(self, name: str, split: str) -> Embeddings:
        """Returns the embeddings of the items that an evaluator uses; raises errors like `key`."""
        _, field = key = self.key(name, split)
        if key not in self._found:
            items, size = self._suite.items(name, split), self._suite.options[name].batch_size
            self._found[key] = self._embedder(*self._weights, items, size, field=field)
        return self._found[key]


def _similarity_to_save(
    of_model: Similarity, options: Collection[Options], keys: Collection[tuple[Any, str]]
) -> Mapping[str, Any] | None:
    """Returns the similarity, as in `Options`, that belongs to the embeddings of all evaluators.

    It is the one that they rank by. If there are several, it is None, the model's: a config gives
    each evaluator its own again.

    Raises:
      UserError: there are several sets of embeddings, or the model's similarity is of other arrays.
    """
    if len(keys) != 1:
        raise UserError(
            f"The evaluators use {len(keys)} sets of embeddings, but --save_embeddings writes "
            "one: use --evaluators to name evaluators that share a set."
        )
    first, *others = (each.similarity for each in options)
    if all(each == first for each in others):
        return first
    ((_, field),) = keys
    if field != of_model.config.field:
        raise UserError(
            f"The evaluators rank {field!r} by several similarities and --save_embeddings writes "
            "one: use --evaluators to name evaluators that share a similarity."
        )
    return None


def make_embedder(parts: Parts) -> Embedder:
    """Returns the embedder of a model and its tasks."""
    return Embedder(
        lambda *inputs: parts.model.embed(*inputs)[0],
        parts.model.towers,
        similarity=parts.model.similarity,
        mesh=parts.mesh,
        predict=make_predictors(parts.tasks),
    )

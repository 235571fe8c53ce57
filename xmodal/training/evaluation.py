"""Evaluates a run: joins its model, the splits of its datasets and its evaluators.

The loop, its final evaluation and `xmodal.eval_main` all call `RunEvaluation`, so their numbers
cannot differ.
"""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, cast

import jax
from absl import logging

from xmodal import data
from xmodal.config import UserError, lookup
from xmodal.evals import Embedder, Embeddings, Evaluation, judge, make_evaluator, read_options
from xmodal.evals.embed import Items
from xmodal.evals.evaluators import Evaluator
from xmodal.evals.evaluators.evaluator import with_similarity
from xmodal.evals.example_page import check_examples
from xmodal.evals.inputs import arrays
from xmodal.evals.inputs.ensemble import average
from xmodal.evals.reports.store import StoredResults, load_ranks
from xmodal.evals.reports.summary import summarize
from xmodal.evals.results import evaluator_tag
from xmodal.losses.similarity import make_similarity
from xmodal.tensorboard.views import TensorBoardConfig, View, Views
from xmodal.tensorboard.writer import make_writer
from xmodal.training import checkpoints, run_folder
from xmodal.training.eval_splits import SplitSource
from xmodal.training.finished import FINAL
from xmodal.training.parts import Parts
from xmodal.training.predictors import make_predictors
from xmodal.training.results import Judged, event_writer, write_all, write_model
from xmodal.training.run_records import training_hashes
from xmodal.training.sentence_notes import describe_sentences
from xmodal.training.state import TrainState
from xmodal.training.tree import Tree


class RunEvaluation:
    """Evaluates states and checkpoints of one model; each side is compiled once."""

    def __init__(
        self, parts: Parts, *, names: Collection[str] | None = None, trains: bool = True
    ) -> None:
        """Reads `config.evals` and prepares its datasets.

        Args:
          parts: of the run.
          names: evaluators to use; None for all.
          trains: whether the splits of training are evaluated too: their labels are read here.

        Raises:
          UserError: an unknown type, option, board or name; a dataset or model without the
            labels or sides of an evaluator; a run that waits for a metric that nothing reports.
          data.DatasetMissingError: a dataset is not there; says how to get it.
        """
        self._parts = parts
        options = read_options(parts.config.evals.to_dict())
        if unknown := sorted(set(names or ()) - set(options)):
            raise UserError(f"Unknown evaluator(s) {unknown}; config.evals has {sorted(options)}.")
        self.options = {name: options[name] for name in options if not names or name in names}
        own = parts.config.data.to_dict()
        self._sources = {
            name: SplitSource.of(own, name, each) for name, each in self.options.items()
        }
        for name, each in self.options.items():
            for split in {each.split, each.final_split} if trains else ():
                self._sources[name].check(split)
        # Files may have changed when the same command is given again.
        datasets = [parts.settings.data, *(source.own for source in self._sources.values())]
        self.follows_files = any(map(data.follows_files, datasets))
        self._evaluators: dict[tuple[str, str], Evaluator] = {}
        self._splits: dict[tuple[str, str], Items] = {}
        self._embedder = make_embedder(parts)
        if trains:
            self._check_awaited()

    @property
    def tensorboard(self) -> TensorBoardConfig:
        """How much TensorBoard shows beside numbers."""
        return self._parts.settings.tensorboard

    def is_due(self, step: int) -> bool:
        """Returns whether an evaluator is due at a step of training."""
        return bool(self._due(step))

    def run_state(self, step: int, state: TrainState, view: View | None = None) -> dict[str, float]:
        """Returns the metrics of the evaluators that are due, evaluator/board/direction/metric.

        Args:
          step: of the state.
          state: laid out as in training.
          view: is shown every evaluation.
        """
        found: dict[str, float] = {}
        embedded: dict[Any, Embeddings] = {}
        for name in self._due(step):
            split = self.options[name].split
            source = self._embed(name, split, state.all_params(), state.model_state, embedded)
            evaluator = self.evaluator(name, split)
            results = evaluator.run(source)
            if view is not None:
                view(name, evaluator, source, results, self.items(name, split))
            metrics = summarize(results, intervals=False)
            found |= {evaluator_tag(name, tag): value for tag, value in metrics.items()}
        return found

    def tags(self) -> dict[str, dict[str, str]]:
        """Returns evaluator -> tag of a metric -> the same without the evaluator."""
        towers = self._parts.model.towers
        return {
            name: {
                evaluator_tag(name, tag): tag
                for tag in self.evaluator(name, options.split).tags(towers)
            }
            for name, options in self.options.items()
        }

    def _check_awaited(self) -> None:
        """Refuses tags that the config waits for and no evaluator reports."""
        known = self.tags()
        for where, tag in self._parts.settings.awaited_metrics.items():
            lookup(where, tag, lookup(where, tag.partition("/")[0], known))

    def run_final(self, run_dir: str) -> list[Evaluation]:
        """Evaluates the best checkpoint of a run on the final splits into `RUN_DIR/test`."""
        output = os.path.join(run_dir, FINAL)
        return self.judge_checkpoints(run_dir, [run_folder.best_step(run_dir)], output)

    def judge_checkpoints(
        self,
        run_dir: str,
        steps: Iterable[int],
        output: str,
        *,
        split: str | None = None,
        compare: str | None = None,
        save_embeddings: str | None = None,
        examples: int = 0,
        follows: bool = False,
        keep_others: bool = False,
    ) -> list[Evaluation]:
        """Evaluates checkpoints one after the other; prints and writes all results.

        Args:
          run_dir: folder of the run.
          steps: some of its checkpoints.
          output: folder of the results, see `results.write_all`.
          split: of the run's own dataset; None for the final split of every evaluator.
          compare: folder of the results of another model, see `load_others`.
          save_embeddings: npz file for the embeddings of the split, see `embeddings`.
          examples: see `judge`.
          follows: whether the steps go on with those of an earlier call, whose curves then stay.
          keep_others: see `results.write_all`.

        Returns:
          One evaluation per evaluator, of the last checkpoint.

        Raises:
          UserError: no such step or split, models that differ, or a folder that cannot be written.
        """
        others = self.load_others(compare, split)
        records = training_hashes(run_dir)
        # As it is stored, with the words that it learned; the config in use may not name them yet.
        write_model(output, Judged.of_config(run_folder.load_run(run_dir), records))
        evaluations: list[Evaluation] = []
        opened = event_writer(output, self._parts.config.to_dict())
        if follows:  # Its curves go on, and the run that it follows has a row of settings.
            opened = contextlib.closing(make_writer(output))
        with opened as writer:
            for step in steps:
                try:
                    params, model_state = checkpoints.restore_model(
                        run_dir, step, self._parts.shapes, self._parts.mesh
                    )
                except (FileNotFoundError, ValueError):
                    if step in run_folder.steps(run_dir):
                        raise
                    # A run keeps its last few checkpoints only.
                    logging.warning("Checkpoint %d was replaced while it was read.", step)
                    continue
                views = Views(writer, self.tensorboard, step)
                evaluations = self.judge(
                    params,
                    model_state,
                    name=f"{self._parts.config.name} step {step}",
                    split=split,
                    notes=functools.partial(describe_sentences, self._parts.settings),
                    trained_on=records,
                    save_embeddings=save_embeddings,
                    examples=examples,
                    others=others,
                    view=views,
                )
                write_all(evaluations, output, others, views, step, keep_others=keep_others)
        return evaluations

    def judge(
        self,
        params: Tree,
        model_state: Tree,
        *,
        name: str,
        split: str | None = None,
        notes: Callable[[Items], Sequence[str]] = lambda split: (),
        trained_on: Mapping[str, str] | None = None,
        save_embeddings: str | None = None,
        together_with: Sequence[Callable[[str, str], Embeddings]] = (),
        examples: int = 0,
        others: Mapping[str, StoredResults] | None = None,
        view: View | None = None,
    ) -> list[Evaluation]:
        """Returns one evaluation per evaluator.

        Args:
          params: of the model and its tasks.
          model_state: the same.
          name: of the model's row in tables.
          split: of the run's own dataset; None for the final split of every evaluator.
          notes: split -> notes on the model, for the report.
          trained_on: hash of the records of the training data, by name.
          save_embeddings: npz file for the embeddings; all evaluators have to judge the same ones.
          together_with: `embedding` of other models; the means of all scores are judged.
          examples: queries of every rule on the pages of examples; 0 for no pages.
          others: evaluator -> another model to compare with, for these pages.
          view: is shown every evaluation.

        Raises:
          UserError: the split is unknown, or the evaluators judge several sets of embeddings where
            one is to be saved; examples are asked for, and no evaluator has any.
        """
        check_examples(examples, self.options)
        embedded: dict[Any, Embeddings] = {}
        evaluations = []
        for each in self.options:
            chosen = self.split_of(each, split)
            source = self._embed(each, chosen, params, model_state, embedded)
            if together_with:
                members = [source, *(embed(each, chosen) for embed in together_with)]
                own = self.options[each].similarity
                source = average([with_similarity(member, own) for member in members])
            evaluator, items = self.evaluator(each, chosen), self.items(each, chosen)
            evaluations.append(
                judge(
                    evaluator,
                    source,
                    name=name,
                    evaluator_name=each,
                    notes=notes(items),
                    trained_on=trained_on,
                    split=items,
                    examples=examples,
                    other=(others or {}).get(each),
                )
            )
            if view is not None:
                view(each, evaluator, source, evaluations[-1].results, items)
        if save_embeddings is not None:
            _save_one(save_embeddings, list(embedded.values()))
        return evaluations

    def embedding(self, params: Tree, model_state: Tree) -> Callable[[str, str], Embeddings]:
        """Returns the function (evaluator, split) -> embeddings, each computed once.

        It raises a `UserError` for an evaluator that this run does not have.
        """
        embedded: dict[Any, Embeddings] = {}

        def embed(name: str, split: str) -> Embeddings:
            lookup(f"config.evals of {self._parts.config.name}", name, self.options)
            return self._embed(name, split, params, model_state, embedded)

        return embed

    def load_others(self, folder: str | None, split: str | None) -> dict[str, StoredResults]:
        """Opens all splits, and returns stored results of another model by evaluator.

        To be called before any work, to find mistakes in a split or a comparison.

        Args:
          folder: of results, with a folder per evaluator or those of one evaluation; None for no
            comparison.
          split: see `judge`.

        Raises:
          UserError: there are none, or the results cannot be compared.
        """
        others = {}
        for name in self.options:
            evaluator = self.evaluator(name, self.split_of(name, split))
            if folder is not None:
                others[name] = load_results(folder, name, evaluator)
        return others

    def evaluator(self, name: str, split: str) -> Evaluator:
        """Returns the evaluator of a split; its labels are read at the first call."""
        if (name, split) not in self._evaluators:
            self._sources[name].check(split)
            self._evaluators[name, split] = make_evaluator(
                name,
                self.options[name],
                self.items(name, split),
                self._parts.model.towers,
                self._parts.mesh,
            )
        return self._evaluators[name, split]

    def split_of(self, name: str, split: str | None) -> str:
        """Returns the split to evaluate: an evaluator with its own dataset keeps its final one."""
        options = self.options[name]
        return options.final_split if split is None or options.data is not None else split

    def _due(self, step: int) -> list[str]:
        last = step == self._parts.settings.total_steps
        return [
            name
            for name, options in self.options.items()
            if last or (options.every > 0 and step % options.every == 0)
        ]

    def items(self, name: str, split: str) -> Items:
        """Returns the split that an evaluator judges."""
        key = (repr(self._sources[name]), split)
        if key not in self._splits:
            self._splits[key] = cast(Items, self._sources[name].open(split))
        return self._splits[key]

    def _embed(
        self,
        name: str,
        split: str,
        params: Tree,
        model_state: Tree,
        embedded: dict[Any, Embeddings],
    ) -> Embeddings:
        """The embeddings of a split, computed once for all evaluators that share it."""
        options, model_similarity = self.options[name], self._parts.model.similarity
        field = model_similarity.config.field
        if options.similarity is not None:
            field = make_similarity(options.similarity).config.field
        # Labels change no embedding.
        source = self._sources[name]
        source = dataclasses.replace(source, own=dataclasses.replace(source.own, labels=()))
        key = (repr(source), split, field)
        if key not in embedded:
            items = self.items(name, split)
            embedded[key] = self._embedder(
                params, model_state, items, options.batch_size, field=field
            )
        return embedded[key]


def make_embedder(parts: Parts) -> Embedder:
    """Returns the embedder of a model and its tasks."""
    return Embedder(
        lambda *inputs: parts.model.embed(*inputs)[0],
        parts.model.towers,
        similarity=parts.model.similarity,
        mesh=parts.mesh,
        predict=make_predictors(parts.tasks),
    )


def load_results(folder: str, name: str, evaluator: Evaluator) -> StoredResults:
    """Returns the stored results of an evaluator in a folder of all or of itself alone.

    Raises:
      UserError: there are none, or results of `evaluator` could not be compared with them.
    """
    own = os.path.join(folder, name)
    results = load_ranks(own if os.path.isdir(own) else folder)
    evaluator.check_comparable(results)
    return results


def _save_one(path: str, embedded: list[Embeddings]) -> None:
    if len(embedded) != 1:
        raise UserError(
            f"The evaluators judge {len(embedded)} sets of embeddings and --save_embeddings writes "
            "one: name those that share one by --evaluators."
        )
    if jax.process_index() == 0:
        arrays.save_embeddings(path, embedded[0])

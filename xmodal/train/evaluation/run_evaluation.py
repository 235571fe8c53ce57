"""Evaluates a run: combines its model, the splits of its datasets and its evaluators.

The training loop, its final evaluation and `xmodal.eval_main` all use `RunEvaluation`, so their
numbers cannot differ.
"""

import functools
import pathlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax

from data_prep.captioned_images.hub_datasets import local_folder
from xmodal import data
from xmodal.core.config import lookup
from xmodal.core.folders import hash_files
from xmodal.data.given_items import GivenItems
from xmodal.evals import Embedder
from xmodal.evals.model_adapter import EncoderAdapter
from xmodal.evals.reports.results import evaluator_tag
from xmodal.evals.reports.summary import summarize
from xmodal.evals.scores.embed import Items, Predictor
from xmodal.train import frozen_features
from xmodal.train.evaluation.suite import EvalSuite
from xmodal.train.optimization.run_lengths import is_due
from xmodal.train.pair_functions import make_pair_functions
from xmodal.train.run import Run
from xmodal.train.step.tasks import Task, modalities
from xmodal.train.tensorboard import Views
from xmodal.train.tree import TrainState, Tree


class RunEvaluation:
    """Evaluates states and weights of one model; each modality is compiled once.

    Attributes:
      parts: parts of the run.
      suite: its evaluators.
      files: hashes of the user's folders that its datasets are made from, by path.
    """

    def __init__(
        self,
        parts: Run,
        *,
        names: Collection[str] | None = None,
        trains: bool = True,
        stores: bool = False,
        watch: Callable[[int, Mapping[str, float]], None] | None = None,
    ) -> None:
        """Reads `config.evals` and prepares its datasets.

        Args:
          parts: parts of the run.
          names: evaluators to use; None for all.
          trains: whether training splits are evaluated too; their labels are read here.
          stores: whether missing features are written, see `frozen_features.with_features`.
          watch: called by `run_state` with the step and its metrics.

        Raises:
          UserError: an unknown type, option, benchmark or name; a dataset or model without the
            labels or modalities of an evaluator; a run that waits for a metric that nothing
            reports.
          data.DatasetMissingError: a dataset is missing; says how to get it.
        """
        self.parts, self._stores, self._watch = parts, stores, watch
        settings, towers = parts.settings, parts.model.towers
        self.suite = EvalSuite(
            parts.evals, settings.data, towers, parts.mesh, names, settings.train_split
        )
        for name, each in self.suite.options.items():
            for split in {each.split, each.final_split} if trains else ():
                self.suite.check(name, split)
        datasets = [parts.settings.data, *self.suite.datasets.values()]
        owned = [each for each in datasets if data.follows_files(each)]
        folders = {local_folder(each.manual_dir) for each in owned}
        self.files = {folder: hash_files(pathlib.Path(folder)) for folder in sorted(folders)}
        scores_pairs = any(each.scores_pairs for each in self.suite.options.values())
        self._embedder = make_embedder(parts, scores_pairs=scores_pairs)
        if trains:
            known = self.suite.tags()
            awaited = {"best_checkpoint": settings.best_checkpoint.metric}
            if settings.optimizer.plateau is not None:
                awaited["optimizer.plateau"] = settings.optimizer.plateau.metric
            for section, tag in awaited.items():
                where = f"config.{section}.metric"
                lookup(where, tag, lookup(where, tag.partition("/")[0], known))

    def due(self, step: int) -> list[str]:
        """Returns the names of the evaluators that are due at a step of training."""
        total, options = self.parts.settings.total_steps, self.suite.options
        return [name for name, each in options.items() if is_due(step, each.every, total)]

    def run_state(
        self, step: int, state: TrainState, view: Views | None = None
    ) -> dict[str, float]:
        """Returns the metrics of the evaluators that are due, evaluator/benchmark/direction/metric.

        Args:
          step: step of the state.
          state: state with the same sharding as in training.
          view: called with every evaluation.
        """
        found: dict[str, float] = {}
        adapter = self.adapter(state.all_params(), state.model_state)
        for name in self.due(step):
            evaluator = self.suite.evaluator(name, self.suite.options[name].split)
            results = evaluator.run(adapter)
            if view is not None:
                view(name, evaluator, evaluator.embeddings(adapter), results)
            metrics = summarize(results, intervals=False)
            found |= {evaluator_tag(name, tag): value for tag, value in metrics.items()}
        if self._watch is not None:
            self._watch(step, found)
        return found

    def adapter(self, params: Tree, model_state: Tree) -> EncoderAdapter:
        """Returns the model with these weights; each set of items is embedded on first use."""
        parts, settings, weights = self.parts, self.parts.settings, (params, model_state)

        @functools.cache
        def tokenizer() -> Any:
            return data.load_tokenizer(settings.data, settings.train_split)

        def give(modality: str, given: Sequence[Any]) -> GivenItems:
            if modality == "text":
                return GivenItems(texts=given, tokenizer=tokenizer())
            # As in a dataset, pictures are not rotated.
            return GivenItems(images=given, config=settings.data.image, upright=False)

        def read(split: Items) -> Items:
            if not isinstance(split, data.EvalSplit):
                return split
            return frozen_features.with_features(parts, *weights, split, compute=self._stores)

        return EncoderAdapter(
            settings.name,
            self._embedder,
            weights,
            field=parts.model.similarity.config.field,
            given={each: functools.partial(give, each) for each in parts.model.towers},
            read=read,
        )


def make_embedder(parts: Run, *, scores_pairs: bool = False) -> Embedder:
    """Returns the embedder of a model and its tasks.

    Args:
      parts: parts of a run.
      scores_pairs: whether to keep the tokens of all items for the cross-encoder.
    """
    predictors = {
        task.name: Predictor(frozenset(modalities((task,))), functools.partial(_predict, task))
        for task in parts.tasks
        if task.module is not None
        and hasattr(task.module.module, "predict")
        # Pairs of two captions are not pairs of an image and a caption.
        and len(modalities((task,))) == len(task.views)
    }
    pairs = make_pair_functions(parts.model) if scores_pairs else None
    return Embedder(
        lambda *inputs: parts.model.embed(*inputs)[0],
        parts.model.towers,
        similarity=parts.model.similarity,
        mesh=parts.mesh,
        predict=predictors,
        pairs=pairs,
    )


def _predict(
    task: Task, params: Tree, images: jax.Array | None, captions: jax.Array | None
) -> jax.Array:
    module: Any = task.module
    own = params["tasks"][task.name]["module"]
    if task.views[0] == "image":
        return module.predict(own, images, captions)
    return module.predict(own, captions, images).swapaxes(0, 1)

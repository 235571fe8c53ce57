"""Evaluates a run: its state while it trains, its checkpoints afterwards.

The loop and the evaluation binary both call this, so their numbers cannot differ.
"""

from typing import TYPE_CHECKING

import ml_collections

from xmodal import data
from xmodal import mesh as mesh_lib
from xmodal.evals import Evaluation, Evaluator
from xmodal.evals.boards.make import make_boards
from xmodal.evals.evaluation import warn_of_part
from xmodal.evals.reports.compare import check_comparable, rated_tasks
from xmodal.evals.reports.store import StoredResults
from xmodal.training import checkpoints, preflight
from xmodal.training.results import write_results
from xmodal.training.run_records import load_records
from xmodal.training.state import TrainState

if TYPE_CHECKING:
    from clu import metric_writers


class RunEvaluator:
    """Evaluates states and checkpoints of one run; each tower is compiled once."""

    def __init__(self, parts: preflight.Parts) -> None:
        """Prepares the evaluation that `config.evaluation` describes."""
        options = parts.config.evaluation
        self._parts = parts
        self._sets: dict[str, data.EvalSet] = {}
        self._evaluator = Evaluator(
            parts.model,
            mesh=parts.mesh,
            batch_size=options.batch_size,
            bootstrap_samples=options.bootstrap_samples,
            seed=options.seed,
        )

    @classmethod
    def of_run(cls, run_dir: str) -> "RunEvaluator":
        """Prepares the evaluation of a run from its folder alone.

        Raises:
          UserError: the folder is no run.
        """
        config = checkpoints.load_run(run_dir)
        return cls(preflight.build(config, mesh_lib.make_mesh()))

    @property
    def config(self) -> ml_collections.ConfigDict:
        """The run's config."""
        return self._parts.config

    def run_state(self, state: TrainState) -> dict[str, float]:
        """Metrics of a state on the validation split; see `Evaluator.run`."""
        held_out = self._eval_set(self.config.splits.validation)
        return self._evaluator.run(state.all_params(), state.model_state, held_out)

    def prepare(self, split: str, other: StoredResults | None) -> None:
        """Opens a split ahead of the work, to say what is wrong with it or with a comparison.

        Args:
          split: of the run's dataset.
          other: a model with which checkpoints will be compared.

        Raises:
          UserError: no such split, or the models cannot be compared.
        """
        held_out, options = self._eval_set(split), self.config.evaluation
        if other is not None:
            check_comparable(
                other,
                make_boards(held_out),
                options.bootstrap_samples,
                options.seed,
                rated=rated_tasks(self._parts.model.towers),
            )

    def judge_checkpoint(self, run_dir: str, step: int, split: str) -> Evaluation:
        """Evaluates one checkpoint on a split.

        Raises:
          UserError: no such step or split.
        """
        params, model_state = checkpoints.restore_model(
            run_dir, step, self._parts.model, self._parts.example_inputs, self._parts.mesh
        )
        options, held_out = self.config.evaluation, self._eval_set(split)
        return Evaluation(
            name=f"{self.config.name} step {step}",
            title=f"{self.config.data.dataset}, {split} split",
            results=self._evaluator.results(params, model_state, held_out),
            similarity=self._parts.model.similarity,
            samples=options.bootstrap_samples,
            seed=options.seed,
            published=split == "test" and not held_out.partial,
            warnings=warn_of_part(held_out.partial, split),
            records=held_out.hashes,
            trained_on=load_records(run_dir).get("train", {}),
        )

    def _eval_set(self, split: str) -> data.EvalSet:
        if split not in self._sets:
            self._sets[split] = data.eval_set(self.config.data, split=split)
        return self._sets[split]


def evaluate_checkpoint(
    evaluator: RunEvaluator,
    run_dir: str,
    step: int,
    split: str,
    output: str,
    writer: "metric_writers.MetricWriter",
    other: StoredResults | None = None,
) -> None:
    """Evaluates one checkpoint, prints its table and writes all results.

    Args:
      evaluator: of the run.
      run_dir: the run.
      step: one of its checkpoints.
      split: of the run's dataset.
      output: folder of the results of the checkpoint evaluated last (see `Evaluation.save`), and
        of `steps/STEP.json` of every one.
      writer: of TensorBoard scalars.
      other: another model to compare with.

    Raises:
      UserError: no such step or split, the models cannot be compared, or `output` cannot be
        written.
    """
    evaluation = evaluator.judge_checkpoint(run_dir, step, split)
    write_results(evaluation, output, other=other, step=step, writer=writer)

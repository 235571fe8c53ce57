"""Evaluates the checkpoints of a run: `python -m xmodal.eval_main --run=runs/quickstart`.

Prints the table and writes to --output: `metrics.json` and `report.md` of the checkpoint evaluated
last, `steps/STEP.json` of every one, and TensorBoard scalars.
"""

import os
import time
from typing import TYPE_CHECKING

from absl import app, flags, logging

if TYPE_CHECKING:
    from xmodal.training.evaluation import RunEvaluator

RUN = flags.DEFINE_string("run", None, "Folder of the run, as printed by xmodal.main.")
STEP = flags.DEFINE_string("step", "best", "Checkpoint to evaluate: its step, 'best' or 'latest'.")
SPLIT = flags.DEFINE_string("split", "test", "Split of the run's dataset.")
OUTPUT = flags.DEFINE_string("output", None, "Folder for the results, by default RUN/SPLIT.")
FOLLOW = flags.DEFINE_bool(
    "follow", False, "Evaluate every checkpoint as it appears, until the run's last step."
)
TIMEOUT = flags.DEFINE_float("timeout", 3600.0, "With --follow: seconds without a new checkpoint.")
POLL_SECONDS = 5.0


def main(argv: list[str]) -> None:
    """Evaluates one checkpoint, or follows the run."""
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments {argv[1:]}; everything is a flag.")
    # Imported here so that --help and a mistyped flag answer at once.
    from xmodal.training import sharding
    from xmodal.training.evaluation import RunEvaluator

    sharding.initialize_processes()
    run_dir, split = RUN.value, SPLIT.value
    output = OUTPUT.value or os.path.join(run_dir, split)
    evaluator = RunEvaluator.of_run(run_dir)
    if FOLLOW.value:
        follow(evaluator, run_dir, split, output, timeout=TIMEOUT.value)
    else:
        evaluate(evaluator, run_dir, choose_step(run_dir, STEP.value), split, output)


def choose_step(run_dir: str, choice: str) -> int:
    """Finds the checkpoint that 'best', 'latest' or a number means.

    Raises:
      ValueError: there is none; lists those there are.
    """
    from xmodal.training import checkpoints

    there = checkpoints.steps(run_dir)
    if choice == "best" and there:
        return checkpoints.best_step(run_dir)
    if choice == "latest" and there:
        return there[-1]
    if choice.isdecimal() and int(choice) in there:
        return int(choice)
    raise ValueError(
        f"--step={choice}: {run_dir} has the checkpoints {there}; give one of them, 'best' or "
        "'latest'."
    )


def evaluate(evaluator: "RunEvaluator", run_dir: str, step: int, split: str, output: str) -> None:
    """Evaluates one checkpoint, prints its table and writes all results."""
    import jax

    from xmodal.evals import report
    from xmodal.training import reporting

    metrics = evaluator.run_checkpoint(run_dir, step, split)
    table = report.format_report(
        {f"{evaluator.config.name} step {step}": metrics},
        title=f"{evaluator.config.data.dataset}, {split} split",
        published=split == "test",
    )
    writer = reporting.make_writer(output)
    writer.write_scalars(step, metrics)
    writer.close()
    if jax.process_index() == 0:
        report.write_results(output, {"step": step} | metrics, table)
        # Written last: --follow takes this file as the sign that nothing is left to do.
        report.write_json(os.path.join(output, "steps", f"{step}.json"), metrics)
        print(table, flush=True)


def follow(
    evaluator: "RunEvaluator", run_dir: str, split: str, output: str, *, timeout: float
) -> None:
    """Evaluates checkpoints as they appear, oldest first, leaving out those already done.

    Returns after the run's last step, or when no new checkpoint came for `timeout` seconds.
    """
    from etils import epath

    from xmodal.training import checkpoints

    last_step = evaluator.config.total_steps
    done = {int(path.stem) for path in epath.Path(output).glob("steps/*.json")}
    waiting_since = time.monotonic()
    while last_step not in done:
        waiting = [step for step in checkpoints.steps(run_dir) if step not in done]
        if waiting:
            try:
                evaluate(evaluator, run_dir, waiting[0], split, output)
            except (FileNotFoundError, ValueError):
                # A run keeps its last few checkpoints; this one may have made room meanwhile.
                if waiting[0] in checkpoints.steps(run_dir):
                    raise
            done.add(waiting[0])
            waiting_since = time.monotonic()
        elif time.monotonic() - waiting_since > timeout:
            logging.warning(
                "No new checkpoint in %s for %.0f s; the newest is of step %s, the last will be "
                "of step %d.",
                run_dir,
                timeout,
                max(done, default="none"),
                last_step,
            )
            return
        else:
            time.sleep(min(POLL_SECONDS, timeout))


def run() -> None:
    """Entry point: flags and log level."""
    flags.mark_flag_as_required("run")
    logging.set_verbosity(logging.INFO)
    app.run(main)


if __name__ == "__main__":
    run()

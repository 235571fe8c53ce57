"""Evaluates the checkpoints of a run: `python -m xmodal.eval_main --run=runs/quickstart`.

Prints the table and writes to --output: `metrics.json` and `report.md` of the checkpoint evaluated
last, `steps/STEP.json` of every one, and TensorBoard scalars.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from absl import app, flags, logging

if TYPE_CHECKING:
    from clu import metric_writers

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
    """Evaluates one checkpoint, or every one as it appears."""
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments {argv[1:]}; everything is a flag.")
    # Imported here so that --help and a mistyped flag answer at once.
    from xmodal.training import checkpoints, reporting, sharding
    from xmodal.training.evaluation import RunEvaluator

    sharding.initialize_processes()
    run_dir, split = RUN.value, SPLIT.value
    output = OUTPUT.value or os.path.join(run_dir, split)
    last_step = checkpoints.load_run(run_dir).total_steps
    if FOLLOW.value:
        steps = follow(run_dir, output, last_step=last_step, timeout=TIMEOUT.value)
    else:
        steps = iter([choose_step(run_dir, STEP.value)])
    evaluator = RunEvaluator.of_run(run_dir)
    with contextlib.closing(reporting.make_writer(output)) as writer:
        for step in steps:
            try:
                evaluate(evaluator, run_dir, step, split, output, writer)
            except (FileNotFoundError, ValueError):
                if step in checkpoints.steps(run_dir):
                    raise
                # A run keeps its last few checkpoints only.
                logging.warning("Checkpoint %d made room for newer ones while it was read.", step)


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


def follow(run_dir: str, output: str, *, last_step: int, timeout: float) -> Iterator[int]:
    """Yields the checkpoints not evaluated yet as they appear, oldest first.

    Ends after `last_step`, or when no new checkpoint came for `timeout` seconds.
    """
    from etils import epath

    from xmodal.training import checkpoints

    done = {int(path.stem) for path in epath.Path(output).glob("steps/*.json")}
    waiting_since = time.monotonic()
    while last_step not in done:
        waiting = [step for step in checkpoints.steps(run_dir) if step not in done]
        if waiting:
            yield waiting[0]
            done.add(waiting[0])
            waiting_since = time.monotonic()
        elif time.monotonic() - waiting_since < timeout:
            time.sleep(min(POLL_SECONDS, timeout))
        else:
            logging.warning(
                "No new checkpoint in %s for %.0f s; %s are done, step %d would be the last.",
                run_dir,
                timeout,
                sorted(done),
                last_step,
            )
            return


def evaluate(
    evaluator: "RunEvaluator",
    run_dir: str,
    step: int,
    split: str,
    output: str,
    writer: "metric_writers.MetricWriter",
) -> None:
    """Evaluates one checkpoint, prints its table and writes all results."""
    import jax

    from xmodal.evals import report

    metrics = evaluator.run_checkpoint(run_dir, step, split)
    table = report.format_report(
        {f"{evaluator.config.name} step {step}": metrics},
        title=f"{evaluator.config.data.dataset}, {split} split",
        published=split == "test",
    )
    writer.write_scalars(step, metrics)
    writer.flush()
    if jax.process_index() == 0:
        report.write_results(output, {"step": step} | metrics, table)
        # Written last: --follow takes this file as the sign that the step is done.
        report.write_json(os.path.join(output, "steps", f"{step}.json"), metrics)
        print(table, flush=True)


def run() -> None:
    """Entry point."""
    flags.mark_flag_as_required("run")
    logging.set_verbosity(logging.WARNING)  # what is wanted is the table
    app.run(main)


if __name__ == "__main__":
    run()

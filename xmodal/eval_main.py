"""Evaluates the checkpoints of a run: `python -m xmodal.eval_main --run=runs/quickstart`.

Prints the table and writes to --output: `metrics.json` and `report.md` of the checkpoint evaluated
last, `steps/STEP.json` of every one, and TensorBoard scalars.
"""

import contextlib
import os
import time
from collections.abc import Iterator

from absl import flags, logging

from xmodal import binary
from xmodal.options import UserError

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
    del argv
    # Imported here so that --help and a mistyped flag answer at once.
    import jax

    from xmodal.training import checkpoints, reporting, sharding
    from xmodal.training.evaluation import RunEvaluator, evaluate_checkpoint

    sharding.initialize_processes()
    run_dir, split = RUN.value, SPLIT.value
    output = OUTPUT.value or os.path.join(run_dir, split)
    last_step = checkpoints.load_run(run_dir).total_steps
    if FOLLOW.value:
        if jax.process_count() > 1:
            raise UserError("--follow runs in one process: hosts could see different checkpoints.")
        steps = follow(run_dir, output, last_step=last_step, timeout=TIMEOUT.value)
    else:
        steps = iter([checkpoints.resolve_step(run_dir, STEP.value)])
    evaluator = RunEvaluator.of_run(run_dir)
    with contextlib.closing(reporting.make_writer(output)) as writer:
        for step in steps:
            try:
                evaluate_checkpoint(evaluator, run_dir, step, split, output, writer)
            except (FileNotFoundError, ValueError):
                if step in checkpoints.steps(run_dir):
                    raise
                # A run keeps its last few checkpoints only.
                logging.warning("Checkpoint %d made room for newer ones while it was read.", step)


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


if __name__ == "__main__":
    flags.mark_flag_as_required("run")
    binary.run(main)

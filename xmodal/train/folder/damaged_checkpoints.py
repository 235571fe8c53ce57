"""Handles truncated or changed checkpoints: a run resumes from the newest intact one.

The run also needs its best checkpoint and the metrics of all checkpoints.
"""

from absl import logging

from xmodal.core import buckets, processes
from xmodal.core.errors import UserError
from xmodal.train.folder import run_folder
from xmodal.train.folder.file_hashes import find_damage

_DAMAGED = "damaged"
# The best checkpoint is evaluated, but training does not continue from it.
_READ_OF_BEST = ("params/", "model_state/", "metrics/")


def set_damaged_aside(run_dir: str) -> None:
    """Moves damaged checkpoints out of the way; all processes call it.

    Afterwards the newest checkpoint, the parameters and model state of the best one, and the
    metrics of all are intact. The run resumes from the newest one and repeats the lost steps. The
    files of the two are read one extra time.

    Args:
      run_dir: the run's folder, which only this run writes.

    Raises:
      UserError: no checkpoint is intact, or the frozen parameters are damaged.
    """
    processes.first_does(f"check the checkpoints of {run_dir}", lambda: _set_aside(run_dir))


def newest_whole(run_dir: str) -> int | None:
    """Returns the step a run would resume from; None without a checkpoint. Changes nothing.

    Raises:
      UserError: see `set_damaged_aside`.
    """
    damaged, whole = _find(run_dir)
    for step, damage in damaged.items():
        logging.warning("The checkpoint of step %d is damaged: %s.", step, damage)
    return whole


def _set_aside(run_dir: str) -> None:
    damaged, whole = _find(run_dir)
    for step, damage in damaged.items():
        _move_aside(run_dir, step, damage, whole)
    while (best := _best_step(run_dir)) not in (None, whole):
        if not (damage := find_damage(run_folder.step_folder(run_dir, best), _READ_OF_BEST)):
            break
        _move_aside(run_dir, best, damage, whole)


def _move_aside(run_dir: str, step: int, damage: str, whole: int | None) -> None:
    aside = buckets.absolute(run_dir) / _DAMAGED / str(step)
    buckets.move_folder(run_folder.step_folder(run_dir, step), aside)
    lost = "its metrics no longer count, and another step may be the best"
    if whole is not None and step > whole:
        lost = f"the run goes back to step {whole} and repeats the steps after it"
    logging.error(
        "THE CHECKPOINT OF STEP %d IS DAMAGED: %s. It is now %s; %s.", step, damage, aside, lost
    )


def _best_step(run_dir: str) -> int | None:
    try:
        return run_folder.best_step(run_dir)
    except UserError:  # None was evaluated.
        return None


def _find(run_dir: str) -> tuple[dict[int, str], int | None]:
    """The damage by step, newest first, and the step of the newest intact checkpoint.

    For checkpoints before that one, only the metrics are compared.
    """
    damaged, whole = dict[int, str](), None
    saved = run_folder.steps(run_dir)
    if saved and (damage := find_damage(run_folder.frozen_folder(run_dir))):
        raise UserError(
            f"The frozen parameters of {run_dir} are damaged: {damage}. They are written once; "
            "copy them from a backup, or start over with another --workdir."
        )
    for step in reversed(saved):
        read = "" if whole is None else "metrics/"
        if damage := find_damage(run_folder.step_folder(run_dir, step), read):
            damaged[step] = damage
        elif whole is None:
            whole = step
    if saved and whole is None:
        raise UserError(
            f"No checkpoint of {run_dir} can be read; step {saved[0]}: {damaged[saved[0]]}. "
            "Copy one from a backup, or start over with another --workdir."
        )
    return damaged, whole

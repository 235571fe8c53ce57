"""Handles truncated or changed checkpoints: a run resumes from the newest intact one.

The run also needs its best checkpoint and the metrics of all checkpoints.
"""

from absl import logging
from etils import epath

from xmodal.base import buckets, processes
from xmodal.base.config import UserError
from xmodal.runs.folder import checkpoints, run_folder
from xmodal.runs.folder.file_hashes import HASHES, find_frozen_damage, find_step_damage

_DAMAGED = "damaged"


def set_damaged_aside(run_dir: str) -> None:
    """Moves damaged checkpoints out of the way; all processes call it.

    Afterwards the newest and the best checkpoint are intact, and so are the metrics of all. The run
    resumes from the newest one and repeats the lost steps. Every file of the two is read one extra
    time.

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
        if not (damage := _damage_of_step(run_dir, best)):
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
    if saved and (damage := _damage_of_frozen(run_dir)):
        raise UserError(
            f"The frozen parameters of {run_dir} are damaged: {damage}. They are written once; "
            "copy them from a backup, or start over with another --workdir."
        )
    for step in reversed(saved):
        if damage := _damage_of_step(run_dir, step, "" if whole is None else "metrics/"):
            damaged[step] = damage
        elif whole is None:
            whole = step
    if saved and whole is None:
        raise UserError(
            f"No checkpoint of {run_dir} can be read; step {saved[0]}: {damaged[saved[0]]}. "
            "Copy one from a backup, or start over with another --workdir."
        )
    return damaged, whole


def _damage_of_step(run_dir: str, step: int, below: str = "") -> str:
    folder = run_folder.step_folder(run_dir, step)
    if damage := find_step_damage(run_dir, step, below):
        return damage
    if below or (folder / HASHES).exists():
        return ""
    if not (folder / "params").exists():
        return f"{folder / 'params'} is missing"
    items = [folder / item for item in run_folder.ITEMS if (folder / item).exists()]
    return next(filter(None, map(_unreadable, items)), "")


def _damage_of_frozen(run_dir: str) -> str:
    folder = run_folder.frozen_folder(run_dir)
    if (damage := find_frozen_damage(run_dir)) or not folder.exists():
        return damage
    return "" if (folder / HASHES).exists() else _unreadable(folder)


def _unreadable(folder: epath.Path) -> str:
    """Tries to read a checkpoint without hashes and returns the problem, if any."""
    try:
        checkpoints.read_arrays(folder)
    except Exception as error:  # Libraries raise errors of any type.
        return f"{folder} cannot be read ({type(error).__name__})"
    return ""

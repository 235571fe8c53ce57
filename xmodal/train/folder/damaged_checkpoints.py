"""Hashes of the files of checkpoints, and the way back from a damaged checkpoint.

Libraries do not notice a changed byte in an array.
"""

import contextlib
import json
import os
from collections.abc import Sequence

from absl import logging
from etils import epath

from xmodal.core import object_store, processes
from xmodal.core.atomic import write_atomically
from xmodal.core.checksums import check_files, sha256_of
from xmodal.core.errors import UserError
from xmodal.core.json_files import read_json
from xmodal.train.folder import run_folder

HASHES = "files.json"
# Written when the folder gets its final name; no arrays depend on them.
_LATER = ("_CHECKPOINT_METADATA", "commit_success.txt", HASHES)


def save_hashes(folder: epath.Path) -> None:
    """Writes `FOLDER/files.json`, the hash of every file in a complete folder."""
    paths = [parent / name for parent, _, names in folder.walk() for name in names]
    names = sorted(os.fspath(path.relative_to(folder)) for path in paths)
    hashes = {name: sha256_of(folder / name) for name in names if name not in _LATER}
    write_atomically(folder / HASHES, f"{json.dumps(hashes, indent=1)}\n")


def check_whole(run_dir: str, step: int, items: Sequence[str]) -> None:
    """Raises an error if a file of a checkpoint does not match its hash; every process calls it.

    Args:
      run_dir: the run that wrote the checkpoint.
      step: a saved step.
      items: some of `ITEMS`; frozen parameters are always compared.
    """

    def check() -> None:
        _check(run_folder.frozen_folder(run_dir))
        _check(run_folder.step_folder(run_dir, step), items)

    processes.first_does(f"check a checkpoint of {run_dir}", check)


def _check(folder: epath.Path, items: Sequence[str] = ()) -> None:
    """Compares the files of some items of a folder, or all of them."""
    if not folder.exists() and not items:  # No parameter is frozen.
        return
    remedy = "use another checkpoint, or copy this one from a backup."
    if not (folder / HASHES).exists():
        raise UserError(f"{folder / HASHES} is missing: {remedy}")
    below = tuple(f"{item}/" for item in items) or ("",)
    hashes = read_json(folder / HASHES, remedy)
    check_files(folder, {name: x for name, x in hashes.items() if name.startswith(below)}, remedy)


def newest_whole(run_dir: str, *, sets_aside: bool = False) -> int | None:
    """Returns the step that a run resumes from; None without a checkpoint. All processes call it.

    This is the newest checkpoint without damage; a warning names those that are damaged, to which
    the best one may belong, of which only the model is read.

    Args:
      run_dir: the run's folder.
      sets_aside: whether damaged checkpoints are moved to `RUN_DIR/damaged`, so that the run writes
        those steps again.
    """
    own = _find(run_dir, sets_aside) if processes.index() == 0 else None
    return json.loads(processes.gather(f"check the checkpoints of {run_dir}", json.dumps(own))[0])


def _find(run_dir: str, sets_aside: bool) -> int | None:
    saved, damaged, best = run_folder.steps(run_dir), dict[int, UserError](), None
    if not saved:
        return None
    _check(run_folder.frozen_folder(run_dir))
    with contextlib.suppress(UserError):  # None may have been evaluated.
        best = run_folder.best_step(run_dir)
    newest = None
    for step in reversed(saved):
        items = run_folder.ITEMS if newest is None else ("params", "model_state")
        if newest is None or step == best:
            try:
                _check(run_folder.step_folder(run_dir, step), items)
                newest = step if newest is None else newest
            except UserError as error:
                damaged[step] = error
    if newest is None:
        raise damaged[saved[-1]]
    for step, error in damaged.items():
        logging.warning("%s The run resumes from step %d without it.", error, newest)
        if sets_aside:
            aside = object_store.absolute(run_dir) / "damaged" / str(step)
            object_store.move_folder(run_folder.step_folder(run_dir, step), aside)
    return newest

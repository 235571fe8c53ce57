"""Checkpoints of a run: asynchronous and atomic; the last few and the best one are kept.

`run_folder` defines their paths. A folder gets its final name only when all of its contents are on
disk (Orbax's own commit), among them the hashes of all files: libraries do not notice a changed
byte in an array. A run resumes from the newest checkpoint without damage.
"""

import contextlib
import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from absl import logging
from etils import epath
from jax.sharding import Mesh
from orbax.checkpoint.checkpoint_managers import preservation_policy

from xmodal.core import mesh as mesh_lib
from xmodal.core import processes
from xmodal.core.errors import UserError
from xmodal.core.files import absolute, check_files, read_json, sha256_of, write_file
from xmodal.core.tree_paths import leaves_by_path, path_of
from xmodal.train.folder import run_folder
from xmodal.train.folder.run_folder import ITEMS
from xmodal.train.sections import BestCheckpointConfig, CheckpointConfig
from xmodal.train.tree import TrainState, Tree, describe_differences, merge

HASHES = "files.json"
# Written when the folder gets its final name; no arrays depend on them.
_LATER = ("_CHECKPOINT_METADATA", "commit_success.txt", HASHES)
_REMEDY = (
    "Use the config that the checkpoint was made with, or a new --workdir, where "
    "--config.init_from.run takes the weights of this run."
)
# Orbax warns about a file that it does not write for single items.
logging.get_absl_logger().addFilter(lambda record: "Metadata file does not" not in str(record.msg))


class Checkpoints(preservation_policy.PreservationPolicy):
    """Writes the checkpoints of one run."""

    def __init__(
        self, run_dir: str, config: CheckpointConfig, best_checkpoint: BestCheckpointConfig
    ) -> None:
        """Opens (or creates) `RUN_DIR/checkpoints`.

        Args:
          run_dir: the run's folder, local or gs://.
          config: how many checkpoints are kept.
          best_checkpoint: the metric of the best one, which is kept as well.
        """
        self._run_dir, self._keep_last = run_dir, config.keep_last
        self._best_checkpoint = best_checkpoint
        self._evaluated = run_folder.load_evaluated(run_dir)
        self._manager = ocp.CheckpointManager(
            run_folder.checkpoints_folder(run_dir),
            options=ocp.CheckpointManagerOptions(
                preservation_policy=self,
                cleanup_tmp_directories=True,
                async_options=ocp.options.AsyncOptions(post_finalization_callback=self._hash_files),
            ),
        )

    def should_preserve(
        self, checkpoints: Sequence[Any], *, context: preservation_policy.PreservationContext
    ) -> list[bool]:
        """Returns which checkpoints Orbax keeps: the last few and the best one."""
        del context
        steps = [each.step for each in checkpoints]
        kept = {
            *steps[-self._keep_last :],
            run_folder.best_of(self._best_checkpoint, self._evaluated, steps),
        }
        return [step in kept for step in steps]

    def lacks(self, step: int) -> bool:
        """Whether this step is neither saved nor being saved."""
        return step not in self._manager.all_steps()

    def lacks_metrics(self, step: int) -> bool:
        """Whether this step was not evaluated."""
        return step not in self._evaluated

    @property
    def best_step(self) -> int | None:
        """The best step so far according to `config.best_checkpoint`."""
        return run_folder.best_of(self._best_checkpoint, self._evaluated, self._manager.all_steps())

    def save(self, state: TrainState, metrics: Mapping[str, float] | None = None) -> None:
        """Starts writing the state, unless that step is saved; writes and logs its metrics."""
        step = int(state.step)
        if metrics:
            self._evaluated.setdefault(step, dict(metrics))
            run_folder.save_evaluated(self._run_dir, self._evaluated)
        is_new = self.lacks(step)
        if is_new:
            self._write(step, state)
        if metrics:
            # The metric that selects checkpoints, and one of every other evaluator.
            shown: dict[str, str] = {}
            for tag in (self._best_checkpoint.metric, *metrics):
                if tag in metrics:
                    shown.setdefault(tag.partition("/")[0], f"{tag} {metrics[tag]:.4g}")
            best = "" if self.best_step is None else f"  best so far: step {self.best_step}"
            logging.info("step %d  %s%s", step, "  ".join(shown.values()), best)
        elif is_new:
            logging.info("step %d  checkpoint in %s", step, self._manager.directory / str(step))

    def _write(self, step: int, state: TrainState) -> None:
        frozen = run_folder.frozen_folder(self._run_dir)
        if state.frozen and not self._manager.all_steps():
            # Forced: a start that was killed before its first checkpoint may have left some.
            with ocp.StandardCheckpointer() as checkpointer:
                checkpointer.save(frozen, _one_copy(state.frozen), force=True)
            if jax.process_index() == 0:
                save_hashes(frozen)
        items = {name: tree for name in ITEMS if jax.tree.leaves(tree := getattr(state, name))}
        items = _one_copy(items)
        self._manager.wait_until_finished()
        self._writing = step
        self._manager.save(
            step,
            args=ocp.args.Composite(**{n: ocp.args.StandardSave(t) for n, t in items.items()}),
        )

    def _hash_files(self) -> None:
        """Hashes the checkpoint that is being written before it gets its final name."""
        if jax.process_index() == 0:
            folder = run_folder.step_folder(self._run_dir, self._writing)
            # Object stores cannot rename.
            name = f"{folder.name}.orbax-checkpoint-tmp"
            written = (path for path in folder.parent.iterdir() if path.name.startswith(name))
            save_hashes(next(written, folder))

    def close(self) -> None:
        """Waits for pending writes."""
        try:
            self._manager.wait_until_finished()
        finally:
            self._manager.close()


def _one_copy(tree: Any) -> Any:
    """Returns one device's copy of replicated arrays if a single process has all devices.

    Orbax cuts a replicated array into one part per device and compiles a program for every part of
    every shape: hundreds before the first checkpoint.
    """
    if jax.process_count() > 1:
        return tree
    return jax.tree.map(
        lambda x: x.addressable_data(0) if getattr(x, "is_fully_replicated", False) else x, tree
    )


def restore_step(run_dir: str, step: int, state: TrainState) -> TrainState:
    """Returns the state saved at a step, laid out like `state`; `newest_whole` has checked it."""
    logging.info("Resuming %s from step %d.", run_dir, step)
    found: dict[str, Any] = {}
    for name in (*ITEMS, "frozen"):
        if jax.tree.leaves(tree := getattr(state, name)):
            folder = _item_folder(run_dir, None if name == "frozen" else step, name)
            _check_fits(folder, tree, read_shapes(folder))
            found[name] = _read(folder, jax.tree.map(ocp.utils.to_shape_dtype_struct, tree))
    number = mesh_lib.put(np.int32(step), state.step.sharding)
    return dataclasses.replace(state, step=number, **found)


def restore_model(
    run_dir: str, step: int, shapes: tuple[Tree, Tree], mesh: Mesh
) -> tuple[Tree, Tree]:
    """Returns the parameters and running statistics of one checkpoint, without optimizer state.

    Args:
      run_dir: the run that wrote the checkpoint.
      step: a saved step.
      shapes: those of `(params, model_state)`, built from the run's config.
      mesh: every device gets a copy.
    """
    step = run_folder.resolve_step(run_dir, step)  # It may be gone.
    replicated = mesh_lib.replicated(mesh)

    def place(wanted: Tree, found: Tree) -> Tree:
        _check_fits(run_folder.step_folder(run_dir, step), wanted, found)
        flat = leaves_by_path(found)
        # Folders lack empty branches.
        return jax.tree.map_with_path(
            lambda keys, _: mesh_lib.put(flat[path_of(keys)], replicated), wanted
        )

    params, model_state = map(place, shapes, read_model(run_dir, step))
    return params, model_state


def read_model(run_dir: str, step: int) -> tuple[Tree, Tree]:
    """Returns what `restore_model` returns as NumPy arrays, once their files are checked."""
    check_whole(run_dir, step, ("params", "model_state"))
    places = ((step, "params"), (None, "frozen"), (step, "model_state"))
    trained, frozen, model_state = (read_tree(run_dir, at, item) for at, item in places)
    return merge(trained, frozen), model_state


def restore_moments(run_dir: str, step: int, moments: Any) -> Any:
    """Returns the moments in the optimizer state of a checkpoint, laid out like `moments`.

    The rest of that state, which may be of another kind than that of this run, is left out.
    """
    check_whole(run_dir, step, ("opt_state",))
    folder = run_folder.step_folder(run_dir, step) / "opt_state"
    shapes = read_shapes(folder)
    remedy = "Set config.init_from.optimizer=False to start with a new optimizer."
    _check_fits(folder, moments, shapes["moments"], remedy)
    abstract = jax.tree.map(ocp.utils.to_shape_dtype_struct, moments)
    return _read(folder, _on_host(shapes) | {"moments": abstract})["moments"]


def read_tree(run_dir: str, step: int | None, item: str) -> Tree:
    """Returns an item of a checkpoint as it was saved, as NumPy arrays; {} if it is missing.

    Args:
      run_dir: the run that wrote the checkpoint.
      step: a saved step; None for items that all steps share, such as `frozen`.
      item: its name.
    """
    folder = _item_folder(run_dir, step, item)
    shapes = read_shapes(folder)
    return _read(folder, _on_host(shapes)) if shapes else {}


def _item_folder(run_dir: str, step: int | None, item: str) -> epath.Path:
    return (absolute(run_dir) if step is None else run_folder.step_folder(run_dir, step)) / item


def read_shapes(folder: epath.Path) -> Tree:
    """Returns an item of a checkpoint with shapes in place of arrays; {} if it is missing."""
    if not folder.exists():
        return {}
    with ocp.StandardCheckpointer() as checkpointer:
        return checkpointer.metadata(folder).item_metadata.tree


def _check_fits(folder: epath.Path, wanted: Tree, found: Tree, remedy: str = _REMEDY) -> None:
    # Orbax writes optax's named tuples as dicts, so that only paths are compared.
    if differences := describe_differences(leaves_by_path(wanted), leaves_by_path(found)):
        raise UserError(f"{folder} does not fit the model; {differences}\n{remedy}")


def _read(folder: epath.Path, target: Tree) -> Tree:
    with ocp.StandardCheckpointer() as checkpointer:
        return checkpointer.restore(folder, target)


def _on_host(shapes: Tree) -> Tree:
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)


def save_hashes(folder: epath.Path) -> None:
    """Writes `FOLDER/files.json`, the hash of every file in a complete folder."""
    paths = [parent / name for parent, _, names in folder.walk() for name in names]
    names = sorted(os.fspath(path.relative_to(folder)) for path in paths)
    hashes = {name: sha256_of(folder / name) for name in names if name not in _LATER}
    write_file(folder / HASHES, f"{json.dumps(hashes, indent=1)}\n")


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
      sets_aside: whether damaged checkpoints are moved to `RUN_DIR/damaged-STEP`, so that
        the run writes those steps again.
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
            aside = absolute(run_dir) / f"damaged-{step}"
            if aside.exists():
                aside.rmtree()
            run_folder.step_folder(run_dir, step).rename(aside)
    return newest

"""Checkpoints of a run: asynchronous and atomic; the last few and the best one are kept.

`run_folder` defines their paths. A folder gets its final name only when all of its contents are on
disk (Orbax's own commit).
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from absl import logging
from etils import epath
from jax.sharding import Mesh
from orbax.checkpoint.checkpoint_managers import preservation_policy

from xmodal.core import buckets, processes
from xmodal.core import mesh as mesh_lib
from xmodal.core.atomic import new_folder
from xmodal.core.errors import UserError
from xmodal.train.folder import run_folder
from xmodal.train.folder.checkpoint_shapes import check_arrays, read_shapes, reading
from xmodal.train.folder.file_hashes import find_damage, save_hashes
from xmodal.train.folder.run_folder import ITEMS
from xmodal.train.optimization.optimizer import moments_of, with_moments
from xmodal.train.sections import CheckpointConfig, SelectConfig
from xmodal.train.step.state import TrainState
from xmodal.train.tree import Tree, flatten, merge, split

_TEMPORARY = ".orbax-checkpoint-tmp"
# Orbax warns about a file that it does not write for single items.
logging.get_absl_logger().addFilter(lambda record: "Metadata file does not" not in str(record.msg))


class Checkpoints:
    """Writes the checkpoints of one run."""

    def __init__(self, run_dir: str, config: CheckpointConfig, select: SelectConfig) -> None:
        """Opens (or creates) `RUN_DIR/checkpoints`.

        Args:
          run_dir: the run's folder, local or gs://.
          config: how many checkpoints are kept.
          select: the metric of the best one, which is kept as well.
        """
        self._run_dir, self._frozen = run_dir, run_folder.frozen_folder(run_dir)
        self._select, self._explained = select, False
        self._keep_last = config.keep_last
        self._evaluated = run_folder.load_evaluated(run_dir)
        keep = preservation_policy.AnyPreservationPolicy(
            [
                preservation_policy.LatestN(config.keep_last),
                preservation_policy.BestN(
                    get_metric_fn=select.rank, n=1, keep_checkpoints_without_metrics=False
                ),
            ]
        )
        self._checkpoints, self._writing = run_folder.checkpoints_folder(run_dir), -1
        self._manager = ocp.CheckpointManager(
            self._checkpoints,
            options=ocp.CheckpointManagerOptions(
                best_fn=select.rank,
                preservation_policy=keep,
                cleanup_tmp_directories=True,
                async_options=ocp.options.AsyncOptions(post_finalization_callback=self._hash_files),
            ),
        )

    def lacks(self, step: int) -> bool:
        """Whether this step is neither saved nor being saved."""
        return step not in self._manager.all_steps()

    def lacks_metrics(self, step: int) -> bool:
        """Whether this step is not saved, or was saved on a stop before it was evaluated."""
        return not run_folder.load_metrics(self._run_dir, step)

    @property
    def best_step(self) -> int | None:
        """The best step so far according to `config.select`."""
        return self._manager.best_step()

    def save(self, state: TrainState, metrics: Mapping[str, float] | None = None) -> None:
        """Starts writing the state; to a checkpoint that exists, only metrics are added."""
        step = int(state.step)
        if self.lacks(step):
            self._write(state, metrics)
        elif metrics and self.lacks_metrics(step):
            self._add_metrics(step, metrics)
        else:
            return
        if metrics:
            self._note(step, metrics)

    def _note(self, step: int, metrics: Mapping[str, float]) -> None:
        """Adds the metrics of a step to those that selected the best one, and warns of a tie."""
        self._evaluated[step] = {tag: metrics[tag] for tag in self._select.tags if tag in metrics}
        if jax.process_index() == 0:
            run_folder.save_evaluated(self._run_dir, self._evaluated)
        if self._select.rank(metrics) and not self._explained:
            how, self._explained = self._select.explain(self._evaluated)
            if self._explained:
                logging.warning("%s", how)

    def _write(self, state: TrainState, metrics: Mapping[str, float] | None) -> None:
        step = int(state.step)
        if state.frozen and not self._manager.all_steps():
            # Forced: a start that was killed before its first checkpoint may have left some.
            with ocp.StandardCheckpointer() as checkpointer:
                checkpointer.save(self._frozen, mesh_lib.one_copy(state.frozen), force=True)
            if jax.process_index() == 0:
                save_hashes(self._frozen)
        items = mesh_lib.one_copy(_non_empty(state, ITEMS))
        self._manager.wait_until_finished()
        self._writing = step
        self._manager.save(
            step,
            args=ocp.args.Composite(**{n: ocp.args.StandardSave(t) for n, t in items.items()}),
            metrics=dict(metrics) if metrics else None,
        )
        if not metrics:  # The line of an evaluation implies it.
            logging.info("step %d  checkpoint in %s", step, self._manager.directory / str(step))

    def _add_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        """Evaluates a checkpoint, written on a stop, afterwards.

        It is not written again: a kill between its removal and the new one would lose it.
        """
        folder = run_folder.step_folder(self._run_dir, step)

        def add() -> None:
            with new_folder(folder / "metrics") as item:
                (item / "metrics").write_text(json.dumps(dict(metrics)))
            save_hashes(folder)

        self._manager.wait_until_finished()
        processes.first_does(f"write the metrics of {folder}", add)
        self._manager.reload()
        # Orbax removes superfluous checkpoints only after it has written one.
        steps = self._manager.all_steps()
        for old in {*steps} - {*steps[-self._keep_last :], self.best_step}:
            self._manager.delete(old)

    def _hash_files(self) -> None:
        """Hashes the checkpoint that is being written before it gets its final name."""
        if jax.process_index() == 0:
            name = f"{self._writing}{_TEMPORARY}"
            written = [x for x in self._checkpoints.iterdir() if x.name.startswith(name)]
            # Object stores cannot rename.
            save_hashes(next(iter(written), self._checkpoints / str(self._writing)))

    def close(self) -> None:
        """Waits for pending writes; removes the remains of failed ones."""
        try:
            self._manager.wait_until_finished()
        finally:
            self._manager.close()
            if jax.process_index() == 0:
                for folder in list(self._manager.directory.iterdir()):
                    if _TEMPORARY in folder.name:
                        folder.rmtree(missing_ok=True)


def restore_step(run_dir: str, step: int, state: TrainState) -> TrainState:
    """Returns the state saved at a step, laid out like `state`.

    Raises:
      UserError: see `restore_items`.
    """
    run_folder.check_step(run_dir, step)
    check_whole(run_dir, step, ITEMS)
    logging.info("Resuming %s from step %d.", run_dir, step)
    restored = restore_items(run_dir, step, state, ITEMS)
    return dataclasses.replace(
        restored, step=mesh_lib.put(np.asarray(step, np.int32), state.step.sharding)
    )


def restore_items(run_dir: str, step: int, state: TrainState, items: tuple[str, ...]) -> TrainState:
    """Replaces parts of `state` with those of a checkpoint; `params` includes the frozen ones.

    Args:
      run_dir: the run that wrote the checkpoint.
      step: a saved step.
      state: gives the name, shape and sharding of each array.
      items: some of `ITEMS`.

    Raises:
      UserError: there is no such step, or its names or shapes differ from those of `state`.
    """
    check_fits(run_dir, step, state, items)
    sources = _sources(run_dir, step, items)
    restored = {}
    with ocp.StandardCheckpointer() as checkpointer:
        for name, tree in _non_empty(state, tuple(sources)).items():
            abstract = jax.tree.map(ocp.utils.to_shape_dtype_struct, tree)
            with reading(sources[name]):
                restored[name] = checkpointer.restore(sources[name], abstract)
    return dataclasses.replace(state, **restored)


def check_whole(run_dir: str, step: int, items: tuple[str, ...]) -> None:
    """Compares the files of a checkpoint with their hashes; every process calls it.

    Args:
      run_dir: the run that wrote the checkpoint.
      step: a saved step.
      items: some of `ITEMS`; frozen parameters are always compared.

    Raises:
      UserError: a file is damaged or missing.
    """

    def check() -> None:
        below = tuple(f"{item}/" for item in items)
        damage = find_damage(run_folder.step_folder(run_dir, step), below)
        if damage := damage or find_damage(run_folder.frozen_folder(run_dir)):
            raise UserError(
                f"The checkpoint of step {step} is damaged: {damage}. Give another step."
            )

    processes.first_does(f"check a checkpoint of {run_dir}", check)


def check_fits(run_dir: str, step: int, state: TrainState, items: tuple[str, ...]) -> None:
    """Raises an error if a checkpoint has different names or shapes; reads no arrays.

    Args:
      run_dir: the run that wrote the checkpoint.
      step: a saved step.
      state: arrays or shapes.
      items: some of `ITEMS`.

    Raises:
      UserError: names the first differences.
    """
    run_folder.check_step(run_dir, step)
    sources = _sources(run_dir, step, items)
    for name, tree in _non_empty(state, tuple(sources)).items():
        check_arrays(sources[name], tree)


def restore_moments(run_dir: str, step: int, moments: Any) -> Any:
    """Returns the moments in the optimizer state of a checkpoint, laid out like `moments`.

    The rest of that state, which may be of another kind than that of this run, is left out.
    """
    folder = run_folder.step_folder(run_dir, step) / "opt_state"
    abstract = jax.tree.map(ocp.utils.to_shape_dtype_struct, moments)
    with ocp.StandardCheckpointer() as checkpointer:
        wanted = with_moments(_on_host(read_shapes(folder)), abstract)
        return moments_of(checkpointer.restore(folder, wanted))


def _sources(run_dir: str, step: int, items: tuple[str, ...]) -> dict[str, epath.Path]:
    sources = {name: run_folder.step_folder(run_dir, step) / name for name in items}
    if "params" in items:
        sources["frozen"] = run_folder.frozen_folder(run_dir)
    return sources


def restore_model(
    run_dir: str, step: int, shapes: tuple[Tree, Tree], mesh: Mesh | None = None
) -> tuple[Tree, Tree]:
    """Returns the parameters and running statistics of one checkpoint, without optimizer state.

    Args:
      run_dir: the run that wrote the checkpoint.
      step: a saved step.
      shapes: those of `(params, model_state)`, built from the run's config.
      mesh: every device gets a copy; None is the default device.

    Raises:
      UserError: there is no such step (lists the saved ones), or the shapes differ.
    """
    if mesh is None:
        sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    else:
        sharding = mesh_lib.replicated(mesh)
    params, model_state = jax.tree.map(
        lambda s: jax.ShapeDtypeStruct(s.shape, s.dtype, sharding=sharding), shapes
    )
    folder = run_folder.frozen_folder(run_dir)
    frozen_paths = set(flatten(read_shapes(folder))) if folder.exists() else set()
    trained, frozen = split(params, lambda path: path in frozen_paths)
    state = TrainState(
        step=jax.numpy.int32(step),
        params=trained,
        frozen=frozen,
        model_state=model_state,
        opt_state=(),
    )
    run_folder.check_step(run_dir, step)
    items = ("params", "model_state")
    check_whole(run_dir, step, items)
    state = restore_items(run_dir, step, state, items)
    return merge(state.params, state.frozen), state.model_state


def read_tree(run_dir: str, step: int | None, item: str) -> Tree:
    """Returns an item of a checkpoint as it was saved, as NumPy arrays; {} if it is missing.

    Args:
      run_dir: the run that wrote the checkpoint.
      step: a saved step; None for items that all steps share, such as `frozen`.
      item: its name.

    Raises:
      UserError: it is damaged, or claims more numbers than its files can hold.
    """
    parent = buckets.absolute(run_dir) if step is None else run_folder.step_folder(run_dir, step)
    folder = parent / item
    return read_arrays(folder) if folder.exists() else {}


def read_arrays(folder: epath.Path) -> Tree:
    """Returns the checkpoint item in a folder, as NumPy arrays.

    Raises:
      UserError: it is damaged, or claims more numbers than its files can hold.
    """
    shapes = read_shapes(folder)
    with reading(folder), ocp.StandardCheckpointer() as checkpointer:
        return checkpointer.restore(folder, _on_host(shapes))


def _on_host(shapes: Tree) -> Tree:
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)


def _non_empty(state: TrainState, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(state, name) for name in names if jax.tree.leaves(getattr(state, name))}

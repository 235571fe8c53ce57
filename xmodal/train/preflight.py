"""Checks a run before it starts: compiled programs, their memory and cost.

`--dry_run` does everything that a start does, but leaves nothing in the run's folder: it checks the
config, the data, and the weights or checkpoint, compiles the training step and the function that
embeds each modality, and runs two steps and one evaluation. A table shows, per device and call,
memory and capacity, FLOPs, bytes moved from and to memory, and the compiler's estimate of the time.

`--topology=v3:4x4` compiles with libtpu for a TPU slice that this machine does not have: generation
and chips along each axis (`v4:2x4x4`, `v5e:4x8`, `v5p:2x4x4`, `v6e:4x8`). Only the config is
checked then. XLA counts the body of a loop once, so FLOPs, traffic and time are lower bounds for
programs with loops.
"""

import contextlib
import math
import time
from collections.abc import Collection

import jax
import ml_collections
from absl import logging

from xmodal import data
from xmodal.core import mesh as mesh_lib
from xmodal.core.errors import UserError
from xmodal.train import frozen_features, loop, start
from xmodal.train.compiled_step import STEP, CompiledStep, compile_program, compile_step
from xmodal.train.costs import (
    Cost,
    capacity,
    check_fits,
    format_costs,
    measure,
    slice_devices,
)
from xmodal.train.evaluation.run_evaluation import RunEvaluation, make_embedder
from xmodal.train.folder import folder_lock, run_folder
from xmodal.train.resolve import resolve
from xmodal.train.run import Run
from xmodal.train.step.views import tower_inputs

_STEPS = 2


def check(
    config: ml_collections.ConfigDict,
    run_dir: str,
    *,
    topology: str = "",
    allow_changes: Collection[str] = (),
) -> None:
    """Checks and compiles a run, and runs two steps and one evaluation; its folder is unchanged.

    Args:
      config: see `loop.train`.
      run_dir: the run's folder; an existing run is resumed.
      topology: topology of a TPU slice, see `costs.slice_devices`: nothing is run, and a dataset
        that is missing on this machine is not an error.
      allow_changes: see `loop.train`.
    """
    run_folder.check_path(run_dir)
    with folder_lock.hold(run_dir):
        devices = slice_devices(topology) if topology else None
        run = resolve(
            config, run_dir, devices=devices, allow_changes=allow_changes, needs_data=not topology
        )
        evaluation = None if topology else RunEvaluation(run)
        step, costs = compile_all(run)
        memory = capacity(run.mesh.devices.flat[0])
        logging.info("Per device and call:\n%s", format_costs(costs, memory))
        if (profile := run.settings.profile) is not None:
            logging.info("The run traces %d steps from step %d on.", profile.steps, profile.start)
        for name, each in costs.items():
            check_fits(each, memory, name)
        if evaluation is not None:
            _try_out(run, run_dir, evaluation, step)
    if run.missing:
        logging.warning("Not checked: %s", run.missing)
    done = f"The run fits {topology}, but was not tried" if topology else "All checks passed"
    logging.info("%s; nothing was written to %s.", done, run_dir)


def compile_all(run: Run) -> tuple[CompiledStep, dict[str, Cost]]:
    """Compiles the training step and the function that embeds a batch, for every modality.

    Returns:
      The step, and the costs of all programs by name.
    """
    features = [
        feature_shapes(run, modality) for modality in run.settings.frozen_features.modalities
    ]
    state = run.state_shapes
    step = compile_step(run, state, features)
    *others, (_, longest) = step.programs.items()
    costs = {STEP: measure(longest)}
    for (length, has_short), program in others:
        layout = f"{length} tokens" + ", short texts apart" * has_short
        costs[f"{STEP}, {layout}"] = measure(program)
    # During evaluation, the run keeps the optimizer state on the devices.
    kept = sum(
        math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
        for leaf in jax.tree.leaves(state.opt_state)
    )
    embedder, sharding = make_embedder(run), mesh_lib.batch_sharded(run.mesh)
    rows = max(options.batch_size for options in run.evals.values())
    rows += -rows % run.mesh.size
    for modality in run.model.towers:
        inputs = jax.eval_shape(lambda batch, s=modality: tower_inputs(batch, s), dict(run.batch))
        columns = {
            name: column.update(shape=(rows, *column.shape[1:]), sharding=sharding)
            for name, column in inputs.items()
        }
        name = f"embedding of {rows} {'images' if modality == 'image' else 'captions'}"
        lowered = embedder.lower(modality, state.all_params(), state.model_state, columns)
        costs[name] = measure(compile_program(lowered, name), kept)
    return step, costs


def feature_shapes(run: Run, modality: str) -> data.FeatureReader:
    """Returns a reader of features that may not be stored yet; only their shapes are known."""
    params, model_state = run.shapes
    tower = run.model.towers[modality]
    inputs = jax.eval_shape(lambda batch: tower_inputs(batch, modality), dict(run.batch))
    shapes = jax.eval_shape(tower.frozen_features, params[modality], model_state[modality], inputs)
    ((name, features),) = shapes.items()
    rows, width = features.shape[1:]
    return data.FeatureReader("", name, {}, 0, rows, width)


def _try_out(run: Run, run_dir: str, evaluation: RunEvaluation, compiled: CompiledStep) -> None:
    """Runs two steps and one evaluation, as the run would."""
    logging.info("%s", start.describe(run))
    state, last = start.starting_state(run, run_dir), run.settings.total_steps
    features = frozen_features.open_or_compute(run, state, compute=False)
    if len(features) < len(run.settings.frozen_features.modalities):
        logging.info("No step was tried: its frozen features are computed at the first start.")
        return
    first, losses = int(state.step), []
    with contextlib.closing(loop.make_batches(run, first, features)) as batches:
        for step in range(first, min(first + _STEPS, last)):
            started = time.monotonic()
            state, scalars = compiled(state, next(batches), step)
            losses.append(float(scalars["train/loss"]))
            logging.info("step %d  loss %.4f  %.3f s", step, losses[-1], time.monotonic() - started)
    if run.settings.non_finite != "skip" and not all(map(math.isfinite, losses)):
        raise UserError(
            f"The losses from step {first} on are not finite: {losses}. Lower config.optimizer."
            "learning_rate, or set config.optimizer.clip_norm."
        )
    evaluation.run_state(last, state)

"""Checks a run before it starts: compiled programs, their memory and cost.

`--dry_run` does everything that a start does, but writes nothing to the run's folder: it checks the
config, the data, and the weights or checkpoint, compiles the training step and the function that
embeds each side, and runs two steps and one evaluation. A table shows, per device and call, memory
and capacity, FLOPs, bytes moved from and to memory, and the estimated time.

`--topology=v3:4x4` compiles with libtpu for a TPU slice that this machine does not have: generation
and chips along each axis (`v4:2x4x4`, `v5e:4x8`, `v5p:2x4x4`, `v6e:4x8`). Where the compiler gives
no time, it is that of the products at the published peak or of the traffic at the published
bandwidth, whichever is longer (`accelerators`); on CPUs there is none. XLA counts the body of a
loop once, so FLOPs, traffic and time are lower bounds for programs with loops.
"""

import contextlib
import itertools
import json
import math
import time
from collections.abc import Collection, Mapping
from typing import Any

import jax
import ml_collections
import numpy as np
from absl import logging
from etils import epath

from xmodal import data
from xmodal.core import mesh as mesh_lib
from xmodal.core import processes
from xmodal.core.atomic import write_atomically
from xmodal.core.errors import UserError
from xmodal.core.result_files import check_writable, finite_or_none
from xmodal.train import frozen_features, loop, reporting, start
from xmodal.train.compiled_step import CompiledStep, compile_step
from xmodal.train.costs import accelerators, cost, memory
from xmodal.train.costs.cost import format_costs
from xmodal.train.costs.memory import STEP
from xmodal.train.evaluation.run_evaluation import RunEvaluation, make_embedder
from xmodal.train.folder.damaged_checkpoints import newest_whole
from xmodal.train.resolve import resolve
from xmodal.train.run import Run
from xmodal.train.step.views import tower_inputs

_STEPS = 2
_SHORT_STEP = f"{STEP}, short texts"


def check(
    config: ml_collections.ConfigDict,
    run_dir: str,
    *,
    topology: str = "",
    output: str = "",
    allow_changes: Collection[str] = (),
) -> None:
    """Checks and compiles a run, and runs two steps and one evaluation; its folder is unchanged.

    Args:
      config: see `loop.train`.
      run_dir: the run's folder; an existing run is resumed.
      topology: topology of a TPU slice, see `accelerators.slice_devices`: nothing is run, and a
        dataset that is missing on this machine is not an error.
      output: JSON file for the figures; "" for none.
      allow_changes: see `loop.train`.

    Raises:
      UserError: anything that would stop the run at its start, insufficient memory, or a loss
        that is not finite.
    """
    loop.check_folder(run_dir)
    if output and processes.index() == 0:
        _check_output(epath.Path(output))
    if topology:
        mesh = mesh_lib.make_mesh(accelerators.slice_devices(topology))
        parts = resolve(config, run_dir, mesh=mesh, allow_changes=allow_changes, needs_data=False)
        missing = parts.missing or _missing_for_evaluation(parts)
        logging.info("%s", start.describe(parts))
        start.check_start(parts, run_dir, newest_whole(run_dir))
    else:
        parts, missing = resolve(config, run_dir, allow_changes=allow_changes), ""
        evaluation = RunEvaluation(parts)
    step, programs = compile_all(parts)
    costs = _measure_all(parts, programs)
    figures = _collect(parts, costs)
    figures |= {"topology": topology or None, "not_checked": missing or None}
    _write(output, figures)
    _log(parts, costs)
    for name, each in costs.items():
        memory.check_fits(each, figures["capacity_bytes"], name, parts)
    if topology:
        if missing:
            logging.warning("Not checked: %s", missing)
        logging.info("The run fits %s; it was not run, and nothing was written.", topology)
        return
    figures["run"] = _try_out(parts, run_dir, evaluation, step)
    _write(output, figures)
    logging.info("All checks passed; nothing was written to %s.", run_dir)


def _check_output(file: epath.Path) -> None:
    check_writable(file.parent)
    if file.is_dir():
        raise UserError(f"--output={file} is a folder; name a file, such as {file}/costs.json.")


def _missing_for_evaluation(parts: Run) -> str:
    """Checks the evaluators of a run; returns why one of their datasets is missing, or ""."""
    try:
        RunEvaluation(parts)
    except data.DatasetMissingError as error:
        return str(error)
    return ""


def compile_all(parts: Run) -> tuple[CompiledStep, dict[str, jax.stages.Compiled]]:
    """Compiles the training step and the function that embeds a batch, for every side.

    Args:
      parts: parts of the run.

    Returns:
      The step, and all programs by name: its program for the longest texts as `STEP`, and that with
      short texts apart as `_SHORT_STEP` if there is one.

    Raises:
      UserError: the compiler finds that a program does not fit.
    """
    features = [feature_shapes(parts, side) for side in parts.settings.frozen_features.sides]
    state = parts.state_shapes
    step = compile_step(parts, state, features)
    programs = {STEP: step.longest}
    if step.with_short_texts is not None:
        programs[_SHORT_STEP] = step.with_short_texts
    embedder = make_embedder(parts)
    sizes = [options.batch_size for options in parts.evals.values()]
    rows = -(-max(sizes) // parts.mesh.size) * parts.mesh.size
    sharding = mesh_lib.batch_sharded(parts.mesh)
    for side in parts.model.towers:
        inputs = jax.eval_shape(lambda batch, s=side: tower_inputs(batch, s), dict(parts.batch))
        columns = {
            name: column.update(shape=(rows, *column.shape[1:]), sharding=sharding)
            for name, column in inputs.items()
        }
        name = f"embedding of {rows} {'images' if side == 'image' else 'captions'}"
        lowered = embedder.lower(side, state.all_params(), state.model_state, columns)
        programs[name] = memory.compile_program(lowered, name, parts)
    return step, programs


def _measure_all(parts: Run, programs: Mapping[str, jax.stages.Compiled]) -> dict[str, cost.Cost]:
    # During evaluation, the run keeps the optimizer state on the devices.
    kept = _bytes_per_device(parts.state_shapes.opt_state)
    return {
        name: cost.measure(program, 0 if name in (STEP, _SHORT_STEP) else kept)
        for name, program in programs.items()
    }


def _collect(parts: Run, costs: Mapping[str, cost.Cost]) -> dict[str, Any]:
    """Returns the figures for `--output`."""
    device, shapes = parts.mesh.devices.flat[0], parts.state_shapes
    accelerator = accelerators.find(device)
    return {
        "config": parts.settings.name,
        "device": device.device_kind,
        "devices": parts.mesh.size,
        "batch_size": parts.settings.batch_size,
        "parameters": {"trained": _count(shapes.params), "frozen": _count(shapes.frozen)},
        "capacity_bytes": accelerators.capacity(device),
        "programs": {name: each.to_json(accelerator) for name, each in costs.items()},
    }


def _log(parts: Run, costs: Mapping[str, cost.Cost]) -> None:
    device = parts.mesh.devices.flat[0]
    table = format_costs(costs, accelerators.capacity(device), accelerators.find(device))
    logging.info("Per device and call:\n%s", table)
    if (profile := parts.settings.profile) is not None:
        logging.info("The run traces %d steps from step %d on.", profile.steps, profile.start)


def feature_shapes(parts: Run, side: str) -> data.FeatureReader:
    """Returns a reader of features that may not be stored yet; only their shapes are known."""
    params, model_state = parts.shapes
    tower = parts.model.towers[side]
    inputs = jax.eval_shape(lambda batch: tower_inputs(batch, side), dict(parts.batch))
    shapes = jax.eval_shape(tower.frozen_features, params[side], model_state[side], inputs)
    ((name, features),) = shapes.items()
    rows, width = features.shape[1:]
    return data.FeatureReader("", name, {}, 0, rows, width)


def _try_out(
    parts: Run, run_dir: str, evaluation: RunEvaluation, compiled: CompiledStep
) -> dict[str, Any]:
    """Runs two steps and one evaluation, as the run would."""
    state = start.starting_state(parts, run_dir, newest_whole(run_dir))
    first = int(state.step)
    features = frozen_features.open_or_compute(parts, state, compute=False)
    if len(features) < len(parts.settings.frozen_features.sides):
        logging.info("No step was tried: its frozen features are computed at the first start.")
        return {}
    losses, seconds = [], []
    steps = range(first, min(first + _STEPS, parts.settings.total_steps))
    with contextlib.closing(loop.make_batches(parts, first, features)) as batches:
        for step, local in zip(steps, batches, strict=False):
            started = time.monotonic()
            batch = mesh_lib.global_batch(local, parts.mesh)
            state, scalars = compiled(state, batch, mesh_lib.put_step(step, parts.mesh))
            losses.append(float(scalars["train/loss"]))
            seconds.append(time.monotonic() - started)
            finite = reporting.is_finite({name: float(value) for name, value in scalars.items()})
            if not finite and parts.settings.non_finite == "skip":
                logging.warning("step %d  loss or gradient is not finite: skipped", step)
            elif not finite:
                raise UserError(
                    f"Loss or gradient of step {step} is not finite (loss {losses[-1]}): lower "
                    "config.optimizer.learning_rate, set config.optimizer.clip_norm, or inspect "
                    f"the images {local['image_id'].tolist()[:8]}, ..."
                )
            logging.info("step %d  loss %.4f  %.3f s", step, losses[-1], seconds[-1])
    metrics = evaluation.run_state(parts.settings.total_steps, state)
    for name, value in itertools.islice(metrics.items(), 1):
        logging.info("evaluation of %d numbers: %s %.4g, ...", len(metrics), name, value)
    return {"losses": losses, "step_seconds": seconds, "metrics": metrics}


def _bytes_per_device(tree: Any) -> int:
    return sum(
        math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
        for leaf in jax.tree.leaves(tree)
    )


def _count(tree: Any) -> int:
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(tree))


def _write(output: str, figures: dict[str, Any]) -> None:
    if output and processes.index() == 0:
        text = json.dumps(finite_or_none(figures), indent=2, allow_nan=False)
        epath.Path(output).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(output, f"{text}\n")

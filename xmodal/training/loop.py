"""The only training loop."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator

import jax
import ml_collections
import numpy as np
from absl import logging
from jax.experimental import multihost_utils

from xmodal import data
from xmodal import mesh as mesh_lib
from xmodal.config import UserError
from xmodal.training import (
    checkpoints,
    frozen_cache,
    init_towers,
    preflight,
    reporting,
)
from xmodal.training.evaluation import RunEvaluator, evaluate_checkpoint
from xmodal.training.init_from import init_from
from xmodal.training.run_records import check_records, save_records
from xmodal.training.state import TrainState, abstract_state, create_state, flatten
from xmodal.training.step import jit_step, make_step


def train(config: ml_collections.ConfigDict, run_dir: str, *, dry_run: bool = False) -> None:
    """Trains one run, or goes on with it, evaluates as it goes and once more at the end.

    Evaluation and checkpoint of step s come before batch s is drawn: a killed run starts again
    exactly where its last checkpoint was made.

    Args:
      config: see the files under configs/.
      run_dir: the run's folder; a run already there is continued.
      dry_run: stop after compiling; parameters, memory and FLOPs are logged, nothing is written.

    Raises:
      UserError: the config is wrong, or not that of the run that is there.
      reporting.NonFiniteLossError: the run diverged; evidence and last good state are saved.
    """
    parts = preflight.assemble(config, starts=not checkpoints.steps(run_dir))
    config = parts.config
    records = check_records(run_dir, config)
    state = starting_state(parts, run_dir)
    store = None
    if config.frozen_cache and not dry_run:
        store = frozen_cache.open_or_build(parts, state)
    compiled = compile_step(parts, state)
    if dry_run:
        return
    checkpoints.save_config(run_dir, config)
    save_records(run_dir, records)
    evaluator = RunEvaluator(parts)
    saver = checkpoints.Checkpoints(run_dir, config.checkpoint)
    writer = reporting.make_writer(run_dir)
    writer.write_hparams(reporting.flat_config(config.to_dict()))
    reporter = reporting.Reporter(
        writer,
        total_steps=config.total_steps,
        batch_size=config.batch_size,
        every=config.log_every,
        flops_per_step=preflight.count_flops(compiled),
    )
    first_step = int(state.step)
    batches = make_batches(parts, first_step)
    if store is not None:
        batches = frozen_cache.replace_ids(batches, store)
    with contextlib.closing(saver), contextlib.closing(writer), stop_signal() as stop_requested:
        try:
            for step in range(first_step, config.total_steps + 1):
                evaluate = is_due(step, config.evaluation.every, config.total_steps)
                save = is_due(step, config.checkpoint.every, config.total_steps)
                if (evaluate or save) and saver.lacks(step):
                    with reporter.paused():
                        metrics = evaluator.run_state(state) if evaluate else {}
                        writer.write_scalars(step, metrics)
                        saver.save(state, metrics)
                if step == config.total_steps:
                    break
                if stop_requested(step):
                    saver.save(state)
                    logging.warning("Stopped at step %d; the same command goes on.", step)
                    return
                with reporter.waiting():
                    local = next(batches)
                batch = mesh_lib.global_batch(local, parts.mesh)
                state, scalars = compiled(state, batch, mesh_lib.put_step(step, parts.mesh))
                reporter.record(step, scalars, local["image_id"])
        except reporting.NonFiniteLossError as failure:
            failure.save(run_dir)
            saver.save(state)
            raise
    step, split = checkpoints.best_step(run_dir), config.splits.test
    output = os.path.join(run_dir, split)
    with contextlib.closing(reporting.make_writer(output, log=False)) as test_writer:
        evaluate_checkpoint(evaluator, run_dir, step, split, output, test_writer)


def starting_state(parts: preflight.Parts, run_dir: str) -> TrainState:
    """The run's own newest checkpoint, else weights of `config.init_from`, else a fresh start."""
    init = preflight.state_init(parts)
    shapes = abstract_state(init, parts.mesh, parts.config.sharding)
    logging.info("%s", preflight.describe(parts, shapes))
    if there := checkpoints.steps(run_dir):
        if there[-1] > parts.config.total_steps:
            raise UserError(
                f"{run_dir} is at step {there[-1]}, beyond config.total_steps="
                f"{parts.config.total_steps}; raise it, or start anew with another --workdir."
            )
        checkpoints.check_same_run(run_dir, parts.config)
        return checkpoints.restore_latest(run_dir, shapes)
    source = parts.config.init_from
    towers = init_towers.load_towers(shapes, source)
    if towers.params:
        logging.info("%s", init_towers.describe(shapes, towers, source))
    state = init_towers.place(create_state(init, parts.mesh, parts.config.sharding), towers)
    if source.run:
        return init_from(state, source)
    if not towers.params:
        logging.info("Starting %s from scratch, seed %d.", parts.config.name, parts.config.seed)
    random = {
        "/".join(path.split("/")[:2]) for path in set(flatten(state.frozen)) - set(towers.params)
    }
    if random:
        logging.warning("Frozen at a random start: %s.", sorted(random))
    return state


def compile_step(parts: preflight.Parts, state: TrainState) -> jax.stages.Compiled:
    """Compiles the step once, ahead of the first batch, and logs what it will cost."""
    step = make_step(
        parts.model,
        parts.tasks,
        parts.optimizer,
        parts.schedule,
        seed=parts.config.seed,
        l2=parts.config.l2,
    )
    started = time.monotonic()
    batch = preflight.abstract_batch(parts)
    number = jax.ShapeDtypeStruct((), np.int32, sharding=mesh_lib.replicated(parts.mesh))
    compiled = jit_step(step, state, parts.mesh).lower(state, batch, number).compile()
    logging.info("Compiled in %.0f s. %s", time.monotonic() - started, preflight.cost(compiled))
    return compiled


def make_batches(parts: preflight.Parts, first_step: int) -> Iterator[dict[str, np.ndarray]]:
    """This process's rows of every batch from `first_step` on."""
    return data.train_batches(
        parts.config.data,
        split=parts.config.splits.train,
        seed=parts.config.seed,
        batch_size=parts.config.batch_size,
        first_step=first_step,
        total_steps=parts.config.total_steps,
        process_index=jax.process_index(),
        process_count=jax.process_count(),
    )


def is_due(step: int, every: int, total_steps: int) -> bool:
    """Whether something done every so many steps falls on this one; the last always counts."""
    return step == total_steps or (every > 0 and step % every == 0)


@contextlib.contextmanager
def stop_signal() -> Iterator[Callable[[int], bool]]:
    """Yields a function of the step that says whether to save and stop.

    A single process listens to SIGTERM. Several agree through JAX's own preemption service, so
    that all of them stop at the same step.
    """
    if jax.process_count() > 1:
        yield multihost_utils.reached_preemption_sync_point
        return
    received = []
    previous = signal.signal(signal.SIGTERM, lambda *_: received.append(True))
    try:
        yield lambda step: bool(received)
    finally:
        signal.signal(signal.SIGTERM, previous)

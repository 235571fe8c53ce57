"""The training step, compiled once for every layout of a batch's texts."""

import functools
import time
from collections.abc import Mapping, Sequence

import jax
import numpy as np
from absl import logging

from xmodal import data
from xmodal.core import mesh as mesh_lib
from xmodal.core.progress import progress
from xmodal.train.costs import cost, memory
from xmodal.train.optimization.schedules import Lengths, read_lengths
from xmodal.train.run import Run
from xmodal.train.step.length_bucketing import RANK
from xmodal.train.step.step import Batch, Scalars, jit_step, make_step
from xmodal.train.tree import TrainState

Layout = tuple[int, bool]
"""See `DataConfig.text_layouts`."""
_NO_TEXTS = (0, False)


class CompiledStep:
    """The training step of a run, for batches of all of its text layouts.

    Attributes:
      programs: the program of every layout, ascending; the last one needs the most memory.
    """

    def __init__(self, programs: Mapping[Layout, jax.stages.Compiled], run: Run) -> None:
        """Measures the programs."""
        self.programs, self._run = dict(programs), run
        self._flops = {layout: cost.measure(each).flops for layout, each in programs.items()}

    @property
    def most_flops(self) -> float:
        """FLOPs of the last program on one device, as the compiler counts; 0 if it does not."""
        return list(self._flops.values())[-1]

    def flops(self, batch: Batch) -> float:
        """FLOPs of the step on a batch, like `most_flops`."""
        return self._flops[_layout(batch)]

    def __call__(
        self, state: TrainState, batch: Batch, step: jax.Array
    ) -> tuple[TrainState, Scalars]:
        """Returns the next state and the scalars of a step, see `step.make_step`."""
        return self.programs[_layout(batch)](state, batch, step, *self._arguments)

    @functools.cached_property
    def _arguments(self) -> tuple[Lengths, jax.Array]:
        """Lengths and seed, on the devices, which a compilation for others does not have."""
        settings, mesh = self._run.settings, self._run.mesh
        lengths = read_lengths(settings.optimizer.schedule, settings.total_steps)
        on_devices = (mesh_lib.put_step(int(each), mesh) for each in lengths)
        return Lengths(*on_devices), mesh_lib.put(self._run.key_data, mesh_lib.replicated(mesh))


def lower_step(
    run: Run, state: TrainState, features: Sequence[data.FeatureReader] = ()
) -> dict[Layout, jax.stages.Lowered]:
    """Returns the step for every layout of texts; see `compile_step`.

    Its text is the same for runs that differ only in their length and seed, so that the compilation
    cache has the program of another.
    """
    settings, longest = run.settings, abstract_batch(run, features)
    step = make_step(
        run.model,
        run.tasks,
        run.optimizer,
        seed=settings.seed,
        mesh=run.mesh,
        l2=settings.l2,
        accumulation_steps=settings.accumulation_steps,
        skip_non_finite=settings.non_finite == "skip",
        length_bucketing=settings.data.length_bucketing,
    )
    jitted = jit_step(step, state, run.mesh)
    everywhere = mesh_lib.replicated(run.mesh)
    number = jax.ShapeDtypeStruct((), np.int32, sharding=everywhere)
    key = jax.ShapeDtypeStruct(run.key_data.shape, np.uint32, sharding=everywhere)
    lowered = {}
    for length, has_short in settings.data.text_layouts or (_NO_TEXTS,):
        # Ranks are one number for every text, like the ids of captions.
        ranks = {RANK: longest["caption_id"]} if has_short else {}
        batch = data.cut_texts(longest, length) | ranks
        lowered[length, has_short] = jitted.lower(
            state, batch, number, Lengths(number, number), key
        )
    return lowered


def compile_step(
    run: Run, state: TrainState, features: Sequence[data.FeatureReader] = ()
) -> CompiledStep:
    """Returns the step, compiled before the first batch, and logs its cost.

    Args:
      run: the run.
      state: its arrays, or their shapes and sharding.
      features: frozen features that replace columns of a batch.

    Raises:
      UserError: the compiler finds that a program does not fit in device memory.
    """
    started, programs = time.monotonic(), {}
    layouts = lower_step(run, state, features)
    with progress("Compiling the training step", len(layouts)) as done:
        for layout, lowered in layouts.items():
            programs[layout] = memory.compile_program(lowered, memory.STEP, run)
            done(1)
    logging.info("Compiled the training step in %.0f s.", time.monotonic() - started)
    return CompiledStep(programs, run)


def abstract_batch(
    run: Run, features: Sequence[data.FeatureReader] = ()
) -> dict[str, jax.ShapeDtypeStruct]:
    """Returns shapes and sharding of a global training batch with the longest texts."""
    spec = dict(run.batch)
    for reader in features:
        spec = reader.replace_spec(spec)
    sharding = mesh_lib.batch_sharded(run.mesh)
    return {name: column.update(sharding=sharding) for name, column in spec.items()}


def _layout(batch: Batch) -> Layout:
    return (batch["text_mask"].shape[2], RANK in batch) if "text_mask" in batch else _NO_TEXTS

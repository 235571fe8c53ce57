"""The training step, compiled once for every layout of a batch's texts."""

import functools
import re
import time
from collections.abc import Mapping, Sequence

import jax
import numpy as np
from absl import logging

from xmodal import data
from xmodal.core import mesh as mesh_lib
from xmodal.train.costs import does_not_fit, measure
from xmodal.train.run import Run
from xmodal.train.step.step import Scalars, make_step
from xmodal.train.step.views import RANK
from xmodal.train.tree import TrainState

Rows = Mapping[str, np.ndarray]
Layout = tuple[int, bool]
"""See `DataConfig.text_layouts`."""
_NO_TEXTS = (0, False)
STEP = "training step"
# XLA's YNNPACK takes four times as long as its own code for the gradient of a convolution's kernel:
# without this option, the quickstart's step takes a seventh more time. Sums stay with YNNPACK: over
# the axes of a picture, XLA's own code adds one number to the next, which rounds badly.
_CPU_STEP_OPTIONS: dict[str, str | bool] = {
    "xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_REDUCE"
}


class CompiledStep:
    """The training step of a run, for batches of all of its text layouts.

    Attributes:
      programs: the program of every layout, ascending; the last one needs the most memory.
    """

    def __init__(self, programs: Mapping[Layout, jax.stages.Compiled], run: Run) -> None:
        """Measures the programs."""
        self.programs, self._run = dict(programs), run
        self._tflop = {layout: measure(each)["TFLOP"] for layout, each in programs.items()}

    def flops(self, batch: Rows) -> float:
        """FLOPs of a step on one device, as the compiler counts; 0 if it does not."""
        return self._tflop[_layout(batch)] * 1e12

    def __call__(self, state: TrainState, rows: Rows, step: int) -> tuple[TrainState, Scalars]:
        """Returns the next state and the scalars of a step, see `step.make_step`.

        Args:
          state: the state, which is donated.
          rows: this process's rows of the batch.
          step: number of the step.
        """
        mesh = self._run.mesh
        batch = mesh_lib.global_batch(dict(rows), mesh)
        number = mesh_lib.put(np.int32(step), mesh_lib.replicated(mesh))
        return self.programs[_layout(rows)](state, batch, number, self._key)

    @functools.cached_property
    def _key(self) -> jax.Array:
        """The seed on the devices, which a compilation for others does not have."""
        return mesh_lib.put(self._run.key_data, mesh_lib.replicated(self._run.mesh))


def lower_step(
    run: Run, state: TrainState, features: Sequence[data.FeatureReader] = ()
) -> dict[Layout, jax.stages.Lowered]:
    """Returns the step for every layout of texts; see `compile_step`.

    Its text is the same for runs that differ only in their seed, so that the compilation cache has
    the program of another.
    """
    settings, longest = run.settings, dict(run.batch)
    for reader in features:
        longest = reader.replace_spec(longest)
    rows = mesh_lib.batch_sharded(run.mesh)
    longest = {name: column.update(sharding=rows) for name, column in longest.items()}
    step = make_step(
        run.model,
        run.tasks,
        run.optimizer,
        mesh=run.mesh,
        l2=settings.l2,
        accumulation_steps=settings.accumulation_steps,
        skip_non_finite=settings.non_finite == "skip",
        length_bucketing=settings.data.length_bucketing,
    )
    everywhere, shardings = mesh_lib.replicated(run.mesh), jax.tree.map(lambda x: x.sharding, state)
    # The new state reuses the memory of the old one.
    jitted = jax.jit(step, donate_argnums=0, out_shardings=(shardings, everywhere))
    number = jax.ShapeDtypeStruct((), np.int32, sharding=everywhere)
    key = jax.ShapeDtypeStruct(run.key_data.shape, np.uint32, sharding=everywhere)
    lowered = {}
    for length, has_short in settings.data.text_layouts or (_NO_TEXTS,):
        # Ranks are one number for every text, like the ids of captions.
        ranks = {RANK: longest["caption_id"]} if has_short else {}
        batch = data.cut_texts(longest, length) | ranks
        lowered[length, has_short] = jitted.lower(state, batch, number, key)
    return lowered


def compile_step(
    run: Run, state: TrainState, features: Sequence[data.FeatureReader] = ()
) -> CompiledStep:
    """Returns the step, compiled before the first batch, and logs its cost.

    Args:
      run: the run.
      state: its arrays, or their shapes and sharding.
      features: frozen features that replace columns of a batch.
    """
    started, lowered = time.monotonic(), lower_step(run, state, features)
    logging.info("Compiling the training step.")
    options = _CPU_STEP_OPTIONS if run.mesh.devices.flat[0].platform == "cpu" else None
    programs = {k: compile_program(each, STEP, options) for k, each in lowered.items()}
    logging.info("Compiled the training step in %.0f s.", time.monotonic() - started)
    return CompiledStep(programs, run)


def compile_program(
    lowered: jax.stages.Lowered, what: str, options: dict[str, str | bool] | None = None
) -> jax.stages.Compiled:
    """Compiles a program.

    Args:
      lowered: the lowered program.
      what: its name, for the error.
      options: options of XLA, which a version that lacks them does without.
    """
    try:
        return lowered.compile(options)
    except jax.errors.JaxRuntimeError as error:
        if re.search("No such compile option|not a valid enum value", str(error)):
            return lowered.compile()
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise does_not_fit(what, str(error).splitlines()[0]) from error


def _layout(batch: Rows) -> Layout:
    return (batch["text_mask"].shape[2], RANK in batch) if "text_mask" in batch else _NO_TEXTS

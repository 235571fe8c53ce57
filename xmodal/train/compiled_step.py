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
from xmodal.train.step.state import TrainState
from xmodal.train.step.step import Batch, Scalars, jit_step, make_step
from xmodal.train.step.two_lengths import RANK

Layout = tuple[int, bool]
"""See `DataConfig.text_layouts`."""
_NO_TEXTS = (0, False)


class CompiledStep:
    """The training step of a run, for batches of all of its text layouts."""

    def __init__(self, programs: Mapping[Layout, jax.stages.Compiled], parts: Run) -> None:
        """Takes the program of every layout, ascending."""
        self._programs, self._parts = dict(programs), parts
        self._flops = {
            layout: cost.measure(program).flops for layout, program in self._programs.items()
        }

    @property
    def longest(self) -> jax.stages.Compiled:
        """The program for the longest texts, which needs the most memory."""
        return list(self._programs.values())[-1]

    @property
    def with_short_texts(self) -> jax.stages.Compiled | None:
        """The program for the longest texts with short ones apart, if there is one."""
        return next((self._programs[each] for each in reversed(self._programs) if each[1]), None)

    @property
    def most_flops(self) -> float:
        """FLOPs of `longest` on one device, as the compiler counts them; 0 if it does not."""
        return list(self._flops.values())[-1]

    def flops(self, batch: Batch) -> float:
        """FLOPs of the step on a batch, like `most_flops`."""
        return self._flops[_layout(batch)]

    def __call__(
        self, state: TrainState, batch: Batch, step: jax.Array
    ) -> tuple[TrainState, Scalars]:
        """Returns the next state and the scalars of a step, see `step.make_step`."""
        return self._programs[_layout(batch)](state, batch, step, *self._run)

    @functools.cached_property
    def _run(self) -> tuple[Lengths, jax.Array]:
        """Lengths and seed, on the devices, which a compilation for others does not have."""
        settings, mesh = self._parts.settings, self._parts.mesh
        lengths = read_lengths(settings.optimizer.schedule, settings.total_steps)
        on_devices = (mesh_lib.put_step(int(each), mesh) for each in lengths)
        return Lengths(*on_devices), mesh_lib.put(self._parts.key_data, mesh_lib.replicated(mesh))


def lower_step(
    parts: Run, state: TrainState, features: Sequence[data.FeatureReader] = ()
) -> dict[Layout, jax.stages.Lowered]:
    """Returns the step for every layout of texts; see `compile_step`.

    Its text is the same for runs that differ only in their length and seed, so that the compilation
    cache has the program of another.
    """
    step = make_step(
        parts.model,
        parts.tasks,
        parts.optimizer,
        seed=parts.settings.seed,
        mesh=parts.mesh,
        l2=parts.settings.l2,
        accumulation_steps=parts.settings.accumulation_steps,
        skip_non_finite=parts.settings.non_finite == "skip",
        short_texts=parts.settings.data.short_texts,
    )
    jitted = jit_step(step, state, parts.mesh)
    everywhere = mesh_lib.replicated(parts.mesh)
    number = jax.ShapeDtypeStruct((), np.int32, sharding=everywhere)
    key = jax.ShapeDtypeStruct(parts.key_data.shape, np.uint32, sharding=everywhere)
    run = number, Lengths(number, number), key
    batch = abstract_batch(parts, features)
    return {
        layout: jitted.lower(state, _with_layout(batch, layout), *run)
        for layout in parts.settings.data.text_layouts or (_NO_TEXTS,)
    }


def compile_step(
    parts: Run, state: TrainState, features: Sequence[data.FeatureReader] = ()
) -> CompiledStep:
    """Returns the step, compiled before the first batch, and logs its cost.

    Args:
      parts: parts of the run.
      state: its arrays, or their shapes and sharding.
      features: frozen features that replace columns of a batch.

    Raises:
      UserError: the compiler finds that a program does not fit in device memory.
    """
    settings = parts.settings
    layouts = settings.data.text_layouts
    is_kept = getattr(jax.config, "jax_compilation_cache_dir", None)
    logging.info(
        "Compiling the training step%s%s.",
        f" for texts of {_describe(layouts)} tokens" if len(layouts) > 1 else "",
        "; later starts read it from the cache" if is_kept else "",
    )
    started = time.monotonic()
    programs = {}
    with progress("Compiling the training step", len(layouts) or 1) as advance:
        for layout, lowered in lower_step(parts, state, features).items():
            programs[layout] = memory.compile_program(lowered, memory.STEP, parts)
            advance(1)
    compiled = CompiledStep(programs, parts)
    seconds = time.monotonic() - started
    logging.info("Compiled in %.0f s. %s", seconds, cost.describe(cost.measure(compiled.longest)))
    return compiled


def abstract_batch(
    parts: Run, features: Sequence[data.FeatureReader] = ()
) -> dict[str, jax.ShapeDtypeStruct]:
    """Returns shapes and sharding of a global training batch with the longest texts."""
    spec = dict(parts.batch)
    for reader in features:
        spec = reader.replace_spec(spec)
    sharding = mesh_lib.batch_sharded(parts.mesh)
    return {name: column.update(sharding=sharding) for name, column in spec.items()}


def _layout(batch: Batch) -> Layout:
    return (batch["text_mask"].shape[2], RANK in batch) if "text_mask" in batch else _NO_TEXTS


def _with_layout(batch: dict[str, jax.ShapeDtypeStruct], layout: Layout) -> Batch:
    length, has_short = layout
    # Ranks are one number for every text, like the ids of captions.
    return data.cut_texts(batch, length) | ({RANK: batch["caption_id"]} if has_short else {})


def _describe(layouts: Sequence[Layout]) -> str:
    return ", ".join(f"{length}{' or fewer' * has_short}" for length, has_short in layouts)

"""Compiles programs, with an error for those that do not fit in device memory."""

import re

import jax

from xmodal.core.errors import UserError
from xmodal.train.costs.cost import Cost
from xmodal.train.run import Run

STEP = "training step"
# XLA's YNNPACK takes four times as long as its own code for the gradient of a convolution's kernel:
# without this option, the quickstart's step takes a seventh more time. Sums stay with YNNPACK: over
# the axes of a picture, XLA's own code adds one number to the next, which rounds badly.
_CPU_STEP_OPTIONS: dict[str, str | bool] = {
    "xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_REDUCE"
}


def compile_program(lowered: jax.stages.Lowered, what: str, run: Run) -> jax.stages.Compiled:
    """Compiles a program.

    Args:
      lowered: the lowered program, for the devices of the run.
      what: `STEP`, or the name of another program, which embeds.
      run: the run.

    Raises:
      UserError: the compiler finds that it does not fit in device memory.
    """
    platform = run.mesh.devices.flat[0].platform
    try:
        return lowered.compile(_CPU_STEP_OPTIONS if what == STEP and platform == "cpu" else None)
    except jax.errors.JaxRuntimeError as error:
        if re.search("No such compile option|not a valid enum value", str(error)):
            return lowered.compile()  # A version of XLA without YNNPACK or this kind.
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise _does_not_fit(what, str(error).splitlines()[0], run) from error


def check_fits(cost: Cost, capacity: int | None, what: str, run: Run) -> None:
    """Raises an error if a program needs more memory than a device has.

    Args:
      cost: cost of the program.
      capacity: memory of a device in bytes; None if not known.
      what: see `compile_program`.
      run: the run.
    """
    if capacity is not None and cost.peak_bytes > capacity:
        peak, most, alone = (x / 2**30 for x in (cost.peak_bytes, capacity, cost.argument_bytes))
        needs = f"it needs {peak:,.2f} GiB of {most:,.2f} GiB, state and batch alone {alone:,.2f}"
        raise _does_not_fit(what, f"{needs} GiB, per device", run)


def _does_not_fit(what: str, reason: str, run: Run) -> UserError:
    settings, shard = run.settings, "--config.sharding=\"[('.*', 'fsdp')]\""
    changes = [f"{shard} splits parameters and optimizer state over the devices."]
    if what == STEP:
        changes = [
            "--config.model.MODALITY.encoder.remat=True recomputes the blocks of an encoder.",
            *changes,
            "--config.tasks.NAME.loss.options.engine=ring holds no scores of all pairs (chunked "
            "on one device).",
            f"--config.accumulation_steps (now {settings.accumulation_steps}) embeds a batch in "
            "parts, with all its negatives.",
            "--config.freeze leaves the parameters that it matches without optimizer state.",
            f"--config.batch_size (now {settings.batch_size}) may be smaller.",
        ]
    else:
        sizes = {name: each.batch_size for name, each in run.evals.items()}
        changes += [f"--config.evals.NAME.batch_size may be smaller (now {sizes})."]
    device = run.mesh.devices.flat[0].device_kind
    return UserError(
        f"The {what} does not fit: {reason} ({device}). To change:\n  " + "\n  ".join(changes)
    )

"""Errors for programs that do not fit in device memory, with suggested changes."""

import dataclasses
import inspect
import re
from collections.abc import Mapping
from typing import Any

import jax

from xmodal.core.errors import UserError
from xmodal.losses import LOSSES
from xmodal.losses.engine import choose_engine
from xmodal.models import ENCODERS
from xmodal.train.costs.cost import Cost
from xmodal.train.run import Run
from xmodal.train.tree import flatten

STEP = "training step"
_GIB = 2**30
# From this batch size on, not storing the scores of all pairs is worthwhile.
_MANY_PAIRS = 4096
# XLA's YNNPACK takes four times as long as its own code for the gradient of a convolution's kernel:
# without this option, the quickstart's step takes a seventh more time. Sums stay with YNNPACK: over
# the axes of a picture, XLA's own code adds one number to the next, which rounds badly.
_CPU_STEP_OPTIONS: dict[str, str | bool] = {
    "xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_REDUCE"
}
_SMALLER = "a smaller model, or devices with more memory."


def compile_program(lowered: jax.stages.Lowered, what: str, parts: Run) -> jax.stages.Compiled:
    """Compiles a program.

    Args:
      lowered: the lowered program, for the devices of `parts`.
      what: `STEP`, or the name of another program, which embeds.
      parts: parts of the run.

    Raises:
      UserError: the compiler finds that it does not fit in device memory.
    """
    platform = parts.mesh.devices.flat[0].platform
    try:
        return lowered.compile(_CPU_STEP_OPTIONS if what == STEP and platform == "cpu" else None)
    except jax.errors.JaxRuntimeError as error:
        if re.search("No such compile option|not a valid enum value", str(error)):
            return lowered.compile()  # A version of XLA without YNNPACK or this kind.
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        numbers = re.search(r"[Uu]sed ([\d.]+[KMGT]?) of ([\d.]+[KMGT]?) hbm", str(error))
        needs = f"needs {numbers[1]} of {numbers[2]}" if numbers else "needs more than is available"
        raise UserError(_sentence(what, needs, parts)) from error


def check_fits(cost: Cost, capacity: int | None, what: str, parts: Run) -> None:
    """Raises an error if a program needs more memory than a device has.

    Args:
      cost: cost of the program.
      capacity: memory of a device in bytes; None if not known.
      what: see `compile_program`.
      parts: parts of the run.

    Raises:
      UserError: gives both numbers, and what to change.
    """
    if capacity is None or cost.peak_bytes <= capacity:
        return
    needs = f"needs {cost.peak_bytes / _GIB:,.2f} GiB of {capacity / _GIB:,.2f} GiB"
    given = cost.argument_bytes if cost.argument_bytes > capacity else 0
    raise UserError(_sentence(what, needs, parts, given))


def _sentence(what: str, needs: str, parts: Run, given: int = 0) -> str:
    """The error message; `given`: bytes of state and batch if these already do not fit."""
    device = parts.mesh.devices.flat[0].device_kind
    if what != STEP:
        found = embedding_remedies(parts)
    else:
        found = state_remedies(parts) if given else step_remedies(parts)
    alone = f", state and batch alone {given / _GIB:,.2f} GiB" if given else ""
    changes = "".join(f"\n  {change}" for change in found)
    return f"The {what} does not fit: it {needs} per device ({device}){alone}. To change:{changes}"


def embedding_remedies(parts: Run) -> list[str]:
    """Returns config changes that save memory when an evaluation embeds items."""
    sizes = {name: each.batch_size for name, each in parts.evals.items()}
    largest = max(sizes.values(), default=1)
    found = [
        f"--config.evals.{name}.batch_size={size // 2} (now {size})."
        for name, size in sizes.items()
        if size == largest > 1
    ]
    return [*found, *_sharding_remedies(parts)] or [_SMALLER]


def state_remedies(parts: Run) -> list[str]:
    """Returns config changes that help if the state itself, or a batch, is too large."""
    found = _sharding_remedies(parts) or ["more devices, with --config.sharding as 'fsdp'."]
    frozen = "--config.freeze leaves the parameters that it matches without optimizer state."
    return [*found, frozen, *_batch_remedies(parts), _SMALLER]


def step_remedies(parts: Run) -> list[str]:
    """Returns changes of the config that save memory, those that change no number first."""
    settings, found = parts.settings, []
    for side in parts.model.towers:
        encoder = settings.model[side]["encoder"]
        known = {field.name for field in dataclasses.fields(ENCODERS[encoder["name"]].config)}
        is_trained = any(path.startswith(f"{side}/encoder/") for path in flatten(parts.trained))
        if "remat" in known and not encoder.get("remat") and is_trained:
            found.append(f"--config.model.{side}.encoder.remat=True recomputes its blocks.")
    found += _sharding_remedies(parts)
    for name, task in settings.tasks.items():
        if settings.batch_size >= _MANY_PAIRS and _engine(task["loss"], parts) == "dense":
            other = "ring" if parts.mesh.size > 1 else "chunked"
            found.append(
                f"--config.tasks.{name}.loss.options.engine={other} holds no scores of all pairs."
            )
    if steps := _more_parts(settings.accumulation_steps, settings.batch_size // parts.mesh.size):
        found.append(
            f"--config.accumulation_steps={steps} (now {settings.accumulation_steps}) embeds a "
            "batch in parts, with all its negatives; batch normalization takes the statistics of "
            "a part."
        )
    return [*found, *_batch_remedies(parts)] or [_SMALLER]


def _sharding_remedies(parts: Run) -> list[str]:
    if parts.mesh.size == 1 or any(rule == "fsdp" for _, rule in parts.settings.sharding):
        return []
    return [
        "--config.sharding=\"[('.*', 'fsdp')]\" splits parameters and optimizer state over the "
        "devices."
    ]


def _batch_remedies(parts: Run) -> list[str]:
    size = parts.settings.batch_size
    multiple = parts.mesh.size * parts.settings.accumulation_steps
    smaller = size // 2 // multiple * multiple
    return [f"--config.batch_size={smaller} (now {size}), or more devices."] if smaller else []


def _engine(loss: Mapping[str, Any], parts: Run) -> str | None:
    """Returns the engine that a task's loss runs on; None where it has none."""
    arguments = inspect.signature(LOSSES[loss["name"]].function).parameters
    if "engine" not in arguments:
        return None
    named = loss.get("options", {}).get("engine", arguments["engine"].default)
    size = parts.settings.batch_size
    return choose_engine(named, size, size, devices=parts.mesh.size)


def _more_parts(steps: int, items: int) -> int | None:
    """Returns the next larger number of equal parts of a device's items."""
    return next((n for n in range(steps + 1, items + 1) if items % n == 0), None)

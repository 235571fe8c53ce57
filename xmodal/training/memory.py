"""Programs that do not fit in the memory of a device, said with remedies."""

import dataclasses
import inspect
import re
from collections.abc import Mapping
from typing import Any

import jax

from xmodal.config import UserError
from xmodal.losses import LOSSES
from xmodal.losses.engine import choose_engine
from xmodal.models import ENCODERS
from xmodal.training.parts import Parts
from xmodal.training.tree import flatten

_GIB = 2**30
# Batches from which the scores of all pairs are worth being kept apart.
_MANY_PAIRS = 4096


def compile_program(lowered: jax.stages.Lowered, what: str, parts: Parts) -> jax.stages.Compiled:
    """Compiles a program.

    Args:
      lowered: for the devices of `parts`.
      what: it is, as a noun: "training step".
      parts: of the run.

    Raises:
      UserError: the compiler finds that it does not fit in the memory of a device.
    """
    try:
        return lowered.compile()
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        numbers = re.search(r"[Uu]sed ([\d.]+[KMGT]?) of ([\d.]+[KMGT]?) hbm", str(error))
        needs = f"needs {numbers[1]} of {numbers[2]}" if numbers else "needs more than there is"
        raise UserError(_sentence(what, needs, parts)) from error


def check_fits(peak: int, capacity: int | None, what: str, parts: Parts) -> None:
    """Refuses a program that needs more memory than a device has.

    Args:
      peak: bytes that it needs on one device.
      capacity: bytes of a device; None where they are not known.
      what: see `compile_program`.
      parts: of the run.

    Raises:
      UserError: says both, and what to change.
    """
    if capacity is not None and peak > capacity:
        needs = f"needs {peak / _GIB:,.2f} GiB of {capacity / _GIB:,.2f} GiB"
        raise UserError(_sentence(what, needs, parts))


def _sentence(what: str, needs: str, parts: Parts) -> str:
    device = parts.mesh.devices.flat[0].device_kind
    changes = "".join(f"\n  {change}" for change in remedies(parts))
    return f"The {what} does not fit: it {needs} per device ({device}). To change:{changes}"


def remedies(parts: Parts) -> list[str]:
    """Returns changes of the config that save memory, those that change no number first."""
    settings, found = parts.settings, []
    for side in parts.model.towers:
        encoder = settings.model[side]["encoder"]
        known = {field.name for field in dataclasses.fields(ENCODERS[encoder["name"]].config)}
        is_trained = any(path.startswith(f"{side}/encoder/") for path in flatten(parts.trained))
        if "remat" in known and not encoder.get("remat") and is_trained:
            found.append(f"--config.model.{side}.encoder.remat=True recomputes its blocks.")
    if parts.mesh.size > 1 and not any(rule == "fsdp" for _, rule in settings.sharding):
        found.append(
            "--config.sharding=\"[('.*', 'fsdp')]\" splits parameters and optimizer state over the "
            "devices."
        )
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
    multiple = parts.mesh.size * settings.accumulation_steps
    if smaller := settings.batch_size // 2 // multiple * multiple:
        found.append(f"--config.batch_size={smaller} (now {settings.batch_size}), or more devices.")
    return found or ["a smaller model, or a device with more memory."]


def _engine(loss: Mapping[str, Any], parts: Parts) -> str | None:
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

"""Learning-rate schedules, and options that change with the step."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import jax
import jax.numpy as jnp
import optax

from xmodal.core.config import Bounds, check_keys, check_value, lookup, read_named, setting
from xmodal.core.errors import UserError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Constant:
    """The peak at every step after the warm-up.

    Attributes:
      warmup_steps: the rate rises linearly from 0 over these steps.
    """

    ends_with_run: ClassVar[bool] = False
    """Whether the rate depends on the length of the run."""

    warmup_steps: int = setting(0, at_least=0)

    def factor(self, step: jax.Array, total_steps: int) -> jax.Array:
        """Returns the share of the peak at `step` (int32), without the warm-up."""
        return jnp.ones(())


@dataclasses.dataclass(frozen=True, kw_only=True)
class Linear(Constant):
    """A straight line from the peak, at the end of the warm-up, to the end of the run.

    Attributes:
      end_fraction: share of the peak at the last step.
      every: steps between two changes of the rate.
    """

    ends_with_run: ClassVar[bool] = True

    end_fraction: float = setting(0.0, at_least=0, at_most=1)
    every: int = setting(1, at_least=1)

    def factor(self, step: jax.Array, total_steps: int) -> jax.Array:
        """Returns the share of the peak at `step` (int32), without the warm-up."""
        step = step // self.every * self.every
        passed = jnp.clip((step - self.warmup_steps) / (total_steps - self.warmup_steps), 0, 1)
        return self.end_fraction + (1 - self.end_fraction) * self._fall(passed)

    def _fall(self, passed: jax.Array) -> jax.Array:
        return 1 - passed


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cosine(Linear):
    """Half a cosine from the peak to the end of the run (Loshchilov and Hutter 2017, eq. 5).

    `every` = one epoch gives torch's `CosineAnnealingLR` stepped once per epoch.
    """

    def _fall(self, passed: jax.Array) -> jax.Array:
        return (1 + jnp.cos(math.pi * passed)) / 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Staircase(Constant):
    """Multiplies the rate by `rate` every `every` steps."""

    rate: float = setting(above=0, at_most=1)
    every: int = setting(at_least=1)

    def factor(self, step: jax.Array, total_steps: int) -> jax.Array:
        """Returns the share of the peak at `step` (int32), without the warm-up."""
        return self.rate ** jnp.float32(step // self.every)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Piecewise(Constant):
    """Multiplies the rate at given steps.

    Attributes:
      steps: {step: factor}; from that step on the rate is multiplied by the factor.
    """

    steps: Mapping[str | int, float]

    def __post_init__(self) -> None:
        where = "config.optimizer.schedule.steps"
        for step, factor in _by_step(where, self.steps).items():
            check_value(f"{where}.{step}", Annotated[float, Bounds(at_least=0)], factor)

    def factor(self, step: jax.Array, total_steps: int) -> jax.Array:
        """Returns the share of the peak at `step` (int32), without the warm-up."""
        return optax.piecewise_constant_schedule(1.0, _by_step("steps", self.steps))(step)


SCHEDULES: dict[str, type[Constant]] = {
    "constant": Constant,
    "cosine": Cosine,
    "linear": Linear,
    "piecewise": Piecewise,
    "staircase": Staircase,
}


def read_schedule(section: Mapping[str, Any]) -> Constant:
    """Returns `config.optimizer.schedule` as its dataclass: `name` and the fields of that row."""
    return read_named("config.optimizer.schedule", section, SCHEDULES, lambda row: row)[1]


def make_schedule(section: Mapping[str, Any], peak: float, total_steps: int) -> optax.Schedule:
    """Returns the function from the step to the learning rate (float32 scalar).

    Args:
      section: `config.optimizer.schedule`.
      peak: the learning rate that the schedule scales.
      total_steps: length of the run, which must exceed the warm-up; 0 for a run without updates.
    """
    schedule = read_schedule(section)
    warmup = schedule.warmup_steps
    total_steps = total_steps or warmup + 1  # Without any update, the rate does not matter.
    if warmup >= total_steps:
        raise UserError(
            f"config.optimizer.schedule.warmup_steps={warmup} leaves nothing of "
            f"config.total_steps={total_steps}; lower it, or train longer."
        )

    def rate(step: int | jax.Array) -> jax.Array:
        step = jnp.asarray(step, jnp.int32)
        rise = jnp.minimum(step / warmup, 1) if warmup else 1.0
        return jnp.float32(peak * rise * schedule.factor(step, total_steps))

    return rate


_STEP = Annotated[int, Bounds(at_least=0)]
_NUMBER_SCHEDULES: dict[str, dict[str, Any]] = {
    "linear": {"from": float, "to": float, "end": _STEP, "start": _STEP, "before": float},
    "piecewise": {"values": Mapping},
}
_OPTIONAL = {"start", "before"}


def is_schedule(value: Any) -> bool:
    """Returns whether an option is a schedule of the step rather than a constant."""
    return isinstance(value, Mapping) and "schedule" in value


def values(where: str, value: Any) -> list[Any]:
    """Returns an option's values during a run; the end points of a linear schedule.

    Args:
      where: place of the value in the config, as a user writes it.
      value: an option; a schedule is `{"schedule": "linear", "from", "to", "end", "start": 0}`,
        where an optional `before` is the value before the start (default: `from`), or
        `{"schedule": "piecewise", "values": {0: first, step: next, ...}}`.
    """
    if not is_schedule(value):
        return [value]
    hints = lookup(f"{where}.schedule", value["schedule"], _NUMBER_SCHEDULES)
    check_keys(where, value, ("schedule", *hints), set(hints) - _OPTIONAL, named=True)
    for key in sorted(set(hints) & set(value)):
        check_value(f"{where}.{key}", hints[key], value[key])
    if value["schedule"] == "linear":
        if value["end"] <= value.get("start", 0):
            raise UserError(f"{where}.end is {value['end']}; it must be more than its start.")
        return [value[key] for key in ("before", "from", "to") if key in value]
    by_step = _by_step(f"{where}.values", value["values"])
    if 0 not in by_step:
        raise UserError(f"{where}.values has no value for step 0; its steps are {list(by_step)}.")
    for each in by_step.values():
        check_value(f"{where}.values", float, each)
    return list(by_step.values())


def resolve(value: Any, step: jax.Array) -> Any:
    """Returns the value of an option at a step.

    Args:
      value: an option that `values` accepts.
      step: int32 scalar.

    Returns:
      A float32 scalar for a schedule, and any other option unchanged.
    """
    if not is_schedule(value):
        return value
    if value["schedule"] == "linear":
        start, first = value.get("start", 0), value["from"]
        progress = jnp.clip((step - start) / (value["end"] - start), 0, 1)
        line = first + (value["to"] - first) * progress
        return jnp.float32(jnp.where(step < start, value.get("before", first), line))
    by_step = _by_step("values", value["values"])
    index = jnp.sum(step >= jnp.array(list(by_step), jnp.int32)) - 1
    return jnp.array(list(by_step.values()), jnp.float32)[index]


def _by_step(where: str, values: Mapping[Any, Any]) -> dict[int, Any]:
    """Returns `{step: value}` by ascending step; the keys may be strings."""
    by_step = {int(key): value for key, value in values.items() if str(key).isdecimal()}
    if len(by_step) < len(values):
        raise UserError(f"{where} has the keys {list(values)}; they must be different steps.")
    return dict(sorted(by_step.items()))

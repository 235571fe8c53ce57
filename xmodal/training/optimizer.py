"""Optimisers and schedules by name, and the rule that skips outlying updates."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from xmodal.config import UserError, call, check_keys, lookup

KEYS = ("name", "learning_rate", "schedule", "clip_norm", "skip_outliers", "options")


class SkipOutliersState(NamedTuple):
    """Running moments of log(1 + gradient norm), and how many updates were skipped."""

    weight: jax.Array
    mean: jax.Array
    mean_square: jax.Array
    skipped: jax.Array


def skip_outliers(
    *, deviations: float = 4.0, decay: float = 0.995, floor: float = 0.1
) -> optax.GradientTransformation:
    """Zeroes gradients whose norm is far above what the run has seen so far.

    An update is skipped when log(1 + norm) exceeds its running mean by `deviations` running
    standard deviations, never when the norm is at most `floor` (after tensorflow/lingvo,
    tasks/milan: 4 deviations, decay 0.995, floor 0.1). Two simplifications: lingvo skips nothing
    in its first 277 steps and caps what enters its moments; here the rule holds from the second
    step, and every finite norm enters whole, so a lasting change of scale is accepted sooner.

    Args:
      deviations: how far above the mean is too far.
      decay: of the running moments, bias-corrected.
      floor: norms up to this always pass.
    """

    def init(params: Any) -> SkipOutliersState:
        del params
        zero = jnp.zeros((), jnp.float32)
        return SkipOutliersState(zero, zero, zero, jnp.zeros((), jnp.int32))

    def update(
        updates: Any, state: SkipOutliersState, params: Any = None
    ) -> tuple[Any, SkipOutliersState]:
        del params
        norm = optax.global_norm(updates)
        value = jnp.log1p(norm)
        total = jnp.maximum(state.weight, 1e-9)
        mean = state.mean / total
        variance = jnp.maximum(state.mean_square / total - mean**2, 1e-6)
        limit = mean + deviations * jnp.sqrt(variance)
        skip = (state.weight > 0) & (norm > floor) & (value > limit)

        finite = jnp.isfinite(value)

        def blend(old: jax.Array, new: jax.Array | float) -> jax.Array:
            return jnp.where(finite, decay * old + (1 - decay) * new, old)

        kept = jax.tree.map(lambda u: jnp.where(skip, jnp.zeros_like(u), u), updates)
        return kept, SkipOutliersState(
            weight=blend(state.weight, 1.0),
            mean=blend(state.mean, value),
            mean_square=blend(state.mean_square, value**2),
            skipped=state.skipped + skip,
        )

    return optax.GradientTransformation(init, update)


def _staircase(*, peak: float, total_steps: int, rate: float, every: int) -> optax.Schedule:
    del total_steps
    return optax.exponential_decay(peak, every, rate, staircase=True)


def _cosine(
    *, peak: float, total_steps: int, warmup_steps: int = 0, end_fraction: float = 0.0
) -> optax.Schedule:
    if total_steps <= warmup_steps:
        raise UserError(
            f"config.optimizer.schedule.warmup_steps={warmup_steps} leaves nothing of "
            f"config.total_steps={total_steps}."
        )
    start = 0.0 if warmup_steps else peak
    return optax.warmup_cosine_decay_schedule(
        start, peak, warmup_steps, total_steps, peak * end_fraction
    )


def _constant(*, peak: float, total_steps: int) -> optax.Schedule:
    del total_steps
    return optax.constant_schedule(peak)


SCHEDULES = {"constant": _constant, "cosine": _cosine, "staircase": _staircase}
OPTIMIZERS = {"adam": optax.adam, "adamw": optax.adamw, "sgd": optax.sgd}


def make_schedule(config: Mapping[str, Any], total_steps: int) -> optax.Schedule:
    """Builds step -> learning rate from `config.optimizer`."""
    options = dict(config["schedule"])
    build = lookup("config.optimizer.schedule.name", options.pop("name"), SCHEDULES)
    given = {"peak": config["learning_rate"], "total_steps": total_steps}
    return call("config.optimizer.schedule", build, options, **given)


def make_optimizer(config: Mapping[str, Any], total_steps: int) -> optax.GradientTransformation:
    """Builds the optimiser of `config.optimizer`: skip outliers, clip, then the named rule.

    Args:
      config: `name` and its `options` (keyword arguments of the optax function), `learning_rate`
        (peak), `schedule` (`name` and options), `clip_norm` (global norm, None for none),
        `skip_outliers` (options of the function, None for none).
      total_steps: length of the run, for schedules that need it.

    Raises:
      UserError: an unknown key or name.
    """
    check_keys("config.optimizer", config, KEYS)
    rule = lookup("config.optimizer.name", config["name"], OPTIMIZERS)
    schedule = make_schedule(config, total_steps)
    chain = []
    if config["skip_outliers"] is not None:
        section = "config.optimizer.skip_outliers"
        chain.append(call(section, skip_outliers, config["skip_outliers"]))
    if config["clip_norm"] is not None:
        chain.append(optax.clip_by_global_norm(config["clip_norm"]))
    chain.append(call("config.optimizer.options", rule, config["options"], learning_rate=schedule))
    return optax.chain(*chain)


def skipped_updates(opt_state: Any) -> jax.Array | None:
    """How many updates `skip_outliers` has dropped; None where the optimiser has no such rule."""
    return optax.tree_utils.tree_get(opt_state, "skipped")

"""The optimizer of a run: skipping outliers, clipping, update rule, decay, rates by group."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax

from xmodal.core.config import lookup, read, setting
from xmodal.core.errors import UserError
from xmodal.core.tree_paths import leaves_by_path, path_of, unflatten
from xmodal.train.optimization.parameter_groups import Decay, GroupConfig, assign_groups, select
from xmodal.train.optimization.schedules import make_schedule, read_schedule
from xmodal.train.optimization.update_rules import RULES, Rule
from xmodal.train.optimization.watching_rules import (
    PlateauConfig,
    SkipOutliersConfig,
    init_plateau,
    skip_outliers,
    update_plateau,
)
from xmodal.train.tree import Tree

State = dict[str, Any]
"""An optimizer state; see `make_optimizer`."""


@dataclasses.dataclass(frozen=True)
class WeightDecayConfig:
    """`config.optimizer.weight_decay`: decoupled decay, scaled by the learning rate.

    Attributes:
      rate: each update subtracts learning rate x `rate` x w from a weight w.
      pattern: regular expression of parameter paths, see `tree.matches`; None decays all
        parameters.
    """

    rate: float = setting(above=0)
    pattern: str | None = setting(None, pattern=True)


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """`config.optimizer`.

    Attributes:
      learning_rate: peak of the schedule.
      name: key of `update_rules.RULES`; `adamw` is `adam` with `weight_decay` required.
      options: fields of that rule.
      schedule: `name`, a key of `schedules.SCHEDULES`, and the fields of that schedule.
      clip_norm: largest global norm of the gradients; None for no clipping.
      skip_outliers: rule that drops updates; None for none.
      weight_decay: see `WeightDecayConfig`; None for none.
      groups: name -> `GroupConfig`; a parameter belongs to the first group that matches its path.
      plateau: reduces the rate when a metric stops improving; None for none.
    """

    learning_rate: float = setting(above=0)
    name: str = "adam"
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    schedule: Mapping[str, Any] = dataclasses.field(default_factory=lambda: {"name": "constant"})
    clip_norm: float | None = setting(None, above=0)
    skip_outliers: SkipOutliersConfig | None = None
    weight_decay: WeightDecayConfig | None = None
    groups: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    plateau: PlateauConfig | None = None

    def __post_init__(self) -> None:
        self.rule()
        read_schedule(self.schedule)
        self.read_groups()
        if self.name == "adamw" and self.weight_decay is None:
            raise UserError(
                "config.optimizer.name='adamw' needs config.optimizer.weight_decay={'rate': ...}; "
                "without decay it is 'adam'."
            )

    def rule(self) -> Rule:
        """Returns the update rule with its options."""
        row = lookup("config.optimizer.name", self.name, RULES)
        return read(row, "config.optimizer.options", self.options, named=True)

    def read_groups(self) -> dict[str, GroupConfig]:
        """Returns the groups as dataclasses."""
        return {
            name: read(GroupConfig, f"config.optimizer.groups.{name}", group)
            for name, group in self.groups.items()
        }


def make_optimizer(
    config: OptimizerConfig, total_steps: int, params: Tree, frozen: Tree | None = None
) -> optax.GradientTransformation:
    """Returns the optimizer of the trained parameters.

    Its state is a dict of scalars and moments that has the same structure at every step:

      - `count`: int32, updates so far; the clock of the schedule and of `frozen_until`.
      - `scheduled_rate`: float32, the schedule's rate for the next update.
      - `moments`: `{"from_0": state of the update rule}`, with one entry for each `frozen_until`,
        over the nested dict of the parameters that start at that step.
      - `outliers`: `SkipOutliersState`, if `skip_outliers` is set.
      - `plateau`: `PlateauState`, if `plateau` is set.

    Gradients of parameters that have not started yet count as zero everywhere, and their moments
    and counters do not change: a group behaves like a new optimizer created at its first step.

    Args:
      config: see `OptimizerConfig`; its patterns must match, and its groups start in the run.
      total_steps: length of the run.
      params: trained parameters or their shapes, nested by path: `image/encoder/...`.
      frozen: all other parameters or their shapes, which layer decay counts too.
    """
    groups = assign_groups(config.read_groups(), leaves_by_path(params))
    starts = {path: group.frozen_until for path, group in groups.items()}
    shapes = leaves_by_path(params) | leaves_by_path(frozen or {})
    clipped = [path for path, group in groups.items() if group.clip]
    multipliers = {path: group.multiplier(path, shapes) for path, group in groups.items()}
    rule = config.rule().make(_decay(config.weight_decay, starts))
    schedule = make_schedule(config.schedule, config.learning_rate, total_steps)
    skip = skip_outliers(config.skip_outliers) if config.skip_outliers else None
    # `optax.partition` would keep every part of the moments in a tree with gaps.
    parts = {f"from_{start}": start for start in sorted(set(starts.values()))}

    def part_of(flat: Mapping[str, jax.Array], start: int) -> Tree:
        return unflatten({path: leaf for path, leaf in flat.items() if starts[path] == start})

    def init(params: Tree) -> State:
        flat = leaves_by_path(params)
        state: State = {
            "count": jnp.zeros((), jnp.int32),
            "scheduled_rate": schedule(0),
            "moments": {name: rule.init(part_of(flat, start)) for name, start in parts.items()},
        }
        if skip:
            state["outliers"] = skip.init(flat)
        if config.plateau:
            state["plateau"] = init_plateau(config.plateau)
        return state

    def update(gradients: Tree, state: State, params: Tree) -> tuple[Tree, State]:
        count, weights, new = state["count"], leaves_by_path(params), dict(state)
        new["count"] = optax.safe_increment(count)
        new["scheduled_rate"] = schedule(count + 1)
        flat = {
            path: _from(starts[path], count, leaf, jnp.zeros_like(leaf))
            for path, leaf in leaves_by_path(gradients).items()
        }
        if skip:
            flat, new["outliers"] = skip.update(flat, state["outliers"])
        if config.clip_norm is not None and clipped:
            own = {path: flat[path] for path in clipped}
            flat |= optax.clip_by_global_norm(config.clip_norm).update(own, optax.EmptyState())[0]
        rate = schedule(count) * _reduction(state)
        updates: dict[str, jax.Array] = {}
        new["moments"] = {}
        for name, start in parts.items():
            since = functools.partial(_from, start, count)
            old = state["moments"][name]
            found, moved = rule.update(part_of(flat, start), old, part_of(weights, start))
            new["moments"][name] = jax.tree.map(since, moved, old)
            for path, direction in leaves_by_path(found).items():
                step = -(rate * multipliers[path]) * direction
                updates[path] = since(step, jnp.zeros_like(step))
        # Like the gradients, which may have empty branches.
        return jax.tree_util.tree_map_with_path(
            lambda keys, _: updates[path_of(keys)], gradients
        ), new

    return optax.GradientTransformation(init, update)


def learning_rate(opt_state: State) -> jax.Array:
    """Returns the rate of the update that follows this state (float32 scalar), without groups."""
    return opt_state["scheduled_rate"] * _reduction(opt_state)


def pass_time(before: State, after: State) -> State:
    """Returns the state before an update with the clock and scheduled rate after it."""
    return before | {name: after[name] for name in ("count", "scheduled_rate")}


def skipped_updates(opt_state: State) -> jax.Array | None:
    """Returns how many updates `skip_outliers` has dropped; None without that rule."""
    return opt_state["outliers"].skipped if "outliers" in opt_state else None


def observe_metrics(
    config: OptimizerConfig, opt_state: State, metrics: Mapping[str, float]
) -> State:
    """Returns the state after an evaluation, which updates the plateau if it has its metric.

    The evaluation before the first update does not count, as in the loops that torch's rule comes
    from: with "min" of a recall, the untrained model would be the best one for good. One that has
    counted does not count again.

    Args:
      config: see `OptimizerConfig`.
      opt_state: optimizer state on its devices; not donated.
      metrics: tag -> value, the same in every process.
    """
    if config.plateau is None or config.plateau.metric not in metrics:
        return opt_state
    count, plateau = int(opt_state["count"]), opt_state["plateau"]
    if count == int(plateau.observed):
        return opt_state
    value = metrics[config.plateau.metric]
    moved = update_plateau(config.plateau, plateau, value, config.learning_rate, count)
    return opt_state | {"plateau": moved}


def _reduction(opt_state: State) -> jax.Array | float:
    return opt_state["plateau"].factor if "plateau" in opt_state else 1.0


def _from(start: int, count: jax.Array, new: jax.Array, old: jax.Array) -> jax.Array:
    """Returns `new` from the step `start` on, and `old` before."""
    return new if start == 0 else jnp.where(count >= start, new, old)


def _decay(config: WeightDecayConfig | None, paths: Mapping[str, Any]) -> Decay:
    if config is None:
        return lambda path: 0.0
    decayed = set(select(config.pattern or "", paths, "config.optimizer.weight_decay"))
    return lambda path: config.rate if path in decayed else 0.0

"""The optimizer of a run: skipping outliers, clipping, update rule, decay, rates by group."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax

from xmodal.core.config import lookup, read, set_whole, setting
from xmodal.core.errors import UserError
from xmodal.core.tree_paths import path_of, unflatten
from xmodal.train.optimization import plateau as plateau_lib
from xmodal.train.optimization.layer_rates import layer_rates
from xmodal.train.optimization.outliers import SkipOutliersConfig, skip_outliers
from xmodal.train.optimization.parameter_groups import GroupConfig, assign_groups, select
from xmodal.train.optimization.schedules import Lengths, Rate, make_schedule, read_schedule
from xmodal.train.optimization.update_rules import RULES, Rule
from xmodal.train.tree import Tree, flatten

State = dict[str, Any]
"""An optimizer state; see `make_optimizer`."""


@dataclasses.dataclass(frozen=True)
class WeightDecayConfig:
    """`config.optimizer.weight_decay`: decoupled decay, scaled by the learning rate.

    Attributes:
      rate: each update subtracts learning rate x `rate` x w from a weight w.
      pattern: regular expression of parameter paths, see `parameter_groups.select`; None decays
        all parameters.
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
    plateau: plateau_lib.PlateauConfig | None = None

    def __post_init__(self) -> None:
        self.rule()
        read_schedule(self.schedule)
        for name, group in self.read_groups().items():
            if group.clip_norm is not None and not group.clip:
                raise UserError(
                    f"config.optimizer.groups.{name} has clip_norm={group.clip_norm} and "
                    "clip=False; remove one."
                )
        if self.name == "adamw" and self.weight_decay is None:
            raise UserError(
                "config.optimizer.name='adamw' needs config.optimizer.weight_decay={'rate': ...}; "
                "without decay it is 'adam'."
            )
        if self.plateau and self.plateau.min_rate > self.learning_rate:
            raise UserError(
                f"config.optimizer.plateau.min_rate={self.plateau.min_rate} is above "
                f"config.optimizer.learning_rate={self.learning_rate}."
            )

    def rule(self) -> Rule:
        """Returns the update rule with its options."""
        row = lookup("config.optimizer.name", self.name, RULES)
        where = "config.optimizer.options"
        return read(row, where, self.options, instead=set_whole(where))

    def read_groups(self) -> dict[str, GroupConfig]:
        """Returns the groups as dataclasses."""
        return {
            name: read(GroupConfig, f"config.optimizer.groups.{name}", group)
            for name, group in self.groups.items()
        }


def make_optimizer(
    config: OptimizerConfig, total_steps: int, params: Tree, frozen: Tree | None = None
) -> optax.GradientTransformationExtraArgs:
    """Returns the optimizer of the trained parameters; `lengths` of an update are optional.

    Its state is a dict of scalars and moments that has the same structure at every step:

      - `count`: int32, updates so far; the clock of the schedule and of `frozen_until`.
      - `scheduled_rate`: float32, the schedule's rate for the next update.
      - `moments`: `{"from_0": state of the update rule}`, with one entry for each `frozen_until`,
        over the nested dict of the parameters that start at that step.
      - `outliers`: `outliers.SkipOutliersState`, if `skip_outliers` is set.
      - `plateau`: `plateau.PlateauState`, if `plateau` is set.

    Gradients of parameters that have not started yet count as zero everywhere, and their moments
    and counters do not change: a group behaves like a new optimizer created at its first step.

    Args:
      config: see `OptimizerConfig`.
      total_steps: length of the run.
      params: trained parameters or their shapes, nested by path: `image/encoder/...`.
      frozen: all other parameters or their shapes, which layer decay counts too.

    Raises:
      UserError: a pattern matches no parameter, or a group starts after the end of the run.
    """
    trained = flatten(params)
    paths = list(trained)
    for name, group in config.read_groups().items():
        if group.frozen_until >= total_steps:
            raise UserError(
                f"config.optimizer.groups.{name}.frozen_until={group.frozen_until} leaves nothing "
                f"of config.total_steps={total_steps}; use config.freeze."
            )
    groups = assign_groups(config.read_groups(), paths)
    shapes = trained | flatten(frozen or {})
    optimizer = _Optimizer(
        groups=groups,
        rates={path: _group_rate(path, group, shapes) for path, group in groups.items()},
        starts=sorted({group.frozen_until for group in groups.values()}),
        schedule=make_schedule(config.schedule, config.learning_rate, total_steps),
        rule=config.rule().make(_decay(config.weight_decay, paths)),
        clips=_clip_sets(groups, config.clip_norm),
        skip=skip_outliers(config.skip_outliers) if config.skip_outliers else None,
        plateau=config.plateau,
    )
    return optax.GradientTransformationExtraArgs(optimizer.init, optimizer.update)


@dataclasses.dataclass(frozen=True)
class _Optimizer:
    """The parts of an optimizer, bound to the paths of the trained parameters."""

    groups: Mapping[str, GroupConfig]
    rates: Mapping[str, Any]
    starts: Sequence[int]
    schedule: Rate
    rule: optax.GradientTransformation
    clips: Sequence[tuple[float, Sequence[str]]]
    skip: optax.GradientTransformation | None
    plateau: plateau_lib.PlateauConfig | None

    def init(self, params: Tree) -> State:
        flat = flatten(params)
        state: State = {
            "count": jnp.zeros((), jnp.int32),
            "scheduled_rate": self.schedule(0, None),
            "moments": {_entry(s): self.rule.init(self._part(flat, s)) for s in self.starts},
        }
        if self.skip:
            state["outliers"] = self.skip.init(flat)
        if self.plateau:
            state["plateau"] = plateau_lib.init(self.plateau)
        return state

    def update(
        self, gradients: Tree, state: State, params: Tree, *, lengths: Lengths | None = None
    ) -> tuple[Tree, State]:
        count = state["count"]
        moved = state | {
            "count": optax.safe_increment(count),
            "scheduled_rate": self.schedule(count + 1, lengths),
        }
        flat = {
            path: _if_started(self.groups[path].frozen_until, count, leaf, jnp.zeros_like(leaf))
            for path, leaf in flatten(gradients).items()
        }
        if self.skip:
            flat, moved["outliers"] = self.skip.update(flat, state["outliers"])
        flat = self._clip(flat)
        weights = flatten(params)
        directions: dict[str, jax.Array] = {}
        moved["moments"] = {}
        for start in self.starts:
            old = state["moments"][_entry(start)]
            found, new = self.rule.update(self._part(flat, start), old, self._part(weights, start))
            directions |= flatten(found)
            moved["moments"][_entry(start)] = jax.tree.map(
                functools.partial(_if_started, start, count), new, old
            )
        rate = self.schedule(count, lengths) * _reduction(state)
        return _like(gradients, self._scale(directions, rate, count)), moved

    def _part(self, flat: Mapping[str, jax.Array], start: int) -> Tree:
        """Returns the nested dict of the parameters that start at a step."""
        return unflatten(
            {path: leaf for path, leaf in flat.items() if self.groups[path].frozen_until == start}
        )

    def _clip(self, flat: dict[str, jax.Array]) -> dict[str, jax.Array]:
        for limit, paths in self.clips:
            clip = optax.clip_by_global_norm(limit)
            chosen = {path: flat[path] for path in paths}
            flat = flat | clip.update(chosen, clip.init(chosen))[0]
        return flat

    def _scale(
        self, directions: Mapping[str, jax.Array], rate: jax.Array, count: jax.Array
    ) -> dict[str, jax.Array]:
        updates = {}
        for path, direction in directions.items():
            group = self.groups[path]
            update = -(rate * self.rates[path]) * direction
            updates[path] = _if_started(group.frozen_until, count, update, jnp.zeros_like(update))
        return updates


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
    moved = plateau_lib.update(config.plateau, plateau, value, config.learning_rate, count)
    return opt_state | {"plateau": moved}


def moments_of(opt_state: State) -> State:
    """Returns the moments and their counters."""
    return opt_state["moments"]


def with_moments(opt_state: State, moments: State) -> State:
    """Returns a fresh state with the moments and counters of another run's state.

    The schedule, the skip rule and the plateau start over.
    """
    return opt_state | {"moments": moments}


def _group_rate(path: str, group: GroupConfig, shapes: Mapping[str, Any]) -> Any:
    """The multiplier of a parameter's rate, which may differ along its first axis."""
    if group.layer_decay == 1:
        return group.rate
    where = f"layer_decay={group.layer_decay} of config.optimizer.groups, {group.pattern!r},"
    return group.rate * layer_rates(group.layer_decay, path, shapes, where)


def _entry(start: int) -> str:
    return f"from_{start}"


def _reduction(opt_state: State) -> jax.Array | float:
    return opt_state["plateau"].factor if "plateau" in opt_state else 1.0


def _if_started(start: int, count: jax.Array, new: jax.Array, old: jax.Array) -> jax.Array:
    return new if start == 0 else jnp.where(count >= start, new, old)


def _like(tree: Tree, flat: Mapping[str, jax.Array]) -> Tree:
    """Returns `flat` nested as `tree`, which may have empty branches."""
    return jax.tree_util.tree_map_with_path(lambda keys, _: flat[path_of(keys)], tree)


def _decay(config: WeightDecayConfig | None, paths: list[str]) -> Callable[[str], float]:
    if config is None:
        return lambda path: 0.0
    where = f"config.optimizer.weight_decay.pattern={config.pattern!r}"
    decayed = set(select(config.pattern or "", paths, where))
    return lambda path: config.rate if path in decayed else 0.0


def _clip_sets(
    groups: Mapping[str, GroupConfig], shared_norm: float | None
) -> list[tuple[float, list[str]]]:
    """Returns (largest norm, paths) of each set of gradients that is clipped as one vector."""
    # In the order of the parameters, so that every process compiles the same program.
    own = dict.fromkeys(group for group in groups.values() if group.clip_norm is not None)
    sets = [(each.clip_norm, [p for p, group in groups.items() if group == each]) for each in own]
    shared = [p for p, group in groups.items() if group.clip and group.clip_norm is None]
    return sets if shared_norm is None or not shared else [*sets, (shared_norm, shared)]

"""The training state: plain nested dicts, with frozen parameters separate from trained ones."""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh

from xmodal.core import mesh as mesh_lib
from xmodal.core.errors import UserError
from xmodal.core.tree_paths import path_of
from xmodal.models import DualEncoder
from xmodal.train import rngs
from xmodal.train.step.tasks import Task
from xmodal.train.step.views import embed_views, tower_inputs
from xmodal.train.tree import Tree, merge, partition

MOMENTUM = "momentum"
"""Key of the momentum copies of the towers in the model state."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrainState:
    """All arrays that a run needs to continue.

    Attributes:
      step: int32 scalar, updates done so far.
      params: trained parameters: `image`, `text`, `similarity` and `tasks/NAME`.
      frozen: parameters that never change; no gradient and no optimizer state exists for them.
      model_state: running statistics of the towers and tasks, and momentum copies of the towers.
      opt_state: the optimizer state of `params`.
    """

    step: jax.Array
    params: Tree
    frozen: Tree
    model_state: Tree
    opt_state: Any

    def all_params(self) -> Tree:
        """Returns trained and frozen parameters as the single tree that the model expects."""
        return merge(self.params, self.frozen)


def init_params(
    model: DualEncoder,
    tasks: tuple[Task, ...],
    batch: Mapping[str, Any],
    seed: int | np.ndarray | jax.Array,
) -> tuple[Tree, Tree]:
    """Returns the initial `(params, model_state)` of a model and its tasks.

    Args:
      model: the dual encoder.
      tasks: some may have their own parameters.
      batch: raw columns of a training batch of any size; only shapes and dtypes matter.
      seed: seed of the parameters, see `rngs.stream_key`.
    """
    inputs = {side: tower_inputs(batch, side) for side in model.towers}
    params, model_state = model.init(rngs.stream_key(seed, "params"), inputs)
    if momentum_rate(tasks) is not None:
        model_state[MOMENTUM] = {side: params[side] for side in model.towers}
    if not any(task.module or task.similarity for task in tasks):
        return params, model_state
    views, _ = embed_views(model, tasks, params, model_state, batch)
    towers = dict(params)
    for task in tasks:
        key = rngs.stream_key(seed, f"params/tasks/{task.name}")
        own = task.init(key, views, batch, towers)
        for tree, found in zip((params, model_state), own, strict=True):
            if found:
                tree.setdefault("tasks", {})[task.name] = found
    return params, model_state


def momentum_rate(tasks: Collection[Task]) -> float | None:
    """Returns the momentum of the copies; None if no task needs copies.

    The copies are moving averages of the towers' parameters: He et al., "Momentum Contrast for
    Unsupervised Visual Representation Learning" (2020), equation 2.
    """
    modules = (task.module for task in tasks if task.module is not None)
    rates = {each.momentum for each in modules if each.momentum is not None}
    if len(rates) > 1:
        raise UserError(
            f"config.tasks have loss.module.rate={sorted(rates)}; a run has one copy of its "
            "towers, so set them to one value."
        )
    return next(iter(rates), None)


def follow(copies: Tree, params: Tree, rate: float, step: jax.Array) -> Tree:
    """Returns the copies after a step; before the first one they equal the towers.

    Args:
      copies: copies of the parameters by side.
      params: parameters of the whole model.
      rate: m; the result is m copy + (1 - m) parameter.
      step: int32 scalar.
    """
    kept = jnp.where(step == 0, 0.0, rate)
    towers = {side: params[side] for side in copies}
    mixed = jax.tree.map(lambda copy, own: kept * copy + (1 - kept) * own, copies, towers)
    return jax.lax.stop_gradient(mixed)


def first_state(
    params: Tree, model_state: Tree, optimizer: optax.GradientTransformation, freeze: Sequence[str]
) -> TrainState:
    """Returns the state of step 0.

    Args:
      params: parameters of the model and its tasks.
      model_state: running statistics of the same.
      optimizer: gets the trained parameters only.
      freeze: see `tree.partition`.
    """
    trained, frozen = partition(params, freeze)
    return TrainState(
        step=jnp.zeros((), jnp.int32),
        params=trained,
        frozen=frozen,
        model_state=model_state,
        opt_state=optimizer.init(trained),
    )


def with_shardings(shapes: TrainState, mesh: Mesh, rules: Sequence[tuple[str, str]]) -> TrainState:
    """Returns the shapes of a state with its sharding; see `mesh.tree_shardings`."""
    shardings = mesh_lib.tree_shardings(shapes, rules, mesh)
    return jax.tree.map(
        lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
        shapes,
        shardings,
    )


def replace_arrays(state: TrainState, arrays: Mapping[str, np.ndarray]) -> TrainState:
    """Returns a state with other parameters and statistics, by path.

    They take the dtype and sharding of the old ones. Paths that the state lacks are ignored.
    """

    def replace(keys: tuple[Any, ...], leaf: jax.Array) -> jax.Array:
        new = arrays.get(path_of(keys))
        return leaf if new is None else mesh_lib.put(new.astype(leaf.dtype), leaf.sharding)

    trees = {
        name: jax.tree_util.tree_map_with_path(replace, getattr(state, name))
        for name in ("params", "frozen", "model_state")
    }
    return dataclasses.replace(state, **trees)


def create_state(
    init: Callable[..., TrainState], shapes: TrainState, *arguments: np.ndarray
) -> TrainState:
    """Returns the state of `init`, sharded like `shapes`; no device holds more than its shard."""
    shardings = jax.tree.map(lambda leaf: leaf.sharding, shapes)
    return jax.jit(init, out_shardings=shardings)(*arguments)

"""The first state of a run, and momentum copies of its towers."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from xmodal.core.errors import UserError
from xmodal.models import DualEncoder
from xmodal.train import rngs
from xmodal.train.step.tasks import Task
from xmodal.train.step.views import embed_views, tower_inputs
from xmodal.train.tree import TrainState, Tree, partition

MOMENTUM = "momentum"
"""Key of the momentum copies of the towers in the model state."""


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

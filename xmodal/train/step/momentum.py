"""Momentum copies of the towers: moving averages of their parameters, for tasks that read them.

He et al., "Momentum Contrast for Unsupervised Visual Representation Learning" (2020), equation 2.
The copies are part of the model state, as `momentum`.
"""

from collections.abc import Collection

import jax
import jax.numpy as jnp

from xmodal.core.errors import UserError
from xmodal.train.step.tasks import Task
from xmodal.train.tree import Tree

MOMENTUM = "momentum"


def momentum_rate(tasks: Collection[Task]) -> float | None:
    """Returns the momentum of the copies; None if no task needs copies.

    Raises:
      UserError: two tasks need different momentums.
    """
    found = {
        task.module.momentum: task.name
        for task in tasks
        if task.module is not None and task.module.momentum is not None
    }
    if len(found) > 1:
        (one, first), (other, second) = list(found.items())[:2]
        raise UserError(
            f"config.tasks.{first}.loss.module.rate={one} and config.tasks.{second}.loss.module."
            f"rate={other} differ; a run has one copy of its towers, so set them to one value."
        )
    return next(iter(found), None)


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

"""Reduces the learning rate when a metric stops improving, like torch's `ReduceLROnPlateau`.

`optax.contrib.reduce_on_plateau` only minimizes: of a negated recall, a small loss would count as
an improvement.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from xmodal.core import mesh as mesh_lib
from xmodal.core.config import setting

# torch's `eps`: smaller reductions of the rate are ignored.
_SMALLEST_REDUCTION = 1e-8


@dataclasses.dataclass(frozen=True)
class PlateauConfig:
    """`config.optimizer.plateau`.

    Attributes:
      mode: whether a low ("min") or a high ("max") value is good.
      metric: tag of an evaluator's metric; "" for that of `config.best_checkpoint`.
      factor: multiplier of the rate at each reduction.
      patience: number of consecutive evaluations without improvement that are tolerated.
      threshold: relative change that counts as an improvement.
      min_rate: the base learning rate is not reduced below it.
    """

    mode: str = setting(one_of=("min", "max"))
    metric: str = ""
    factor: float = setting(0.1, above=0, below=1)
    patience: int = setting(10, at_least=0)
    threshold: float = setting(1e-4, at_least=0)
    min_rate: float = setting(0.0, at_least=0)


class PlateauState(NamedTuple):
    """The part of a training state that evaluations update.

    Attributes:
      best: float32 scalar, best value so far.
      waited: int32 scalar, evaluations since the last improvement or reduction.
      factor: float32 scalar, multiplier of the learning rate.
      observed: int32 scalar, updates before the last evaluation that counted; 0 if none did.
    """

    best: jax.Array
    waited: jax.Array
    factor: jax.Array
    observed: jax.Array


def init(config: PlateauConfig) -> PlateauState:
    """Returns the state before the first evaluation."""
    worst = jnp.inf if config.mode == "min" else -jnp.inf
    # One array each: the training step donates them.
    waited, observed = jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32)
    return PlateauState(jnp.float32(worst), waited, jnp.float32(1), observed)


def update(
    config: PlateauConfig, state: PlateauState, value: float, learning_rate: float, count: int
) -> PlateauState:
    """Returns the state after one evaluation; runs on the host, identically in every process.

    Args:
      config: see `PlateauConfig`.
      state: replicated arrays.
      value: value of the metric, the same in every process; NaN is not an improvement.
      learning_rate: the base rate, which `min_rate` refers to.
      count: updates before the evaluation.
    """
    best, waited, factor = (float(leaf) for leaf in state[:3])
    # Rounded as it will be stored: otherwise an equal value might look like an improvement.
    value = float(np.float32(value))
    sign = 1 if config.mode == "max" else -1
    if sign * value > sign * best * (1 + sign * config.threshold):
        best, waited = value, 0
    elif waited < config.patience:
        waited += 1
    else:
        rate, waited = learning_rate * factor, 0
        reduced = max(rate * config.factor, config.min_rate)
        if rate - reduced > _SMALLEST_REDUCTION:
            factor = reduced / learning_rate
    return PlateauState(
        *(
            mesh_lib.put(np.asarray(new, old.dtype), old.sharding)
            for old, new in zip(state, (best, waited, factor, count), strict=True)
        )
    )

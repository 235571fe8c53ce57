"""Rules that watch a run: skipping outlying gradients, and lowering the rate on a plateau.

`optax.contrib.reduce_on_plateau` only minimizes: of a negated recall, a small loss would count as
an improvement.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from xmodal.core import mesh as mesh_lib
from xmodal.core.config import setting

# Constants from the source.
_SMALLEST_NORM = 0.01
_SMALLEST_VARIANCE = 1e-6
_WEIGHT_TO_START = 0.75


@dataclasses.dataclass(frozen=True)
class SkipOutliersConfig:
    """`config.optimizer.skip_outliers`.

    Attributes:
      deviations: how far above the running mean, in running standard deviations, is too far.
      decay: decay rate of the running moments.
      floor: gradients of at most this norm always pass.
    """

    deviations: float = setting(4.0, above=0)
    decay: float = setting(0.995, above=0, below=1)
    floor: float = setting(0.1, at_least=0)


class SkipOutliersState(NamedTuple):
    """Running moments of log(1 + gradient norm), and how many updates were skipped.

    Attributes:
      weight: float32 scalar, 1 - decay ** (norms seen), the sum of the weights so far.
      mean: float32 scalar.
      variance: float32 scalar.
      skipped: int32 scalar.
    """

    weight: jax.Array
    mean: jax.Array
    variance: jax.Array
    skipped: jax.Array


def skip_outliers(config: SkipOutliersConfig) -> optax.GradientTransformation:
    """Returns a transformation that zeroes gradients far above those seen so far.

    The rule of tensorflow/lingvo (`GradNormTracker`, as tasks/milan sets it). With the running
    mean and standard deviation of log(1 + norm), the limit is mean + `deviations` standard
    deviations, but at least log(1 + `floor`). A gradient above the limit is zeroed, once the
    moments have three quarters of their final weight: after 277 norms at a decay of 0.995. A norm
    above the limit enters the moments as the limit, so one outlier hardly moves them. A non-finite
    norm leaves the moments unchanged; the training step rejects the whole update.
    """

    def init(params: Any) -> SkipOutliersState:
        del params
        zero = jnp.zeros((), jnp.float32)
        return SkipOutliersState(zero, zero, zero, jnp.zeros((), jnp.int32))

    def update(
        updates: Any, state: SkipOutliersState, params: Any = None
    ) -> tuple[Any, SkipOutliersState]:
        del params
        value = jnp.log1p(jnp.maximum(optax.tree.norm(updates), _SMALLEST_NORM))
        deviation = jnp.sqrt(jnp.maximum(state.variance, _SMALLEST_VARIANCE))
        limit = state.mean + config.deviations * deviation
        limit = jnp.maximum(limit, jnp.log1p(config.floor))
        finite = jnp.isfinite(value)
        skip = finite & (value > limit) & (state.weight > _WEIGHT_TO_START)
        # From the difference from the mean, as in West 1979: squares of the
        # values would lose the digits that they have in common.
        difference = jnp.minimum(value, limit) - state.mean
        weight = state.weight + (1 - config.decay) * (1 - state.weight)
        share = (1 - config.decay) / weight

        def blend(old: jax.Array, new: jax.Array) -> jax.Array:
            return jnp.where(finite, new, old)

        kept = jax.tree.map(lambda u: jnp.where(skip, jnp.zeros_like(u), u), updates)
        return kept, SkipOutliersState(
            weight=blend(state.weight, weight),
            mean=blend(state.mean, state.mean + share * difference),
            variance=blend(state.variance, (1 - share) * (state.variance + share * difference**2)),
            skipped=state.skipped + skip,
        )

    return optax.GradientTransformation(init, update)


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


def init_plateau(config: PlateauConfig) -> PlateauState:
    """Returns the state before the first evaluation."""
    worst = jnp.inf if config.mode == "min" else -jnp.inf
    # One array each: the training step donates them.
    waited, observed = jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32)
    return PlateauState(jnp.float32(worst), waited, jnp.float32(1), observed)


def update_plateau(
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

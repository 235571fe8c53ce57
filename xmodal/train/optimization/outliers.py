"""The rule that skips updates with outlying gradients."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

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

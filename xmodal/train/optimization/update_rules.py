"""Update rules by name: from gradients to directions, before the learning rate."""

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax

from xmodal.core.config import check_pattern, check_value, setting
from xmodal.core.errors import UserError
from xmodal.core.tree_paths import path_of
from xmodal.train.optimization.layer_rates import is_stacked

Decay = Callable[[str], float]
"""Parameter path -> rate of its decoupled weight decay."""


@dataclasses.dataclass(frozen=True)
class Adam:
    """Adam (Kingma and Ba 2015); with weight decay, AdamW (Loshchilov and Hutter 2019).

    Attributes:
      b1: decay of the first moment.
      b2: decay of the second moment.
      eps: added to the root of the second moment.
      amsgrad: divides by the largest second moment so far (Reddi et al. 2018), as in torch: the
        maximum is taken before the bias correction.
      eps_before_correction: adds eps to the root of the second moment before its bias is corrected,
        as TensorFlow's Adam and the AdamW of old versions of transformers do.
    """

    b1: float = setting(0.9, at_least=0, below=1)
    b2: float = setting(0.999, at_least=0, below=1)
    eps: float = setting(1e-8, at_least=0)
    amsgrad: bool = False
    eps_before_correction: bool = False

    def make(self, decay: Decay) -> optax.GradientTransformation:
        """Returns the transformation of gradients into directions."""
        moments = self._make_amsgrad() if self.amsgrad else self._make_adam()
        return optax.chain(moments, _add_decay(decay))

    def _make_adam(self) -> optax.GradientTransformation:
        adam = optax.scale_by_adam(b1=self.b1, b2=self.b2, eps=self.eps)
        if not self.eps_before_correction:
            return adam

        def update(gradients: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
            _, state = adam.update(gradients, state, params)
            return self._divide(state.mu, state.nu, state.count), state

        return optax.GradientTransformation(adam.init, update)

    def _make_amsgrad(self) -> optax.GradientTransformation:
        # `optax.scale_by_amsgrad` takes the maximum of bias-corrected moments: the noisy first
        # estimates then stay in the denominator for good.
        def init(params: Any) -> optax.ScaleByAmsgradState:
            # One array each: the training step donates them.
            moments = [jax.tree.map(jnp.zeros_like, params) for _ in range(3)]
            return optax.ScaleByAmsgradState(jnp.zeros((), jnp.int32), *moments)

        def update(gradients: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
            del params
            count = optax.safe_increment(state.count)
            mu = optax.tree.update_moment(gradients, state.mu, self.b1, 1)
            nu = optax.tree.update_moment_per_elem_norm(gradients, state.nu, self.b2, 2)
            largest = jax.tree.map(jnp.maximum, state.nu_max, nu)
            directions = self._divide(mu, largest, count)
            return directions, optax.ScaleByAmsgradState(count, mu, nu, largest)

        return optax.GradientTransformation(init, update)

    def _divide(self, mu: Any, nu: Any, count: jax.Array) -> Any:
        """Returns the first moments over the roots of the second, with their bias corrected."""
        is_early = self.eps_before_correction
        eps = self.eps / jnp.sqrt(1 - self.b2**count) if is_early else self.eps
        return jax.tree.map(
            lambda m, v: m / (jnp.sqrt(v) + eps),
            optax.tree.bias_correction(mu, self.b1, count),
            optax.tree.bias_correction(nu, self.b2, count),
        )


@dataclasses.dataclass(frozen=True)
class AdamP:
    """AdamP (Heo et al. 2021, algorithm 1 and clovaai/AdamP).

    Where a weight looks scale-invariant, its direction loses the part along the weight. A tensor
    looks so if, for every channel, |cos(gradient, weight)| < delta / sqrt(size of a channel);
    failing that, if the same holds for the tensor as a whole. Vectors and scalars never do.

    Attributes:
      b1: decay of the first moment.
      b2: decay of the second moment.
      eps: added to the root of the second moment and to norms.
      delta: threshold of the cosine.
      decay_ratio: multiplier of the weight decay of scale-invariant weights.
      channel_axes: {regular expression searched in a parameter's path: channel axis}; the first
        match wins, and the last axis is the channel of all other parameters.
    """

    b1: float = setting(0.9, at_least=0, below=1)
    b2: float = setting(0.999, at_least=0, below=1)
    eps: float = setting(1e-8, at_least=0)
    delta: float = setting(0.1, above=0)
    decay_ratio: float = setting(0.1, at_least=0, at_most=1)
    # A row of a word table is a channel in the source, as is a map of a depthwise convolution.
    channel_axes: Mapping[str, int] = dataclasses.field(
        default_factory=lambda: {"embedding|table": 0, "depthwise": -2}
    )

    def __post_init__(self) -> None:
        for pattern, axis in self.channel_axes.items():
            where = f"config.optimizer.options.channel_axes[{pattern!r}]"
            check_pattern(where, pattern)
            check_value(where, int, axis)

    def make(self, decay: Decay) -> optax.GradientTransformation:
        """Returns the transformation of gradients into directions."""
        adam = optax.scale_by_adam(b1=self.b1, b2=self.b2, eps=self.eps)

        def finish(keys: tuple[Any, ...], *arrays: jax.Array) -> jax.Array:
            path = path_of(keys)
            finish_one = functools.partial(self._finish, path, decay(path))
            # The layers of a stack are tensors of their own, vectors among them.
            return (jax.vmap(finish_one) if is_stacked(path) else finish_one)(*arrays)

        def update(gradients: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
            directions, state = adam.update(gradients, state, params)
            finished = jax.tree_util.tree_map_with_path(finish, directions, gradients, params)
            return finished, state

        return optax.GradientTransformation(adam.init, update)

    def _finish(
        self,
        path: str,
        decay: float,
        direction: jax.Array,
        gradient: jax.Array,
        weight: jax.Array,
    ) -> jax.Array:
        """Returns Adam's direction of one tensor, projected, with the weight decay."""
        direction, invariant = self._project(path, direction, gradient, weight)
        return direction + decay * jnp.where(invariant, self.decay_ratio, 1.0) * weight

    def _project(
        self, path: str, direction: jax.Array, gradient: jax.Array, weight: jax.Array
    ) -> tuple[jax.Array, jax.Array | bool]:
        """Returns the direction, projected where `weight` looks scale-invariant, and whether."""
        if weight.ndim < 2:
            return direction, False
        axes = (axis for pattern, axis in self.channel_axes.items() if re.search(pattern, path))
        channel = next(axes, -1) % weight.ndim
        within_channel = tuple(axis for axis in range(weight.ndim) if axis != channel)

        def dot(a: jax.Array, b: jax.Array) -> jax.Array:
            return jnp.sum(a * b, within_channel, keepdims=True)

        # A CPU visits a large tensor once for each product: those of the tensor are sums of these.
        products = (
            dot(weight, weight),
            dot(gradient, gradient),
            dot(gradient, weight),
            dot(direction, weight),
        )
        by_channel, channels = self._tangential(weight.size // weight.shape[channel], *products)
        whole, layer = self._tangential(weight.size, *map(jnp.sum, products))
        along = jnp.where(channels, by_channel, jnp.where(layer, whole, 0.0))
        return direction - along * weight, channels | layer

    def _tangential(
        self,
        size: int,
        weights: jax.Array,
        gradients: jax.Array,
        gradient_along: jax.Array,
        direction_along: jax.Array,
    ) -> tuple[jax.Array, jax.Array]:
        """Returns the direction's part along the weight, and whether it is removed.

        Args:
          size: number of values of a channel, or of the tensor.
          weights: squared norms of the channels' weights, or of the tensor's.
          gradients: those of the gradients.
          gradient_along: products of gradient and weight.
          direction_along: products of direction and weight.

        Returns:
          The parts as multiples of the weights, and one bool.
        """
        norm, lengths = jnp.sqrt(weights), jnp.sqrt(gradients)
        cosine = jnp.abs(gradient_along) / (
            jnp.maximum(lengths, self.eps) * jnp.maximum(norm, self.eps)
        )
        is_invariant = cosine.max() < self.delta / math.sqrt(size)
        return direction_along / jnp.square(norm + self.eps), is_invariant


@dataclasses.dataclass(frozen=True)
class Sgd:
    """Stochastic gradient descent.

    Attributes:
      momentum: decay of the running sum of gradients; None for none.
      nesterov: whether the momentum looks one step ahead.
    """

    momentum: float | None = setting(None, at_least=0, below=1)
    nesterov: bool = False

    def __post_init__(self) -> None:
        if self.nesterov and not self.momentum:
            raise UserError(
                f"config.optimizer.options.nesterov needs a momentum, which is {self.momentum}; "
                "set config.optimizer.options.momentum, for example to 0.9."
            )

    def make(self, decay: Decay) -> optax.GradientTransformation:
        """Returns the transformation of gradients into directions."""
        if self.momentum is None:
            return _add_decay(decay)
        return optax.chain(optax.trace(self.momentum, self.nesterov), _add_decay(decay))


Rule = Adam | AdamP | Sgd
RULES: dict[str, type[Rule]] = {"adam": Adam, "adamp": AdamP, "adamw": Adam, "sgd": Sgd}


def _add_decay(decay: Decay) -> optax.GradientTransformation:
    def add(keys: tuple[Any, ...], direction: jax.Array, weight: jax.Array) -> jax.Array:
        rate = decay(path_of(keys))
        return direction + rate * weight if rate else direction

    return optax.stateless(
        lambda directions, params: jax.tree_util.tree_map_with_path(add, directions, params)
    )

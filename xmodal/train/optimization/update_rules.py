"""Update rules by name: from gradients to directions, before the learning rate."""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import optax

from xmodal.core.config import setting
from xmodal.core.tree_paths import path_of
from xmodal.train.optimization.parameter_groups import Decay, is_stacked

# By a part of a path; else the last axis. A row of a word table is a channel in the source, as is a
# map of a depthwise convolution.
_CHANNEL_AXES = {"embedding": 0, "table": 0, "depthwise": -2}
# AdamP: threshold of the cosine, and multiplier of the decay of scale-invariant weights.
_DELTA, _DECAY_RATIO = 0.1, 0.1


@dataclasses.dataclass(frozen=True)
class Adam:
    """Adam (Kingma and Ba 2015); with weight decay, AdamW (Loshchilov and Hutter 2019).

    Attributes:
      b1: decay of the first moment.
      b2: decay of the second moment.
      eps: added to the root of the second moment.
      amsgrad: divides by the largest second moment so far (Reddi et al. 2018), as in torch: the
        maximum is taken before the bias correction. `optax.scale_by_amsgrad` takes it after, so
        that the noisy first estimates stay in the denominator for good.
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
        adam = optax.scale_by_adam(b1=self.b1, b2=self.b2)

        def init(params: Any) -> Any:
            state = adam.init(params)
            largest = jax.tree.map(jnp.zeros_like, params)
            return optax.ScaleByAmsgradState(*state, largest) if self.amsgrad else state

        def update(gradients: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
            _, new = adam.update(gradients, optax.ScaleByAdamState(*state[:3]))
            divisors = new.nu
            if self.amsgrad:
                divisors = jax.tree.map(jnp.maximum, state.nu_max, new.nu)
                new = optax.ScaleByAmsgradState(*new, divisors)
            eps = self.eps
            if self.eps_before_correction:
                eps /= jnp.sqrt(1 - self.b2**new.count)
            directions = jax.tree.map(
                lambda m, v: m / (jnp.sqrt(v) + eps),
                optax.tree.bias_correction(new.mu, self.b1, new.count),
                optax.tree.bias_correction(divisors, self.b2, new.count),
            )
            return directions, new

        return optax.chain(optax.GradientTransformation(init, update), _add_decay(decay))


@dataclasses.dataclass(frozen=True)
class AdamP:
    """AdamP (Heo et al. 2021, algorithm 1 and clovaai/AdamP).

    Where a weight looks scale-invariant, its direction loses the part along the weight. A tensor
    looks so if, for every channel, |cos(gradient, weight)| < 0.1 / sqrt(size of a channel);
    failing that, if the same holds for the tensor as a whole. Vectors and scalars never do. Such
    weights decay by a tenth of the rate.

    Attributes:
      b1: decay of the first moment.
      b2: decay of the second moment.
      eps: added to the root of the second moment and to norms.
    """

    b1: float = setting(0.9, at_least=0, below=1)
    b2: float = setting(0.999, at_least=0, below=1)
    eps: float = setting(1e-8, at_least=0)

    def make(self, decay: Decay) -> optax.GradientTransformation:
        """Returns the transformation of gradients into directions."""
        adam = optax.scale_by_adam(b1=self.b1, b2=self.b2, eps=self.eps)

        def finish(keys: tuple[Any, ...], *arrays: jax.Array) -> jax.Array:
            path = path_of(keys)
            axes = (axis for name, axis in _CHANNEL_AXES.items() if name in path)
            finish_one = functools.partial(self._finish, decay(path), next(axes, -1))
            # The layers of a stack are tensors of their own, vectors among them.
            return (jax.vmap(finish_one) if is_stacked(path) else finish_one)(*arrays)

        def update(gradients: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
            directions, state = adam.update(gradients, state, params)
            finished = jax.tree_util.tree_map_with_path(finish, directions, gradients, params)
            return finished, state

        return optax.GradientTransformation(adam.init, update)

    def _finish(
        self, decay: float, axis: int, direction: jax.Array, gradient: jax.Array, weight: jax.Array
    ) -> jax.Array:
        """Returns Adam's direction of one tensor, projected, with the weight decay."""
        if weight.ndim < 2:
            return direction + decay * weight
        channel = axis % weight.ndim
        within_channel = tuple(each for each in range(weight.ndim) if each != channel)
        # A CPU visits a large tensor once for each product: those of the tensor are sums of these.
        products = [
            jnp.sum(a * b, within_channel, keepdims=True)
            for a, b in (
                (weight, weight), (gradient, gradient), (gradient, weight), (direction, weight)
            )
        ]  # fmt: skip

        def project(size: int, products: list[jax.Array]) -> tuple[jax.Array, jax.Array]:
            """Returns the direction's part along the weight, and whether it is removed."""
            norm, length = jnp.sqrt(products[0]), jnp.sqrt(products[1])
            norms = jnp.maximum(length, self.eps) * jnp.maximum(norm, self.eps)
            cosine = (jnp.abs(products[2]) / norms).max()
            is_invariant = cosine < _DELTA / math.sqrt(size)
            return products[3] / jnp.square(norm + self.eps), is_invariant

        by_channel, channels = project(weight.size // weight.shape[channel], products)
        whole, layer = project(weight.size, [jnp.sum(each) for each in products])
        along = jnp.where(channels, by_channel, jnp.where(layer, whole, 0.0))
        ratio = jnp.where(channels | layer, _DECAY_RATIO, 1.0)
        return direction - along * weight + decay * ratio * weight


@dataclasses.dataclass(frozen=True)
class Sgd:
    """Stochastic gradient descent.

    Attributes:
      momentum: decay of the running sum of gradients; None for none.
    """

    momentum: float | None = setting(None, at_least=0, below=1)

    def make(self, decay: Decay) -> optax.GradientTransformation:
        """Returns the transformation of gradients into directions."""
        if self.momentum is None:
            return _add_decay(decay)
        return optax.chain(optax.trace(self.momentum), _add_decay(decay))


Rule = Adam | AdamP | Sgd
RULES: dict[str, type[Rule]] = {"adam": Adam, "adamp": AdamP, "adamw": Adam, "sgd": Sgd}


def _add_decay(decay: Decay) -> optax.GradientTransformation:
    def add(keys: tuple[Any, ...], direction: jax.Array, weight: jax.Array) -> jax.Array:
        rate = decay(path_of(keys))
        return direction + rate * weight if rate else direction

    return optax.stateless(functools.partial(jax.tree_util.tree_map_with_path, add))

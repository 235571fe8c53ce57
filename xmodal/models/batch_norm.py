"""Batch normalization over the global batch, or over groups of it."""

from collections.abc import Callable, Mapping
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp

from xmodal.models.mode import Mode

POLICIES: Mapping[str, tuple[Mode, ...]] = {
    "batch": (Mode.TRAIN,),
    "running": (),
    "batch_frozen": (Mode.TRAIN, Mode.FROZEN),
}
"""The modes in which a policy uses batch statistics and updates the running ones."""

STATISTICS = ("global", "per_device")
"""The sets of items that statistics are computed over."""

VARIANCES = ("exact", "fast")
"""How the variance of a batch is computed, see `BatchNorm`."""


class BatchNorm(nn.Module):
    """Batch normalization with statistics in float32, applied as `(x - center) * factor + shift`.

    Under `jit` a sharded batch is one array, so `groups=1` normalizes over the global batch.
    With `groups` equal to the number of devices, and the batch sharded over them, every device
    normalizes with its own statistics and nothing is communicated; the running statistics are
    the mean over the groups.

    Attributes:
      groups: equal consecutive parts of the batch, each with its own statistics.
      momentum: decay of the running statistics.
      epsilon: added to the variance.
      use_scale: whether the channels have a learned scale.
      policy: key of `POLICIES`: "batch" uses the statistics of the batch while it is trained;
        "running" always uses the running statistics and never updates them; "batch_frozen" uses
        the statistics of the batch, and updates the running ones, in every training step, even
        while the parameters are frozen.
      unbiased: whether the running variance uses n / (n - 1) times the variance of the batch, as in
        torch.
      variance: "exact" computes it from the differences from the mean, in a second pass over the
        values, or from an estimate that is known before them (Chan, Golub and LeVeque, "Algorithms
        for computing the sample variance", 1983). "fast" subtracts the mean's square from the mean
        square, which loses the digits that these have in common: all of them where the mean is some
        thousand standard deviations.
      scale_init: initializer of the scale.
    """

    groups: int = 1
    momentum: float = 0.99
    epsilon: float = 1e-3
    use_scale: bool = True
    policy: str = "batch"
    unbiased: bool = False
    variance: str = "exact"
    scale_init: nn.initializers.Initializer = nn.initializers.ones

    def __call__(
        self,
        x: jax.Array,
        mode: Mode,
        counted: jax.Array | None = None,
        estimate: jax.Array | None = None,
    ) -> jax.Array:
        """Normalizes x [B, ..., C] per channel, in the dtype of x.

        Args:
          x: values.
          mode: see `policy`.
          counted: bool [B, ...], the rows that batch statistics are computed over; None for all.
          estimate: float [C] or [B, 1, ..., C], near the mean of all or of each item, for exact
            variances: no result depends on it but for rounding. If it was known before x, a
            compiler can compute the statistics while x is written. None for the mean itself.
        """
        parts = self._split(x, mode)
        center, factor, shift = self._coefficients(parts, mode, counted, estimate)
        return ((parts - center) * factor + shift).astype(x.dtype).reshape(x.shape)

    def item_coefficients(
        self, x: jax.Array, mode: Mode, estimate: jax.Array | None = None
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Returns center, factor and shift of every item, see `BatchNorm` and `__call__`.

        All are float32 [B, 1, 1, ..., C] for x [B, H, W, ..., C]; items of one group have equal
        ones.
        """
        parts = self._split(x, mode)
        spread = (*parts.shape[:2], 1, 1, *x.shape[3:])
        shape = (x.shape[0], 1, 1, *x.shape[3:])
        center, factor, shift = (
            jnp.broadcast_to(each, spread).reshape(shape)
            for each in self._coefficients(parts, mode, estimate=estimate)
        )
        return center, factor, shift

    def output_mean(self, activation: Callable[[jax.Array], jax.Array]) -> jax.Array:
        """Estimates the means [C] of the activated output, from the parameters alone.

        The output has the bias as mean and the scale as deviation, but for epsilon, where batch
        statistics are used. The estimate is that of Gauss-Hermite quadrature with two points, good
        for normally distributed values. To be called after the normalization.
        """
        bias: jax.Array = self.get_variable("params", "bias")
        scale = self.get_variable("params", "scale") if self.use_scale else 1.0
        return (activation(bias - scale) + activation(bias + scale)) / 2

    def _split(self, x: jax.Array, mode: Mode) -> jax.Array:
        """Returns x in float32 as [G, B/G, ..., C]; G is 1 for the running statistics."""
        groups = self.groups if mode in POLICIES[self.policy] else 1
        if x.shape[0] % groups:
            raise ValueError(
                f"a batch of {x.shape[0]} does not split into {groups} equal groups for "
                "statistics='per_device'; change the batch size or use statistics='global'"
            )
        return x.reshape(groups, -1, *x.shape[1:]).astype(jnp.float32)

    def _mean(self, estimate: jax.Array, mode: Mode) -> jax.Array:
        """[C] -> [C]; [B, 1, ..., C] -> [G, 1, ..., 1, C]."""
        if estimate.ndim == 1:
            return estimate
        parts = self._split(estimate, mode)
        return jnp.mean(parts, axis=tuple(range(1, parts.ndim - 1)), keepdims=True)

    @nn.compact
    def _coefficients(
        self,
        parts: jax.Array,
        mode: Mode,
        counted: jax.Array | None = None,
        estimate: jax.Array | None = None,
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Returns center, factor and shift of the parts [G, B/G, ..., C].

        All are float32 and broadcast to [G, 1, ..., 1, C].
        """
        channels = parts.shape[-1]
        scale = jnp.ones(())
        if self.use_scale:
            scale = self.param("scale", self.scale_init, (channels,))
        bias = self.param("bias", nn.initializers.zeros, (channels,))
        running_mean = self.variable("batch_stats", "mean", jnp.zeros, (channels,), jnp.float32)
        running_var = self.variable("batch_stats", "var", jnp.ones, (channels,), jnp.float32)
        shape = (*[1] * (parts.ndim - 1), channels)
        if mode not in POLICIES[self.policy]:
            factor = scale * jax.lax.rsqrt(running_var.value + self.epsilon)
            return running_mean.value.reshape(shape), factor.reshape(shape), bias.reshape(shape)
        axes = tuple(range(1, parts.ndim - 1))
        where, count = None, parts.size // channels // self.groups
        if counted is not None:
            where = counted.reshape(*parts.shape[:-1], 1)
            count = jnp.sum(where, axis=axes, keepdims=True)
        average = partial(jnp.mean, axis=axes, keepdims=True, where=where)
        # No result depends on the center but for rounding, so it has no gradient.
        center = jnp.zeros(shape)
        if self.variance == "exact":
            center = average(parts) if estimate is None else self._mean(estimate, mode)
            center = jax.lax.stop_gradient(center)
        # Mean and mean square of the differences come from one pass over the values.
        offset, mean_square = average(parts - center), average(jnp.square(parts - center))
        mean, var = center + offset, jnp.maximum(mean_square - jnp.square(offset), 0.0)
        correction = count / jnp.maximum(count - 1, 1) if self.unbiased else 1.0
        for running, batch in ((running_mean, mean), (running_var, var * correction)):
            batch = jnp.mean(batch, axis=tuple(range(parts.ndim - 1)))
            running.value = self.momentum * running.value + (1 - self.momentum) * batch
        factor = scale * jax.lax.rsqrt(var + self.epsilon)
        return center, factor, bias - offset * factor


torch_batch_norm = partial(BatchNorm, momentum=0.9, epsilon=1e-5, unbiased=True)
"""Makes a batch normalization with the settings of torch."""

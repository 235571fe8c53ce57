"""Batch normalization over the global batch, or over groups of it."""

from collections.abc import Mapping
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp

from xmodal.models.basics import Mode

POLICIES: Mapping[str, tuple[Mode, ...]] = {
    "batch": (Mode.TRAIN,),
    "running": (),
    "batch_frozen": (Mode.TRAIN, Mode.FROZEN),
}
"""The modes in which a policy uses batch statistics and updates the running ones."""
STATISTICS = ("global", "per_device")
"""The sets of items that statistics are computed over."""


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
      scale_init: initializer of the scale.
    """

    groups: int = 1
    momentum: float = 0.99
    epsilon: float = 1e-3
    use_scale: bool = True
    policy: str = "batch"
    unbiased: bool = False
    scale_init: nn.initializers.Initializer = nn.initializers.ones

    def __call__(
        self,
        x: jax.Array,
        mode: Mode,
        counted: jax.Array | None = None,
        center: jax.Array | None = None,
    ) -> jax.Array:
        """Normalizes x [B, ..., C] per channel, in the dtype of x.

        Args:
          x: values.
          mode: see `policy`.
          counted: bool [B, ...], the rows that batch statistics are computed over; None for all.
          center: see `coefficients`.
        """
        parts = self.split(x, mode)
        center, factor, shift = self.coefficients(parts, mode, counted, center)
        return ((parts - center) * factor + shift).astype(x.dtype).reshape(x.shape)

    def split(self, x: jax.Array, mode: Mode) -> jax.Array:
        """Returns x [B, ...] in float32 as [G, B/G, ...]; G is 1 for the running statistics."""
        groups = self.groups if mode in POLICIES[self.policy] else 1
        return x.reshape(groups, -1, *x.shape[1:]).astype(jnp.float32)

    @nn.compact
    def coefficients(
        self,
        parts: jax.Array,
        mode: Mode,
        counted: jax.Array | None = None,
        center: jax.Array | None = None,
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Returns center, factor and shift of the parts [G, B/G, ..., C], and updates the state.

        All are float32 and broadcast to [G, 1, ..., 1, C]. `center` may be anything near the mean:
        no result depends on it but for rounding. None takes the mean.
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
        center = jax.lax.stop_gradient(average(parts) if center is None else center)
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

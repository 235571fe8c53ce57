"""Batch normalisation over the global batch, or over groups of it."""

import flax.linen as nn
import jax
import jax.numpy as jnp


class BatchNorm(nn.Module):
    """Batch normalisation with statistics in float32, applied as one scale and one shift.

    Under `jit` a sharded batch is one array, so `groups=1` normalises over the global batch.
    With `groups` equal to the number of devices, and the batch sharded over them, every device
    normalises with its own statistics and nothing is communicated; the running statistics are
    the mean over the groups.

    Attributes:
      groups: equal consecutive parts of the batch, each with its own statistics.
      momentum: decay of the running statistics.
      epsilon: added to the variance.
      use_scale: whether the channels have a learned scale.
    """

    groups: int = 1
    momentum: float = 0.99
    epsilon: float = 1e-3
    use_scale: bool = True

    @nn.compact
    def __call__(self, x: jax.Array, *, train: bool) -> jax.Array:
        """Normalises x [B, H, W, C] per channel, in the dtype of x."""
        channels = x.shape[-1]
        ones = nn.initializers.ones
        scale = self.param("scale", ones, (channels,)) if self.use_scale else jnp.ones(())
        bias = self.param("bias", nn.initializers.zeros, (channels,))
        running_mean = self.variable("batch_stats", "mean", jnp.zeros, (channels,), jnp.float32)
        running_var = self.variable("batch_stats", "var", jnp.ones, (channels,), jnp.float32)
        if not train:
            factor = scale * jax.lax.rsqrt(running_var.value + self.epsilon)
            shift = bias - running_mean.value * factor
            return (x.astype(jnp.float32) * factor + shift).astype(x.dtype)
        if x.shape[0] % self.groups:
            raise ValueError(
                f"a batch of {x.shape[0]} does not split into {self.groups} equal groups for "
                "batch_norm='per_device'; change the batch size or use batch_norm='global'"
            )
        groups = x.reshape(self.groups, -1, *x.shape[1:]).astype(jnp.float32)  # [G, B/G, H, W, C]
        # Mean and mean square come from one pass over x.
        mean = jnp.mean(groups, axis=(1, 2, 3), keepdims=True)
        mean_square = jnp.mean(jnp.square(groups), axis=(1, 2, 3), keepdims=True)
        var = jnp.maximum(mean_square - jnp.square(mean), 0.0)
        for running, batch in ((running_mean, mean), (running_var, var)):
            batch = jnp.mean(batch, axis=(0, 1, 2, 3))
            running.value = self.momentum * running.value + (1 - self.momentum) * batch
        factor = scale * jax.lax.rsqrt(var + self.epsilon)
        shift = bias - mean * factor
        return (groups * factor + shift).astype(x.dtype).reshape(x.shape)

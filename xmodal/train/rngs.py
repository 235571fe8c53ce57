"""Random keys as functions of seed, stream and step; no random state is carried along."""

import zlib

import jax
import jax.numpy as jnp
import numpy as np


def key_data(seed: int) -> np.ndarray:
    """Returns the numbers of a seed's key, uint32, as the argument of a program.

    A program that has a seed as a constant is compiled again for every seed.

    Args:
      seed: at least 0 and less than 2**64; all bits count.
    """
    return np.asarray(jax.random.key_data(_key(seed)))


def stream_key(
    seed: int | np.ndarray | jax.Array, stream: str, step: jax.Array | int = 0
) -> jax.Array:
    """Returns the typed key of one stream (`params`, `towers`) at one step.

    A resumed run needs no random state from its checkpoint: the step is enough.

    Args:
      seed: see `key_data`, or what that returns.
      stream: name of the stream.
      step: int32 scalar.
    """
    key = _key(seed) if isinstance(seed, int) else jax.random.wrap_key_data(jnp.asarray(seed))
    # crc32 instead of hash(), which Python salts differently in every process.
    return jax.random.fold_in(jax.random.fold_in(key, zlib.crc32(stream.encode())), step)


def _key(seed: int) -> jax.Array:
    # Without 64-bit types, JAX reads only the lower half of a seed.
    high, low = divmod(seed, 2**32)
    key = jax.random.key(low)
    return jax.random.fold_in(key, high) if high else key

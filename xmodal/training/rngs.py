"""Random keys as functions of seed, stream and step; no random state is carried along."""

import zlib

import jax


def stream_key(seed: int, stream: str, step: jax.Array | int = 0) -> jax.Array:
    """Returns the typed key of one stream (`params`, `towers`) at one step.

    A resumed run needs no random state from its checkpoint: the step is enough.

    Args:
      seed: at least 0 and less than 2**64; all bits count.
      stream: name of the stream.
      step: int32 scalar.
    """
    # Without 64-bit types, JAX reads only the lower half of a seed.
    high, low = divmod(seed, 2**32)
    key = jax.random.key(low)
    if high:
        key = jax.random.fold_in(key, high)
    # crc32 instead of hash(), which Python salts differently in every process.
    return jax.random.fold_in(jax.random.fold_in(key, zlib.crc32(stream.encode())), step)

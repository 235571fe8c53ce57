"""Random keys as functions of seed, stream and step; no random state is carried along."""

import zlib

import jax


def stream_key(seed: int, stream: str, step: jax.Array | int = 0) -> jax.Array:
    """Returns the typed key of one stream (`params`, `towers`) at one step.

    A resumed run needs no random state from its checkpoint: the step is enough.
    """
    # crc32 instead of hash(), which Python salts differently in every process.
    return jax.random.fold_in(
        jax.random.fold_in(jax.random.key(seed), zlib.crc32(stream.encode())), step
    )

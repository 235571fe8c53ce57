"""Random keys as functions of seed, stream and step: nothing random is carried along."""

import functools
import math
import zlib
from collections.abc import Hashable

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import random as generators

_GENERATOR = "threefry2x32"


def stream_key(seed: int, stream: str, step: jax.Array | int = 0) -> jax.Array:
    """Returns the typed key of one stream (`params`, `towers`) at one step.

    A resumed run needs no random state from its checkpoint: the step is enough.
    """
    # crc32 and not hash(): Python salts the latter anew in every process.
    return jax.random.fold_in(
        jax.random.fold_in(jax.random.key(seed), zlib.crc32(stream.encode())), step
    )


def draws_by_row() -> bool:
    """Returns whether keys draw each number from its place in the array, as `key_of_part` does."""
    key = jax.random.key(0)
    if key.dtype != jax.random.key(0, impl=_GENERATOR).dtype:
        return False
    part = key_of_part(key, jnp.uint32(1), parts=2, items=2)
    return bool(jnp.all(jax.random.bits(part, (2,)) == jax.random.bits(key, (4,))[1::2]))


def key_of_part(key: jax.Array, number: jax.Array, *, parts: int, items: int) -> jax.Array:
    """Returns a key that draws for the items of a part what `key` draws for the whole batch.

    Arrays drawn have the items of the part first, or several rows of each item, one after the
    other. Keys split from the key, or folded from it, do the same.

    Args:
      key: typed key of the generator `threefry2x32`.
      number: uint32 scalar j; the part has the items j, j + parts, j + 2 parts, ...
      parts: of the batch.
      items: of a part.
    """
    data = jnp.append(jax.random.key_data(key), number)
    return jax.random.wrap_key_data(data, impl=_generator_of_part(parts, items))


@functools.cache
def _generator_of_part(parts: int, items: int) -> Hashable:
    """Returns threefry2x32 with keys of three numbers, the third one that of the part."""
    whole = generators.threefry_prng_impl

    def of_same_part(keys: jax.Array, key: jax.Array) -> jax.Array:
        numbers = jnp.broadcast_to(key[2], (*keys.shape[:-1], 1))
        return jnp.concatenate([keys, numbers], axis=-1)

    def seed(number: jax.Array) -> jax.Array:
        raise TypeError("A key of a part is made from one of the whole batch.")

    def split(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        return of_same_part(whole.split(key[:2], shape), key)

    def fold_in(key: jax.Array, data: int) -> jax.Array:
        return of_same_part(whole.fold_in(key[:2], data), key)

    def random_bits(key: jax.Array, bit_width: int, shape: tuple[int, ...]) -> jax.Array:
        rows = shape[0] if shape else 0
        if rows == 0 or rows % items:
            raise ValueError(f"Random numbers {shape} do not belong to {items} items.")
        # The generator hashes the place of a number in the array, 64 bits in two halves.
        each = rows // items
        own = jnp.arange(rows, dtype=jnp.uint32)
        row = (own // each * parts + key[2]) * each + own % each
        high, start = (
            half.reshape(-1, *[1] * (len(shape) - 1)) for half in _multiply(row, shape[1:])
        )
        low = start + _places(shape[1:])
        high = high + (low < start).astype(jnp.uint32)
        bits = generators.threefry2x32_p.bind(key[0], key[1], high, low)
        return (bits[0] ^ bits[1]).astype(f"uint{bit_width}")

    return generators.define_prng_impl(
        key_shape=(3,), seed=seed, split=split, random_bits=random_bits, fold_in=fold_in,
        name=f"{_GENERATOR}_part_of_{parts}", tag="part",
    )  # fmt: skip


def _multiply(x: jax.Array, shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """Returns both halves of x times the size of an array, uint32."""
    # `jax.lax.mulhi` cannot be compiled for several devices.
    size = math.prod(shape)
    x_high, x_low, high, low = x >> 16, x & 0xFFFF, np.uint32(size >> 16), np.uint32(size & 0xFFFF)
    middle = x_high * low, x_low * high
    carry = (x_low * low >> 16) + (middle[0] & 0xFFFF) + (middle[1] & 0xFFFF)
    upper = x_high * high + (middle[0] >> 16) + (middle[1] >> 16) + (carry >> 16)
    return upper, x * np.uint32(size)


def _places(shape: tuple[int, ...]) -> jax.Array:
    """Returns the place of each number of an array [1, *shape], uint32."""
    places = jnp.zeros((1, *shape), jnp.uint32)
    for axis in range(len(shape)):
        stride = np.uint32(math.prod(shape[axis + 1 :]))
        places += stride * jax.lax.broadcasted_iota(jnp.uint32, (1, *shape), axis + 1)
    return places

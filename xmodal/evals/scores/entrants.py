"""Finds the few scores of a tile that enter lists, so that the others need not be sorted."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

_BITS = 32


class Entrants(NamedTuple):
    """The items of a tile that enter the lists of Q queries.

    Attributes:
      bits: uint32 [Q, M // 32], a bit for each of M items, the first one in the lowest bit.
      number: int32 [Q], how many there are.
    """

    bits: jax.Array
    number: jax.Array


def mark_entrants(scores: jax.Array, least: jax.Array | np.ndarray) -> Entrants:
    """Marks the scores [Q, M] above the last ones of the lists, [Q, 1]; M is a multiple of 32."""
    place = jnp.arange(scores.shape[1], dtype=jnp.uint32) % _BITS
    marked = jnp.where(scores > least, jnp.uint32(1) << place, 0)
    bits = marked.reshape(len(scores), -1, _BITS).sum(axis=2, dtype=jnp.uint32)
    return Entrants(bits, _count(bits).sum(axis=1))


def find_entrants(entrants: Entrants, most: int) -> jax.Array:
    """Returns the positions of the first `most` entrants, ascending, int32 [Q, most].

    Those after the last one are arbitrary positions of the tile.
    """
    counts = _count(entrants.bits)
    ends = jnp.cumsum(counts, axis=1)
    wanted = jnp.arange(most, dtype=jnp.int32)
    # The word that has the wanted bit, and how many bits of this word come before it.
    passed = ends[:, None] <= wanted[:, None]
    word = jnp.minimum(passed.sum(axis=2, dtype=jnp.int32), counts.shape[1] - 1)
    before = wanted - jnp.where(passed, counts[:, None], 0).sum(axis=2, dtype=jnp.int32)
    bits, position = jnp.take_along_axis(entrants.bits, word, axis=1), word * _BITS
    width = _BITS // 2
    while width:  # Bisects the word.
        low = _count(bits & jnp.uint32((1 << width) - 1))
        is_high = before >= low
        before = jnp.where(is_high, before - low, before)
        bits = jnp.where(is_high, bits >> width, bits)
        position += jnp.where(is_high, width, 0)
        width //= 2
    return position


def _count(bits: jax.Array) -> jax.Array:
    return jax.lax.population_count(bits).astype(jnp.int32)

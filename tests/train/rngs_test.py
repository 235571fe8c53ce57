"""Keys of random streams."""

import zlib

import jax
import numpy as np
import pytest

from xmodal.train.rngs import key_data, stream_key


def bits_of(seed):
    return jax.random.key_data(stream_key(seed, "towers", 3))


def bits(seed, stream="params", step=0):
    return jax.random.key_data(stream_key(seed, stream, step)).tolist()


def test_all_bits_of_a_seed_count():
    seeds = [0, 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**33, 2**62, 2**63 - 1]
    assert len({tuple(bits(seed)) for seed in seeds}) == len(seeds)
    for seed in seeds:  # Also as an argument of a program.
        assert jax.jit(bits_of)(key_data(seed)).tolist() == bits(seed, "towers", 3)
    assert bits(2**40, "towers") != bits(2**40, "params") != bits(2**40, step=1)


@pytest.mark.parametrize("seed", [0, 7, 2**31, 2**32 - 1])
def test_seeds_of_32_bits_keep_their_keys(seed):
    """Earlier versions folded stream and step into the key of the seed."""
    key = jax.random.fold_in(jax.random.key(np.uint32(seed)), zlib.crc32(b"towers"))
    assert jax.random.key_data(jax.random.fold_in(key, 5)).tolist() == bits(seed, "towers", 5)

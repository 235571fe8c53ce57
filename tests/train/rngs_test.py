"""Keys of random streams."""

import jax

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

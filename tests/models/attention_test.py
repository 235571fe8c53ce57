import jax
import numpy as np
import pytest
import transformer_reference as reference

from xmodal.models.attention import attend, split_heads

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lengths", [None, (5, 2)])
def test_attends_to_real_tokens_and_no_later_ones(causal, lengths):
    query, key, value = RNG.normal(size=(3, 2, 5, 6)).astype(np.float32)
    mask = None if lengths is None else np.arange(5) < np.asarray(lengths)[:, None]
    heads = (split_heads(x, 3) for x in (query, key, value))
    found = jax.jit(attend, static_argnames="causal")(*heads, mask, causal=causal)
    for row in range(2):
        length = 5 if lengths is None else lengths[row]
        for place in range(5):
            seen = min(length, place + 1) if causal else length
            one = query[row, place : place + 1]
            expected = reference.attention(one, key[row], value[row], seen, 3)[0]
            np.testing.assert_allclose(found[row, place], expected, rtol=1e-5, atol=1e-6)

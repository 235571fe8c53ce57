import jax
import jax.numpy as jnp
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


@pytest.mark.parametrize("causal", [False, True])
def test_sums_are_divided_instead_of_weights(causal):
    rng = np.random.default_rng(8)
    query, key, value = (
        jnp.asarray(4 * rng.normal(size=(3, t, 2, 5)), jnp.float32) for t in (6, 6, 6)
    )
    mask = jnp.asarray(np.arange(6) < np.array([[6], [2], [0]]))

    def run(transform):
        def total(query, key, value):
            found = attend(query, key, value, mask, transform, causal=causal)
            return jnp.sum(jnp.sin(found)), found

        return jax.jit(jax.value_and_grad(total, (0, 1, 2), has_aux=True))(query, key, value)

    (_, found), gradients = run(None)
    (_, expected), others = run(lambda weights: weights)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    for one, other in zip(gradients, others, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    half = attend(*(x.astype(jnp.bfloat16) for x in (query, key, value)), mask, causal=causal)
    assert half.dtype == jnp.bfloat16

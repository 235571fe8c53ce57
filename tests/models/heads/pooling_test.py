import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xmodal.models import Features, Mode
from xmodal.models.heads import make_head

TOKENS = np.random.default_rng(0).normal(size=(3, 5, 4)).astype(np.float32)
LENGTHS = (5, 1, 3)
MASK = np.arange(5) < np.array(LENGTHS)[:, None]
POOLS = {
    "mean": lambda tokens: tokens.mean(0),
    "sum": lambda tokens: tokens.sum(0),
    "cls": lambda tokens: tokens[0],
    "lasttoken": lambda tokens: tokens[-1],
    "max": lambda tokens: tokens.max(0),
}


def _pool(head, features, mode=Mode.EVALUATE, **options):
    return jax.jit(lambda features: head.apply({}, features, mode, **options).vector)(features)


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("dtype", [np.float32, jnp.bfloat16])
def test_equals_the_loop(name, dtype):
    head, tokens = make_head("head", {"name": name}), TOKENS.astype(dtype)
    exact = tokens.astype(np.float32)
    # Padding may contain anything.
    garbage = np.where(MASK[..., None], tokens, np.asarray(np.nan, dtype))
    vector = _pool(head, Features(garbage, MASK))
    assert vector.dtype == np.float32
    for row, length in enumerate(LENGTHS):
        expected = POOLS[name](exact[row, :length])
        np.testing.assert_allclose(vector[row], expected, rtol=1e-5, atol=1e-6)
    vector = _pool(head, Features(tokens), Mode.TRAIN)
    expected = [POOLS[name](row) for row in exact]
    np.testing.assert_allclose(vector, expected, rtol=1e-5, atol=1e-6)

import jax
import numpy as np
import pytest

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(7, 5)).astype(np.float32)
IDS = np.int32([[1, 6, 6, 0], [3, 0, 0, 0], [0, 0, 0, 0]])
MASK = np.int32([[1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]])


INPUTS = {"text_ids": IDS, "text_mask": MASK}
PARAMS = {"encoder": {"table": TABLE}}


@pytest.mark.parametrize("pool", ["sum", "mean"])
def test_adds_up_the_words_that_the_mask_keeps(pool, tower):
    made = tower("words", head={"name": pool}, vocab_size=7, width=5)
    embedding, state = jax.jit(made.apply)(PARAMS, {}, INPUTS)
    expected = np.stack([TABLE[1] + 2 * TABLE[6], TABLE[3], np.zeros(5)])
    expected[0] /= 3 if pool == "mean" else 1
    np.testing.assert_allclose(embedding.vector, expected, rtol=1e-6)
    assert state == {}

"""The losses of single pairs: hand-computed numbers, and embeddings without a spread."""

import jax
import numpy as np

from xmodal.losses.sigmoid import sigmoid

SIGLIP = {
    "name": "cosine",
    "temperature": 0.1,
    "learned_temperature": True,
    "bias": -10.0,
    "learned_bias": True,
}


def test_siglip_at_its_start(make_pairs, make_context):
    # Equal unit vectors: every logit is 10 - 10 = 0, every one of B x B terms log 2.
    views = make_pairs(4)
    for view in views:
        view.vector[:] = 1.0
    context = make_context(np.arange(4, dtype=np.int32), SIGLIP)
    loss, scalars = jax.jit(lambda: sigmoid(*views, context))()
    np.testing.assert_allclose(loss, 4 * np.log(2), rtol=1e-5)
    assert scalars["accuracy"] == 0  # Ties do not count as successes.

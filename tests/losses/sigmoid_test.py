"""The losses of single pairs: hand-computed numbers, and embeddings without a spread."""

import jax
import numpy as np
import pytest

from xmodal.core.errors import UserError
from xmodal.losses.sigmoid import sigmoid, soft_contrastive

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


def test_duplicates_of_an_image_are_left_out(make_pairs, make_context):
    views = make_pairs(4)
    for view in views:
        view.vector[:] = 1.0
    context = make_context(np.array([5, 5, 5, 6], np.int32), SIGLIP)
    loss, _ = jax.jit(lambda: sigmoid(*views, context))()
    np.testing.assert_allclose(loss, (16 - 6) / 4 * np.log(2), rtol=1e-5)


def test_a_divergence_needs_a_spread(make_pairs, make_context):
    views = make_pairs(3, samples=2)
    context = make_context(np.arange(3, dtype=np.int32), "match_probability")
    with pytest.raises(UserError, match="head.name='gaussian'.*kl_weight=0"):
        jax.eval_shape(lambda: soft_contrastive(*views, context))
    _, scalars = jax.eval_shape(lambda: soft_contrastive(*views, context, kl_weight=0))
    assert "kl" not in scalars

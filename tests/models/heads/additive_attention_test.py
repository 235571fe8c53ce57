from functools import partial

import jax
import numpy as np
import pytest

from xmodal.models import Features, Mode
from xmodal.models.heads import make_head


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_equals_the_loop(scaled, masked):
    rng = np.random.default_rng(0)
    tokens = rng.normal(size=(3, 7, 5)).astype(np.float32)
    lengths = (7, 1, 4) if masked else (7, 7, 7)
    mask = np.arange(7) < np.array(lengths)[:, None] if masked else None
    garbage = np.where(mask[..., None], tokens, np.nan) if masked else tokens
    head = make_head("head", {"name": "attention", "scaled": scaled})
    init = partial(head.init, features=Features(tokens), mode=Mode.TRAIN)
    shapes = jax.eval_shape(init, jax.random.key(0))
    params = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape).astype(np.float32), shapes)
    embedding = jax.jit(lambda features: head.apply(params, features, Mode.TRAIN))(
        Features(garbage, mask)
    )
    hidden, query = params["params"]["hidden"], params["params"]["query"]
    for row, length in enumerate(lengths):
        scores = []
        for token in tokens[row, :length].astype(np.float64):
            score = np.tanh(token @ hidden["kernel"] + hidden["bias"]) @ query
            scores.append(score / np.sqrt(5) if scaled else score)
        weights = np.exp(scores) / np.sum(np.exp(scores))
        expected = sum(w * token for w, token in zip(weights, tokens[row], strict=False))
        np.testing.assert_allclose(embedding.vector[row], expected, rtol=1e-5, atol=1e-5)
        attention = embedding.extras["attention"][row]
        np.testing.assert_allclose(attention[:length], weights, rtol=1e-5, atol=1e-6)
        assert not np.any(attention[length:])

"""Unit tokens against NumPy, and their padding."""

import jax
import numpy as np

from xmodal.models import Features, Mode
from xmodal.models.heads import make_head


def test_tokens_have_unit_length_and_padding_counts_for_nothing():
    values = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)
    mask = np.arange(4) < np.array([4, 1, 2])[:, None]
    features = Features(np.where(mask[..., None], values, np.nan), mask)
    head = make_head("head", {"name": "unit_tokens", "width": 6})
    variables = head.init(jax.random.key(0), features, Mode.EVALUATE)
    found = head.apply(variables, features, Mode.TRAIN)
    layer = variables["params"]["linear"]
    tokens = values @ layer["kernel"] + layer["bias"]
    tokens = tokens / np.linalg.norm(tokens, axis=-1, keepdims=True) * mask[..., None]
    np.testing.assert_allclose(found.extras["tokens"], tokens, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found.extras["mask"], mask)
    mean = tokens.sum(1)
    mean /= np.linalg.norm(mean, axis=-1, keepdims=True)
    np.testing.assert_allclose(found.vector, mean, rtol=1e-5, atol=1e-6)
    plain = make_head("head", {"name": "unit_tokens"}).apply({}, features, Mode.EVALUATE)
    np.testing.assert_allclose(np.linalg.norm(plain.vector, axis=-1), 1, rtol=1e-5)

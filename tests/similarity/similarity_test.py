"""Configured similarities: parameters and their gradients, functions for ranking, errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xmodal.core.errors import UserError
from xmodal.similarity import SIMILARITIES, Embedding, make_similarity

MATCH = {"match_scale": 4.0, "match_shift": 3.5}
NAMES = sorted(SIMILARITIES)
SEVERAL = ["match_probability", "max_cosine"]


def make_views(name, sizes=(5, 6), dim=4):
    rng = np.random.default_rng(0)
    several = (3,) if name in SEVERAL else ()
    return [(0.5 * rng.normal(size=(size, *several, dim))).astype(np.float32) for size in sizes]


def test_parameters_start_where_the_config_says():
    assert make_similarity({"name": "dot", "temperature": 2.0, "bias": 3.0}).init() == {}
    siglip = {"learned_temperature": True, "temperature": 0.1, "learned_bias": True, "bias": -10.0}
    params = make_similarity({"name": "cosine", **siglip}).init()
    assert params.keys() == {"log_scale", "bias"}
    np.testing.assert_allclose(params["log_scale"], np.log(10), rtol=1e-6)
    assert params["bias"] == -10
    pcme = make_similarity({"name": "match_probability"}).init()
    assert pcme == {"match_scale": 15.0, "match_shift": 15.0}
    assert all(value.dtype == jnp.float32 for value in (params | pcme).values())
    assert make_similarity({"name": "match_probability", **MATCH}).init() == MATCH


LEARNED = {"learned_temperature": True, "temperature": 0.5, "learned_bias": True, "bias": 3.0}


@pytest.mark.parametrize("name", NAMES)
def test_logits_are_scaled_and_shifted(name):
    views = make_views(name, (5, 5))

    def compute(**keywords):
        similarity = make_similarity({"name": name, **keywords})
        params = similarity.init()

        @jax.jit
        def run(views):
            sides = [similarity.prepare(view) for view in views]
            functions = (similarity.logits, similarity.paired, similarity.score)
            return [function(*sides, params) for function in functions]

        return run(views)

    logits, paired, scores = compute()
    np.testing.assert_allclose(paired, np.diag(logits), rtol=1e-5)
    for keywords in ({"temperature": 0.5, "bias": 3}, LEARNED):
        scaled = compute(**keywords)
        np.testing.assert_allclose(scaled[0], 2 * logits + 3, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(scaled[1], 2 * paired + 3, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(scaled[2], scores)  # Ranking needs neither.


def test_learned_parameters_get_their_gradient():
    similarity = make_similarity({"name": "match_probability", **LEARNED})
    left, right = map(jax.jit(similarity.prepare), make_views("match_probability"))
    params = similarity.init() | MATCH

    @jax.jit
    @jax.value_and_grad
    def compute(params):
        return jnp.sum(jnp.sin(similarity.logits(left, right, params)))

    _, gradient = compute(params)
    for key, value in params.items():
        ends = [compute(params | {key: jnp.float32(value + step)})[0] for step in (1e-2, -1e-2)]
        slope = (ends[0] - ends[1]) / 2e-2
        np.testing.assert_allclose(gradient[key], slope, rtol=2e-2, atol=2e-2, err_msg=key)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": "dot", "temperatur": 1.0}, "Unknown key.*Did you mean 'temperature'"),
        ({"name": "dot", "max_logit_scale": 100.0}, "set learned_temperature=True, or"),
    ],
)
def test_bad_keywords(given, message):
    with pytest.raises(UserError, match=message):
        make_similarity(given)


def test_another_field_of_an_embedding_is_compared_by_name():
    samples = np.random.default_rng(0).normal(size=(5, 3, 4)).astype(np.float32)
    embedding = Embedding(samples, extras={"mean": samples.mean(axis=1)})
    by_mean = make_similarity({"name": "cosine", "field": "mean"})
    expected = make_similarity({"name": "cosine"}).prepare(samples.mean(axis=1))
    np.testing.assert_array_equal(by_mean.prepare(embedding), expected)

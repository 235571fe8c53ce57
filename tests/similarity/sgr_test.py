"""SGR's folded form against the plain one in torch's order of steps."""

import jax
import numpy as np

from tests.similarity.slow_saf import compare_pair, linear, real_items
from tests.similarity.token_views import make_params, make_views
from xmodal.similarity import make_similarity

SGR = make_similarity({"name": "sgr", "width": 5})


def score_pair(params, image, text):
    """All steps for all nodes, with queries and keys."""
    nodes = np.stack(compare_pair(params, image, text))
    for number in (1, 2, 3):
        step = params[f"step{number}"]
        edges = linear(step["query"], nodes) @ linear(step["key"], nodes).T
        edges = np.exp(edges - edges.max(1, keepdims=True))
        means = edges / edges.sum(1, keepdims=True) @ nodes
        nodes = np.maximum(linear(step["output"], means), 0)
    return linear(params["score"], nodes[0])[0]


def test_equals_the_slow_loop():
    views = make_views((4, 5))
    params = make_params(SGR, views)

    @jax.jit
    def compute(views, params):
        sides = [SGR.prepare(view, params) for view in views]
        return SGR.score(*sides, params), SGR.logits(*sides, params)

    score, logits = compute(views, params)
    images, texts = map(real_items, views)
    expected = np.array([[score_pair(params, x, y) for y in texts] for x in images])
    np.testing.assert_allclose(score, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(logits, 1 / (1 + np.exp(-expected)), rtol=1e-4)

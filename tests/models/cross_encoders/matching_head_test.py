"""The matching head against a slow reference, one pair and one head of attention at a time."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xmodal.models import Features
from xmodal.models.cross_encoders import make_cross_encoder

CONFIG = {
    "name": "matching_head",
    "width": 12,
    "depth": 2,
    "heads": 3,
    "mlp_dim": 20,
    "dropout": 0.0,
}
IMAGE_WIDTH, TEXT_WIDTH = 7, 10


def make_scorer(**changes):
    return make_cross_encoder("config.model.cross_encoder", CONFIG | changes, text_encoder=None)


@pytest.fixture(scope="module")
def items():
    """5 images of up to 6 tokens and 7 texts of up to 4; padding is NaN."""
    rng = np.random.default_rng(0)

    def make(count, length, width):
        lengths = rng.integers(1, length + 1, size=count)
        lengths[0] = length
        mask = np.arange(length) < lengths[:, None]
        tokens = np.where(mask[..., None], rng.normal(size=(count, length, width)), np.nan)
        return Features(jnp.asarray(tokens, jnp.float32), jnp.asarray(mask))

    return make(5, 6, IMAGE_WIDTH), make(7, 4, TEXT_WIDTH)


@pytest.fixture(scope="module")
def params(items):
    first = jax.tree.map(lambda x: x[:1], items)
    init = functools.partial(make_scorer().init, jax.random.key(0), {})
    shapes = jax.eval_shape(init, *first)
    rng = np.random.default_rng(1)

    def draw(x):
        return jnp.asarray(rng.normal(scale=0.4, size=x.shape), x.dtype)

    return {"cross_encoder": jax.tree.map(draw, shapes)}


def dense(x, p):
    return x @ np.asarray(p["kernel"], np.float64) + np.asarray(p["bias"], np.float64)


def normalize(x, p):
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
    return x * np.asarray(p["norm"]["scale"]) + np.asarray(p["norm"]["bias"])


def slow_attention(queries, memory, p):
    """Each query and each head by itself."""
    query, key, value = (
        dense(queries, p["query"]),
        dense(memory, p["key"]),
        dense(memory, p["value"]),
    )
    size = query.shape[-1] // CONFIG["heads"]
    found = np.zeros_like(query)
    for i in range(len(query)):
        for head in range(CONFIG["heads"]):
            at = slice(head * size, (head + 1) * size)
            weights = np.exp([query[i, at] @ k[at] / math.sqrt(size) for k in key])
            found[i, at] = weights @ value[:, at] / weights.sum()
    return normalize(queries + dense(found, p["output"]), p["residual"])


def slow_logits(params, image, text):
    """Logits [2] of real tokens [R, W] and [T, W]."""
    gelu = np.vectorize(lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))))
    x = dense(text, params["input"])
    for number in range(CONFIG["depth"]):
        layer = params[f"layers_{number}"]
        x = slow_attention(x, x, layer["self_attention"])
        x = slow_attention(x, image, layer["cross_attention"])
        hidden = gelu(dense(x, layer["mlp"]["hidden"]))
        x = normalize(x + dense(hidden, layer["mlp"]["output"]), layer["mlp"]["residual"])
    return dense(x[0], params["output"])


def real(features, i):
    return np.asarray(features.tokens[i], np.float64)[np.asarray(features.mask[i])]


@pytest.mark.slow
def test_logits_are_those_of_each_pair_alone(items, params):
    scorer = make_scorer()
    images, texts = (
        scorer.prepare(modality, params, x)
        for modality, x in zip(("image", "text"), items, strict=True)
    )
    everything = jax.tree.map(lambda x: jnp.broadcast_to(x, (5, *x.shape)), texts)
    found = jax.jit(scorer.logits)(params, images, everything)
    expected = [
        [
            slow_logits(params["cross_encoder"], real(items[0], i), real(items[1], j))
            for j in range(7)
        ]
        for i in range(5)
    ]
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)
    odds = jax.jit(scorer.scores)(params, images, everything)
    np.testing.assert_array_equal(odds, found[..., 1] - found[..., 0])
    logit = jax.jit(make_scorer(score="logit").scores)(params, images, everything)
    np.testing.assert_array_equal(logit, found[..., 1])

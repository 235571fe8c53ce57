"""SCAN against a slow loop in all its options, and its padding."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from tests.similarity.slow_saf import real_items
from tests.similarity.token_views import make_views
from xmodal.similarity import make_similarity
from xmodal.similarity.scan import POOLS
from xmodal.similarity.token_sets import NORMS

CLIPPED = ("clipped_l2norm", "clipped")
POOLED = {
    "lse": lambda cosines, scale: np.log(np.sum(np.exp(scale * cosines))) / scale,
    "mean": lambda cosines, scale: np.mean(cosines),
    "max": lambda cosines, scale: np.max(cosines),
    "sum": lambda cosines, scale: np.sum(cosines),
}


def score_pair(context, queries, options):
    """One pair of tokens [C, W] and [Q, W], one query at a time."""
    products = np.array([[x @ q for q in queries] for x in context])
    if options["attention_norm"] in CLIPPED:
        products = np.where(products > 0, products, 0.1 * products)
    if options["attention_norm"] == "softmax":
        products = np.exp(products) / np.exp(products).sum(1, keepdims=True)
    if options["attention_norm"].endswith("l2norm"):
        products /= np.linalg.norm(products, axis=1, keepdims=True)
    cosines = []
    for q, column in zip(queries, products.T, strict=True):
        powers = np.exp(options["attention_scale"] * column)
        attended = (powers / powers.sum()) @ context
        cosines.append(attended @ q / np.linalg.norm(attended) / np.linalg.norm(q))
    return POOLED[options["pool"]](np.array(cosines), options["pool_scale"])


def score_slowly(views, options):
    images, texts = ([tokens.astype(float) for tokens, _ in real_items(view)] for view in views)
    is_text = options["queries"] == "text"
    return np.array(
        [[score_pair(*((x, y) if is_text else (y, x)), options) for y in texts] for x in images]
    )


ROWS = [
    {
        "queries": ("text", "image")[number % 2],
        "attention_norm": norm,
        "pool": pool,
        "attention_scale": 4.0 + number,
        "pool_scale": 5.0,
    }
    for number, (norm, pool) in enumerate(zip(NORMS, [*POOLS, "lse"], strict=True))
]


def test_every_option_equals_the_slow_loop():
    for sizes in ((4, 5), (1, 3)):
        views = make_views(sizes)
        scaled = views[1].extras | {"tokens": 1.7 * views[1].extras["tokens"]}
        views = views[0], dataclasses.replace(views[1], extras=scaled)
        similarities = [make_similarity({"name": "scan", **options}) for options in ROWS]

        @jax.jit
        def compute(views, similarities=similarities):
            return [each.score(*map(each.prepare, views), {}) for each in similarities]

        for found, options in zip(compute(views), ROWS, strict=True):
            np.testing.assert_allclose(
                found, score_slowly(views, options), rtol=1e-4, atol=1e-5, err_msg=str(options)
            )


def test_items_without_tokens_are_finite():
    similarity, views = make_similarity({"name": "scan"}), make_views((2, 2))
    has_tokens = (np.arange(2) > 0)[:, None]
    none = [
        dataclasses.replace(x, extras=x.extras | {"mask": x.extras["mask"] & has_tokens})
        for x in views
    ]

    def total(*sides):
        return jnp.sum(similarity.score(*map(similarity.prepare, sides), {}))

    value, gradients = jax.value_and_grad(total, argnums=(0, 1), allow_int=True)(*none)
    assert np.isfinite(value)
    assert all(np.all(np.isfinite(each.extras["tokens"])) for each in gradients)

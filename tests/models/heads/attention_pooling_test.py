"""The heads `map` and `attention_pool` against a loop over items and heads."""

from functools import partial

import jax
import numpy as np
import pytest
import transformer_reference as reference
from scipy import special

from xmodal.base.config import UserError
from xmodal.models import Features, Mode
from xmodal.models.attention import KEPT
from xmodal.models.heads import make_head

RNG = np.random.default_rng(0)
TOKENS = RNG.normal(size=(3, 5, 12)).astype(np.float32)


def run(section, features):
    """The random parameters of a head, and its vectors."""
    head = make_head("head", section)
    init = partial(head.init, features=features, mode=Mode.EVALUATE)
    shapes = jax.eval_shape(init, jax.random.key(0))
    params = jax.tree.map(lambda leaf: RNG.normal(size=leaf.shape).astype(np.float32), shapes)
    compute = jax.jit(lambda x: head.apply(params, x, Mode.EVALUATE, mutable=[KEPT]))
    embedding, kept = compute(features)
    return params["params"], embedding.vector, kept[KEPT]["attention"]


def attend(params, query, tokens, heads):
    key, value = (reference.dense(params[name], tokens) for name in ("key", "value"))
    query = reference.dense(params["query"], query[None])
    return reference.attention(query, key, value, len(tokens), heads)[0]


def check_weights(kept, params, query, tokens, heads):
    """The mean over heads of each head's softmax."""
    keys, query = (
        reference.dense(params[each], x) for each, x in (("key", tokens), ("query", query))
    )
    parts = zip(np.split(keys, heads, axis=1), np.split(query, heads), strict=True)
    found = [special.softmax(key @ part / len(part) ** 0.5) for key, part in parts]
    np.testing.assert_allclose(kept, np.mean(found, axis=0), rtol=1e-4, atol=1e-6)


def test_map_equals_the_loop_and_reads_no_padding():
    lengths = (5, 2, 4)
    mask = np.arange(5) < np.array(lengths)[:, None]
    section = {"name": "map", "heads": 3, "mlp_dim": 7, "activation": "gelu", "epsilon": 1e-5}
    params, vectors, weights = run(section, Features(np.where(mask[..., None], TOKENS, 99.0), mask))
    for vector, kept, tokens, length in zip(vectors, weights, TOKENS, lengths, strict=True):
        real = tokens[:length].astype(np.float64)
        check_weights(kept[:length], params, params["probe"], real, 3)
        assert not np.any(kept[length:])
        y = attend(params, params["probe"], real, 3)
        y = reference.dense(params["attention_output"], y)
        normed = reference.layer_norm(y, 1e-5, **params["mlp_norm"])
        expected = y + reference.mlp(params, normed, reference.gelu)
        np.testing.assert_allclose(vector, expected, rtol=1e-4, atol=1e-4)


def test_attention_pool_equals_the_loop():
    section = {"name": "attention_pool", "heads": 4, "width": 6}
    params, vectors, weights = run(section, Features(TOKENS))
    for vector, kept, tokens in zip(vectors, weights, TOKENS.astype(np.float64), strict=True):
        x = np.concatenate([tokens.mean(0)[None], tokens]) + params["position_embeddings"]
        check_weights(kept, params, x[0], x, 4)
        expected = reference.dense(params["output"], attend(params, x[0], x, 4))
        np.testing.assert_allclose(vector, expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(UserError, match="number of tokens varies: use 'map'"):
        run(section, Features(TOKENS, np.ones((3, 5), bool)))

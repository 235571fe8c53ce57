"""Whatever padding contains, even NaN, neither vectors nor gradients read it."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xmodal.models import Features, Mode
from xmodal.models.heads import make_head
from xmodal.models.recurrent import Recurrent

RNG = np.random.default_rng(0)
TOKENS = RNG.normal(size=(3, 5, 8)).astype(np.float32)
MASK = np.arange(5) < np.array([[5], [1], [3]])
BLOCKS = {"width": 8, "depth": 1, "heads": 2, "mlp_dim": 4}
HEADS = [
    {"name": "attention"},
    {"name": "multihead_attention_pool", "heads": 2, "mlp_dim": 4},
    {"name": "pie", "width": 8},
    {"name": "gaussian", "width": 8, "source": "mean"},
    *({"name": "transformer", "block": block, **BLOCKS} for block in ("milan", "standard")),
]


def assert_padding_is_unread(init, apply):
    """Compares the values and gradients of `apply(params, tokens)` with NaN and 0 as padding."""
    shapes = jax.eval_shape(init, jax.random.key(0))
    params = jax.tree.map(lambda leaf: RNG.normal(size=leaf.shape).astype(np.float32), shapes)

    def loss(params, tokens):
        vectors = apply(params, tokens)
        return jnp.sum(jnp.sin(vectors)), vectors

    run = jax.jit(jax.grad(loss, argnums=(0, 1), has_aux=True))
    zeros, junk = (run(params, np.where(MASK[..., None], TOKENS, x)) for x in (0, np.nan))
    for expected, found in zip(*map(jax.tree.leaves, (zeros, junk)), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("section", HEADS, ids=lambda section: section["name"])
def test_heads_read_no_padding(section):
    head = make_head("head", section)
    content = np.zeros((3, 2), np.uint32)

    def features(tokens):
        return Features(tokens, MASK, {"content": content})

    init = partial(head.init, features=features(TOKENS), mode=Mode.EVALUATE)

    def apply(params, tokens):
        return head.apply(params, features(tokens), Mode.EVALUATE).vector

    assert_padding_is_unread(init, apply)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_recurrent_layers_read_no_padding(cell):
    layers, lengths = Recurrent(cell, 4, 1, True, 0.0, jnp.float32), MASK.sum(1)
    init = partial(layers.init, x=TOKENS, lengths=lengths, drops=False)

    def apply(params, tokens):
        return layers.apply(params, tokens, lengths, False).state

    assert_padding_is_unread(init, apply)

"""PIE alone; tests/pretrained/polysemous_parity_test.py compares it with torch."""

from functools import partial

import jax
import numpy as np
import pytest

from xmodal.base.config import UserError
from xmodal.models import Features, Mode
from xmodal.models.heads import make_head

RNG = np.random.default_rng(0)
TOKENS = RNG.normal(size=(3, 5, 8)).astype(np.float32)
WORDS = RNG.normal(size=(3, 5, 6)).astype(np.float32)
STATE = RNG.normal(size=(3, 8)).astype(np.float32)
MASK = np.arange(5) < np.array([[5], [1], [3]])
HEAD = {"name": "pie", "width": 8, "embeddings": 2, "linear": False}


def features(pad=0, junk=0.0, **extras):
    """Texts with additional padding that contains other values."""
    widths = [(0, 0), (0, pad), (0, 0)]
    mask = np.pad(MASK, widths[:2])
    tokens, words = (
        np.where(mask[..., None], np.pad(x, widths), np.float32(junk)) for x in (TOKENS, WORDS)
    )
    return Features(tokens, mask, {"words": words, "state": STATE, **extras})


def apply(features, **options):
    head = make_head("head", HEAD | options)
    init = partial(head.init, features=features, mode=Mode.EVALUATE)
    shapes = jax.eval_shape(init, jax.random.key(0))
    rng = np.random.default_rng(1)
    params = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape).astype(np.float32), shapes)
    run = jax.jit(partial(head.apply, mode=Mode.EVALUATE))
    return run(params, features=features), params["params"]


@pytest.mark.parametrize("source", ["last", "state", "mean"])
def test_padding_changes_nothing(source):
    plain, _ = apply(features(), source=source)
    padded, _ = apply(features(pad=4, junk=np.nan), source=source)
    for name in ("residuals", "vector"):
        one, other = (getattr(e, name, e.extras.get(name)) for e in (plain, padded))
        assert one.shape == (3, 2, 8)
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)
    attention = padded.extras["attention"]
    assert attention.shape == (3, 9, 2)
    np.testing.assert_array_equal(attention[:, 5:], 0)
    np.testing.assert_allclose(attention.sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(plain.vector, axis=-1), 1, rtol=1e-5)


def test_the_sources_differ_by_the_backward_direction():
    """The output at the last word is not the final state of both directions; either can be used."""
    vectors = [apply(features(), source=source)[0].vector for source in ("last", "state")]
    assert np.abs(vectors[0] - vectors[1]).max() > 0.1
    auto, _ = apply(features())
    np.testing.assert_array_equal(auto.vector, vectors[1])


def test_one_embedding_has_no_axis():
    one, params = apply(features(), embeddings=1)
    assert one.vector.shape == (3, 8)
    assert one.extras["residuals"].shape == (3, 1, 8)
    assert one.extras["attention"].shape == (3, 5, 1)
    assert params["attention_scores"]["kernel"].shape == (3, 1)


def test_words_are_attended_and_cells_too():
    _, params = apply(features())
    assert params["attention_hidden"]["kernel"].shape == (6, 3)
    grid, params = apply(Features(TOKENS), linear=True, width=4)
    assert params["summary"]["kernel"].shape == params["attended"]["kernel"].shape == (8, 4)
    assert grid.vector.shape == (3, 2, 4)


def test_what_does_not_fit_is_said():
    with pytest.raises(UserError, match="'pie' with source='state' needs an encoder with a state"):
        apply(Features(TOKENS), source="state")
    with pytest.raises(UserError, match="linear=False and width=5 gets features of width 8"):
        apply(features(), width=5)

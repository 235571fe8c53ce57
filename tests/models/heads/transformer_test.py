from functools import partial

import jax
import numpy as np
import pytest
import transformer_reference as reference

from xmodal.base.config import UserError
from xmodal.models import Features, Mode
from xmodal.models.heads import make_head, transformer

REFERENCES = {"milan": reference.milan_block, "standard": reference.standard_block}
SIZES = {"width": 20, "depth": 3, "heads": 4, "mlp_dim": 24}


def _problem(lengths, tokens):
    rng = np.random.default_rng(0)
    mask = np.arange(tokens) < np.asarray(lengths)[:, None]
    return rng.normal(size=(len(lengths), tokens, 12)).astype(np.float32), mask


def _variables(head, features, scale=0.3):
    rng = np.random.default_rng(1)
    init = partial(head.init, features=features, mode=Mode.EVALUATE)
    shapes = jax.eval_shape(init, jax.random.key(0))
    return jax.tree.map(lambda leaf: rng.normal(0, scale, leaf.shape).astype(np.float32), shapes)


def _head(block, pool):
    return make_head("head", {"name": "transformer", "block": block, "pool": pool, **SIZES})


@pytest.mark.parametrize("block", transformer.BLOCKS)
@pytest.mark.parametrize("pool", transformer.POOLS)
def test_equals_the_reference(block, pool):
    head, lengths = _head(block, pool), (7, 1, 4)
    tokens, mask = _problem(lengths, 7)
    variables = _variables(head, Features(tokens, mask))
    run = jax.jit(lambda features: head.apply(variables, features, Mode.TRAIN).vector)
    vector = run(Features(tokens, mask))
    assert vector.shape == (3, 20)
    params = variables["params"]
    for row, length in enumerate(lengths):
        x = reference.relu(reference.dense(params["input"], tokens[row]))
        for layer in ("layer1", "layer2", "layer3"):
            x = REFERENCES[block](params[layer], x, length, heads=4)
        expected = x[0] if pool == "first" else x[:length].mean(0)
        np.testing.assert_allclose(vector[row], expected, rtol=1e-3, atol=1e-4)
    # Neither the values nor the number of padding tokens matter.
    garbage = np.pad(np.where(mask[..., None], tokens, 9), ((0, 0), (0, 2), (0, 0)))
    longer = Features(garbage, np.pad(mask, ((0, 0), (0, 2))))
    np.testing.assert_allclose(run(longer), vector, rtol=1e-4, atol=1e-5)
    whole = run(Features(tokens[:1]))
    np.testing.assert_allclose(whole, vector[:1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("block", transformer.BLOCKS)
def test_layer_norms_keep_the_digits_of_a_large_mean(block):
    x = 3e3 + np.random.default_rng(0).normal(size=(2, 3, 20)).astype(np.float32)
    if block == "milan":
        norm, key = transformer.MilanLayerNorm(np.float32), "gamma"
    else:
        norm, key = transformer.layer_norm(1e-6, np.float32, "norm"), "bias"
    variables = norm.init(jax.random.key(0), x)
    assert not np.any(variables["params"][key])
    exact = np.asarray(x, np.float64)
    exact = exact - exact.mean(-1, keepdims=True)
    exact /= np.sqrt((exact**2).mean(-1, keepdims=True) + 1e-6)
    # The mean is rounded to a multiple of 0.0002.
    np.testing.assert_allclose(norm.apply(variables, x), exact, atol=1e-3)


def test_the_authors_block_starts_with_neutral_scales():
    block = transformer.MilanBlock(heads=4, mlp_dim=24, dtype=np.float32)
    x, mask = np.ones((1, 3, 20), np.float32), np.ones((1, 3), bool)
    init = jax.jit(block.init, static_argnums=3)
    params = init(jax.random.key(0), x, mask, False)["params"]
    assert set(params) == {
        "attention_norm", "query", "key", "query_scale", "attention_output", "mlp_norm",
        "mlp_hidden", "mlp_output",
    }  # fmt: skip
    assert params["query_scale"].shape == (5,)
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(params["attention_norm"]))
    bound = np.sqrt(6 / (20 + 24))
    kernel = np.abs(params["mlp_hidden"]["kernel"])
    assert 0.9 * bound < kernel.max() <= bound


def test_a_row_of_padding_gives_no_nan():
    head = _head("milan", "mean")
    features = Features(*_problem((3, 0), 5))
    variables = _variables(head, features)
    run = jax.jit(lambda features: head.apply(variables, features, Mode.EVALUATE).vector)
    vector = run(features)
    assert np.all(np.isfinite(vector))


@pytest.mark.slow
def test_tokens_give_the_dtype():
    head = _head("standard", "first")
    tokens, mask = _problem((3, 2), 5)
    variables = _variables(head, Features(tokens, mask))
    half = Features(tokens.astype(jax.numpy.bfloat16), mask)
    rounded = head.apply(variables, half, Mode.EVALUATE).vector
    exact = head.apply(variables, Features(tokens, mask), Mode.EVALUATE).vector
    assert rounded.dtype == np.float32
    assert 0 < np.abs(rounded - exact).max() < 0.05 * np.abs(exact).max()


def test_unknown_options_list_the_known_ones():
    with pytest.raises(UserError, match="'conformer' in head.block; known: .'milan', 'stand"):
        _head("conformer", "first")
    with pytest.raises(UserError, match=r"\['layers'\] in head; known: .'block', "):
        make_head("head", {"name": "transformer", "layers": 3})

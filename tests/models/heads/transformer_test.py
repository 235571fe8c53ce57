from functools import partial

import jax
import numpy as np
import pytest
import transformer_reference as reference

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


def _head(block, pool, **options):
    section = {"name": "transformer", "block": block, "pool": pool, **SIZES, **options}
    return make_head("head", section)


def test_without_input_layer_the_blocks_read_the_tokens():
    head = _head("standard", "cls", input_layer=False)
    tokens, mask = _problem((7, 4), 7)
    features = Features(tokens, mask)
    variables = _variables(head, features)
    vector = jax.jit(head.apply, static_argnums=2)(variables, features, Mode.TRAIN).vector
    params = variables["params"]
    assert set(params) == {"layer1", "layer2", "layer3"}
    for row, length in enumerate((7, 4)):
        x = tokens[row]
        for layer in sorted(params):
            x = reference.standard_block(params[layer], x, length, heads=4)
        np.testing.assert_allclose(vector[row], x[0], rtol=1e-3, atol=1e-4)


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
        expected = x[0] if pool == "cls" else x[:length].mean(0)
        np.testing.assert_allclose(vector[row], expected, rtol=1e-3, atol=1e-4)
    # Neither the values nor the number of padding tokens matter.
    garbage = np.pad(np.where(mask[..., None], tokens, 9), ((0, 0), (0, 2), (0, 0)))
    longer = Features(garbage, np.pad(mask, ((0, 0), (0, 2))))
    np.testing.assert_allclose(run(longer), vector, rtol=1e-4, atol=1e-5)
    whole = run(Features(tokens[:1]))
    np.testing.assert_allclose(whole, vector[:1], rtol=1e-4, atol=1e-5)

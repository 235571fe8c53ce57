"""Initial values of narrow layers; the scores equal those of transformers (`blip_weights_test`)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xmodal.models import make_dual_encoder

WIDTH, CELLS, ITEMS = 64, 9, 12


@pytest.fixture(scope="module")
def inputs():
    rng = np.random.default_rng(0)
    return {
        "image": {"image": rng.normal(size=(ITEMS, CELLS, 32)).astype(np.float32)},
        "text": {
            "text_ids": rng.integers(1, 100, (ITEMS, 7)).astype(np.int32),
            "text_mask": np.ones((ITEMS, 7), np.int32),
        },
    }


def init(inputs, layer_init):
    """A model and its initial parameters."""
    bert = {
        "name": "bert", "vocab_size": 100, "width": WIDTH, "depth": 1, "heads": 4,
        "mlp_dim": 2 * WIDTH, "max_positions": 8, "types": 0, "layer_init": layer_init,
    }  # fmt: skip
    precomputed = {"name": "precomputed", "features": (CELLS, 32)}
    model = make_dual_encoder(
        {
            "image": {
                "encoder": precomputed, "head": {"name": "mean"}, "projection": {"width": 8}
            },
            "text": {"encoder": bert, "head": {"name": "first"}, "projection": {"width": 8}},
            "pair_scorer": {"name": "cross_attention"},
        }
    )  # fmt: skip
    return model, *model.init(jax.random.key(0), inputs)


def measure_interaction(inputs, layer_init):
    """The deviation of the scores of all pairs without the means of their two items."""
    model, params, state = init(inputs, layer_init)
    scorer = model.pair_scorer
    images, texts = (
        scorer.prepare(side, params, model.embed(side, params, state, given)[0].extras["features"])
        for side, given in inputs.items()
    )
    every = jax.tree.map(lambda x: jnp.broadcast_to(x, (ITEMS, *x.shape)), texts)
    found = np.asarray(scorer.scores(params, images, every), np.float64)
    return np.std(found - found.mean(0) - found.mean(1, keepdims=True) + found.mean())


@pytest.mark.slow
def test_narrow_layers_begin_to_learn_if_their_initial_values_follow_the_width(inputs):
    """With BERT's, scores hardly depend on the pair, and neither do gradients."""
    assert measure_interaction(inputs, "siglip") > 1e-3
    assert measure_interaction(inputs, "bert") < 1e-5


@pytest.mark.slow
def test_all_layers_have_the_initial_values(inputs):
    _, params, _ = init(inputs, "siglip")
    layer, text = params["pair_scorer"]["layers_0"], params["text"]["encoder"]["layers"]
    assert layer.keys() == {"cross_attention"}  # The rest is shared with the text tower.
    for name, fan in (("query", 2 * WIDTH), ("key", 32 + WIDTH), ("output", 2 * WIDTH)):
        kernel = layer["cross_attention"][name]["kernel"]
        np.testing.assert_allclose(np.std(kernel), (2 / fan) ** 0.5, rtol=0.1)
    for name, fan in (("query", 2 * WIDTH), ("mlp_hidden", 3 * WIDTH)):
        np.testing.assert_allclose(np.std(text[name]["kernel"]), (2 / fan) ** 0.5, rtol=0.1)

from functools import partial

import jax
import ml_collections
import numpy as np
import pytest

from xmodal import models
from xmodal.core.errors import UserError

IMAGE = {
    "encoder": {"name": "precomputed", "features": 6, "hidden": (5,)},
    "head": {"name": "mean"},
    "projection": {"width": 4},
}
TEXT = {
    "encoder": {
        "name": "bert",
        "vocab_size": 19,
        "width": 8,
        "depth": 1,
        "heads": 2,
        "mlp_dim": 12,
    },
    "head": {"name": "transformer", "width": 8, "depth": 1, "heads": 2, "mlp_dim": 12},
    "projection": {"width": 4},
}
EXAMPLES = {
    "image": {"image": np.ones((2, 6), np.float32)},
    "text": {"text_ids": np.ones((2, 5), np.int32), "text_mask": np.ones((2, 5), np.int32)},
}


def test_builds_from_a_locked_config():
    config = ml_collections.ConfigDict({"image": IMAGE, "text": TEXT})
    model = models.make_dual_encoder(config.lock())
    params, state = jax.eval_shape(model.init, jax.random.key(0), EXAMPLES)
    assert set(params) == set(state) == {"image", "text"}
    assert set(params["text"]) == {"encoder", "head", "projection"}
    assert set(params["image"]["projection"]) == {"kernel", "bias"}
    assert model.similarity.name == "dot"
    for name, inputs in EXAMPLES.items():
        embedding, new_state = jax.eval_shape(partial(model.embed, name), params, state, inputs)
        assert embedding.vector.shape == (2, 4)
        assert new_state == {}


def test_nested_plain_dicts_of_float32():
    encoder = {"name": "efficientnet", "width": 0.25, "depth": 0.25, "dtype": "bfloat16"}
    model = models.make_dual_encoder({"image": {"encoder": encoder, "head": {"name": "mean"}}})
    inputs = {"image": {"image": np.zeros((2, 32, 32, 3), np.uint8)}}
    params, state = jax.eval_shape(model.init, jax.random.key(0), inputs)
    assert set(state["image"]) == {"batch_stats"}

    def types(tree):
        return {type(tree)}.union(*map(types, tree.values())) if isinstance(tree, dict) else set()

    assert types(params) == types(state) == {dict}
    assert {leaf.dtype for leaf in jax.tree.leaves((params, state))} == {np.dtype("float32")}

    def embed(params, state, inputs, key):
        return model.embed("image", params, state, inputs, train=True, key=key)

    embedding, new = jax.eval_shape(embed, params, state, inputs["image"], jax.random.key(0))
    assert embedding.vector.dtype == np.float32
    assert jax.tree.structure(new) == jax.tree.structure(state["image"])


def test_a_tower_starts_the_same_with_or_without_the_other():
    both = models.make_dual_encoder({"image": IMAGE, "text": IMAGE})
    alone = models.make_dual_encoder({"text": IMAGE})
    key, features = jax.random.key(3), EXAMPLES["image"]
    together, _ = both.init(key, {"image": features, "text": features})
    single, _ = alone.init(key, {"text": features})
    jax.tree.map(np.testing.assert_array_equal, together["text"], single["text"])
    kernels = [together[name]["projection"]["kernel"] for name in ("image", "text")]
    assert np.all(kernels[0] != kernels[1])


MEAN = {"name": "mean"}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"image": {"encoder": {"name": "vgg"}, "head": MEAN}},
            "'vgg' in config.model.image.encoder.name; known: .'bert', 'convnet', 'eff",
        ),
        (
            {"image": {"encoder": {"features": 3}, "head": MEAN}},
            "config.model.image.encoder lacks 'name'; known: .'bert'",
        ),
        (
            {"text": TEXT | {"head": {"name": "meen"}}},
            "'meen' in config.model.text.head.name; .*Did you mean 'mean'",
        ),
        ({"similarity": {"name": "dot"}}, "set config.model.image or .text"),
        ({"text": TEXT, "shared": ("head",)}, "shared needs an image and a text tower"),
        ({"text": TEXT | {"head": {"name": "none"}}}, "A head of config.model is 'none'"),
    ],
)
def test_config_errors_list_what_is_known(config, message):
    with pytest.raises(UserError, match=message):
        models.make_dual_encoder(config)

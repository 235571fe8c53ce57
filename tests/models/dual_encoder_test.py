import jax
import ml_collections
import numpy as np
import pytest

from xmodal import models

IMAGE = {"name": "precomputed", "features": 6, "hidden": (5,), "projection": 4}
TEXT = {
    "name": "bert", "vocab_size": 19, "width": 8, "depth": 1, "heads": 2, "mlp_dim": 12,
    "adapter": {"width": 8, "depth": 1, "heads": 2, "mlp_dim": 12}, "projection": 4,
}  # fmt: skip
EXAMPLES = {
    "image": np.ones((2, 6), np.float32),
    "text": {"text_ids": np.ones((2, 5), np.int32), "text_mask": np.ones((2, 5), np.int32)},
}


def test_builds_from_a_locked_config():
    config = ml_collections.ConfigDict({"image": IMAGE, "text": TEXT, "similarity": "dot"})
    model = models.make_dual_encoder(config.lock())
    params, state = jax.jit(model.init)(jax.random.key(0), EXAMPLES)
    assert set(params) == set(state) == {"image", "text"}
    assert set(params["text"]) == {"bert", "adapter", "projection"}
    assert model.similarity == "dot"
    for name, inputs in EXAMPLES.items():
        embedding, new_state = model.embed(name, params, state, inputs)
        assert embedding.vector.shape == (2, 4)
        assert new_state == {}


def test_nested_plain_dicts_of_float32():
    image = {"name": "efficientnet", "width": 0.25, "depth": 0.25, "dtype": "bfloat16"}
    model = models.make_dual_encoder({"image": image})
    inputs = {"image": np.zeros((2, 32, 32, 3), np.uint8)}
    params, state = jax.eval_shape(model.init, jax.random.key(0), inputs)
    assert set(state["image"]) == {"batch_stats"}

    def types(tree):
        return {type(tree)}.union(*map(types, tree.values())) if isinstance(tree, dict) else set()

    assert types(params) == types(state) == {dict}
    assert {leaf.dtype for leaf in jax.tree.leaves((params, state))} == {np.dtype("float32")}

    def embed(params, state, images, key):
        return model.embed("image", params, state, images, train=True, key=key)

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


def test_per_device_batch_norm_takes_the_number_of_groups():
    image = {"name": "efficientnet", "variant": "b0", "batch_norm": "per_device"}
    model = models.make_dual_encoder({"image": image}, models.Devices(4))
    assert model.towers["image"].module.batch_groups == 4
    image["batch_norm"] = "global"
    model = models.make_dual_encoder({"image": image}, models.Devices(4))
    assert model.towers["image"].module.batch_groups == 1


def test_embedding_is_a_pytree_with_optional_parts():
    embedding = models.Embedding(np.ones((2, 3)))
    doubled = jax.tree.map(lambda x: 2 * x, embedding)
    assert isinstance(doubled, models.Embedding)
    assert doubled.log_sigma is None
    np.testing.assert_array_equal(doubled.vector, 2.0)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"image": {"name": "vgg"}},
            "'vgg' in config.model.image.name; known: .'bag_of_words', 'bert', 'efficientnet', ",
        ),
        ({"image": {"features": 3}}, "config.model.image lacks 'name'; known: .'bag_of_words'"),
        ({"image": {"name": "precomputed"}}, r"model.image lacks \['features'\]"),
        ({"text": {"name": "bert", "widht": 3}}, r"\['widht'\] in config.model.text; known: "),
        ({"images": IMAGE}, r"\['images'\] in config.model; known: .'image', 'similarity', 'text'"),
        ({"image": IMAGE | {"devices": 2}}, r"\['devices'\] in config.model.image"),
        ({"similarity": "dot"}, "set config.model.image or .text"),
    ],
)
def test_config_errors_list_what_is_known(config, message):
    with pytest.raises(ValueError, match=message):
        models.make_dual_encoder(config)


def test_unknown_tower():
    model = models.make_dual_encoder({"text": TEXT})
    with pytest.raises(ValueError, match="'image' in the towers of this model; known: .'text'"):
        model.embed("image", {}, {}, EXAMPLES["image"])

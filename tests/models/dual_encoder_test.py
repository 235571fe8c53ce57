import jax
import numpy as np

from xmodal import models


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

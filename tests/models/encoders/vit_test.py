"""The Vision Transformer against loops over patches and layers."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import transformer_reference as reference

from xmodal.base.config import UserError
from xmodal.models.transformer_layers import ACTIVATIONS, STORE_NOTHING, LayerSpec, run_layers

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (3, 6, 9, 3), np.uint8)
SIZES = {
    "patch": 3, "width": 12, "depth": 3, "heads": 2, "mlp_dim": 20, "normalization": "unit",
}  # fmt: skip
ACTIVATE = {
    "gelu": reference.gelu,
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "quick_gelu": lambda x: x / (1 + np.exp(-1.702 * x)),
}


def encode(image, params, heads, activation, epsilon=1e-6):
    """The tokens [1 + n, W] of one picture."""
    kernel = np.asarray(params["patches"]["kernel"], np.float64)
    size, x = len(kernel), image / 255.0
    tokens = [
        np.einsum("hwc,hwcd->d", x[row : row + size, column : column + size], kernel)
        for row in range(0, image.shape[0], size)
        for column in range(0, image.shape[1], size)
    ]
    x = np.stack(tokens) + np.asarray(params["patches"].get("bias", 0.0))
    if "class_token" in params:
        x = np.concatenate([np.asarray(params["class_token"])[None], x])
    x = x + np.asarray(params["position_embeddings"])
    if "before_norm" in params:
        x = reference.layer_norm(x, epsilon, **params["before_norm"])
    for layer in range(len(params["layers"]["query"]["kernel"])):
        one = jax.tree.map(lambda leaf, layer=layer: leaf[layer], params["layers"])
        normed = reference.layer_norm(x, epsilon, **one["attention_norm"])
        parts = (reference.dense(one[name], normed) for name in ("query", "key", "value"))
        x = x + reference.dense(one["attention_output"], reference.attention(*parts, len(x), heads))
        normed = reference.layer_norm(x, epsilon, **one["mlp_norm"])
        x = x + reference.mlp(one, normed, ACTIVATE[activation])
    return reference.layer_norm(x, epsilon, **params["norm"])


@pytest.mark.parametrize(
    ("class_token", "head", "activation", "others"),
    [
        (True, "first", "gelu", {}),
        (False, "mean", "gelu_tanh", {"init": "siglip"}),
        # CLIP's.
        (True, "flatten", "quick_gelu", {"patch_bias": False, "norm_before": True, "init": "clip"}),
    ],
)
def test_equals_the_loop(class_token, head, activation, others, tower, random_variables):
    assert ACTIVATE.keys() == ACTIVATIONS.keys()
    options = {"class_token": class_token, "activation": activation, **others, **SIZES}
    made = tower("vit", head={"name": head}, **options)
    params, state = random_variables(made, {"image": IMAGES}, scale=0.4)
    assert ("bias" in params["encoder"]["patches"]) == others.get("patch_bias", True)
    assert ("before_norm" in params["encoder"]) == ("norm_before" in others)
    vectors = jax.jit(made.apply)(params, state, {"image": IMAGES})[0].vector
    for vector, image in zip(vectors, IMAGES, strict=True):
        tokens = encode(image, params["encoder"], 2, activation)
        assert tokens.shape == (6 + class_token, 12)
        pool = {"first": lambda x: x[0], "mean": lambda x: x.mean(0), "flatten": np.ravel}
        np.testing.assert_allclose(vector, pool[head](tokens), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_remat_and_unroll_change_memory_but_no_gradient(tower, random_variables):
    plain = tower("vit", dropout=0.3, **SIZES)
    params, state = random_variables(plain, {"image": IMAGES}, scale=0.3)

    def gradient(**options):
        made = tower("vit", dropout=0.3, **options, **SIZES)

        def loss(params, images):
            key, inputs = jax.random.key(3), {"image": images}
            embedding, _ = made.apply(params, state, inputs, train=True, key=key)
            return jnp.sum(jnp.sin(embedding.vector))

        # Layers dwarf the images and parameters.
        many = np.tile(IMAGES, (50, 1, 1, 1))
        compiled = jax.jit(jax.grad(loss)).lower(params, many).compile()
        memory.append(compiled.memory_analysis().temp_size_in_bytes)
        return compiled(params, many)

    memory: list[int] = []
    expected = gradient()
    for options in (
        {"remat": True, "remat_policy": "dots_saveable"},
        {"remat": True, "remat_policy": "dots_with_no_batch_dims_saveable"},
        {"remat": True},
    ):
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4),
            gradient(**options),
            expected,
        )
    assert memory == sorted(memory, reverse=True)
    assert memory[3] < 0.9 * memory[2] < 0.8 * memory[1] < 0.7 * memory[0], memory
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4),
        gradient(remat=True, unroll=True),
        expected,
    )


class Stack(nn.Module):
    """Four layers whose last one drops half of its branches."""

    remat: bool = False

    @nn.compact
    def __call__(self, x):
        spec = LayerSpec(2, 4, True, "gelu", 1e-6, causal=False, dtype=jnp.float32)
        return run_layers(
            spec, x, None, depth=4, dropout=0.0, name="layers", remat=self.remat,
            remat_policy=STORE_NOTHING, unroll=False, drop_path=0.5,
        )  # fmt: skip


@pytest.mark.parametrize("remat", [False, True])
def test_branches_are_dropped_by_a_rate_that_rises_with_the_layer(remat):
    """Branch k of eight adds 1 to coordinate k, so the output says which ones were kept."""
    stack, x = Stack(remat), jnp.zeros((6000, 3, 8))
    rngs = {name: jax.random.key(seed) for seed, name in enumerate(("params", "dropout"))}
    params = jax.tree.map(jnp.zeros_like, stack.init(rngs, x[:1]))
    for branch, name in enumerate(("attention_output", "mlp_output")):
        params["params"]["layers"][name]["bias"] = jnp.eye(8)[branch::2]
    found = np.asarray(jax.jit(stack.apply)(params, x, rngs=rngs))
    assert (found == found[:, :1]).all()  # All tokens of an item together.
    found, rates = found[:, 0], np.repeat([0, 1 / 6, 1 / 3, 1 / 2], 2)
    kept = found > 0
    np.testing.assert_allclose(found, kept / (1 - rates), rtol=1e-6)
    np.testing.assert_allclose(1 - kept.mean(axis=0), rates, atol=0.025)  # Four deviations.
    np.testing.assert_allclose(found.mean(axis=0), 1, atol=0.05)
    assert np.abs(np.corrcoef(kept[:, 2:].T) - np.eye(6)).max() < 0.06


def test_branches_are_dropped_only_in_training(tower, random_variables):
    plain, made = (tower("vit", drop_path=rate, **SIZES) for rate in (0.0, 0.5))
    params, state = random_variables(plain, {"image": IMAGES}, scale=0.4)
    expected, found = (each.apply(params, state, {"image": IMAGES})[0] for each in (plain, made))
    np.testing.assert_array_equal(found.vector, expected.vector)
    train = jax.jit(
        lambda key: made.apply(params, state, {"image": IMAGES}, train=True, key=key)[0].vector
    )
    one, same, other = (train(jax.random.key(seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


@pytest.mark.slow
def test_training_from_frozen_features_equals_training_from_pictures(tower, random_variables):
    made = tower("vit", head={"name": "attention"}, projection=5, **SIZES)
    params, state = random_variables(made, {"image": IMAGES})
    features = made.frozen_features(params, state, {"image": IMAGES})
    assert features["image_features"].shape == (3, 7, 12)
    found, expected = (made.apply(params, state, each)[0] for each in (features, {"image": IMAGES}))
    np.testing.assert_allclose(found.vector, expected.vector, atol=1e-5)


def test_bfloat16_stays_close(tower, random_variables):
    exact = tower("vit", **SIZES)
    params, state = random_variables(exact, {"image": IMAGES})
    made = tower("vit", dtype="bfloat16", **SIZES)
    found, expected = (
        jax.jit(each.apply)(params, state, {"image": IMAGES})[0].vector for each in (made, exact)
    )
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, expected, atol=0.05 * np.abs(expected).max())


def test_errors_name_the_remedy(tower, random_variables):
    made = tower("vit", **SIZES)
    params, state = random_variables(made, {"image": IMAGES})
    with pytest.raises(UserError, match=r"6 x 8 pixels .*size to a multiple of .*patch=3"):
        made.apply(params, state, {"image": IMAGES[:, :, :8]})
    with pytest.raises(UserError, match="6 x 6 pixels make 5 tokens, .* positions for 7; set"):
        made.apply(params, state, {"image": IMAGES[:, :, :6]})
    with pytest.raises(UserError, match="activation"):
        tower("vit", activation="relu", **SIZES)
    with pytest.raises(UserError, match="remat_policy=dots_saveable, .*: set its remat to True"):
        random_variables(tower("vit", remat_policy="dots_saveable", **SIZES), {"image": IMAGES})

"""Packed images give the values and gradients of separate ones, in an array without padding."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xmodal.models.encoders import efficientnet, packing


def _normal(*shape):
    return jnp.asarray(np.random.default_rng(0).normal(size=shape), jnp.float32)


def test_consecutive_images_share_the_channels():
    x = _normal(6, 4, 5, 3)
    packed = packing.pack(x, 2)
    assert packed.shape == (3, 4, 5, 2, 3)
    assert [packing.count_images(each) for each in (packed, x)] == [2, 1]
    np.testing.assert_array_equal(packed[1, :, :, 1], x[3])
    np.testing.assert_array_equal(packing.unpack(packed), x)
    assert packing.pack(x, 1) is x is packing.unpack(x)


@pytest.mark.parametrize(
    ("images", "batch", "devices", "fitting"),
    [
        (4, 2048, 32, 4),
        (4, 64, 32, 2),
        (4, 96, 32, 1),
        (4, 6, 1, 2),
        (4, 40, 32, 1),
        (4, 1, 8, 1),
        (4, jax.export.symbolic_shape("items")[0], 1, 1),
    ],
)
def test_every_device_packs_its_own_images(images, batch, devices, fitting):
    assert packing.fit(images, batch, devices) == fitting


def test_only_tpus_pack_unless_it_is_said():
    assert [packing.choose(None, name) for name in ("tpu", "gpu", "cpu")] == [4, 1, 1]
    assert [packing.choose(2, "cpu"), packing.choose(1, "tpu")] == [2, 1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "stride", "product"),
    [(1, 1, False), (1, 1, True), (3, 1, True), (3, 2, False)],
)
def test_convolution_equals_flax(size, stride, product):
    x = _normal(6, 7, 8, 3)
    plain = nn.Conv(5, (size, size), strides=stride, padding="SAME", use_bias=False)
    ours = packing.Conv(5, size, nn.initializers.ones, jnp.float32, stride, product)
    variables = plain.init(jax.random.key(0), x)
    made = ours.init(jax.random.key(0), packing.pack(x, 2))
    assert jax.tree.map(jnp.shape, made) == jax.tree.map(jnp.shape, variables)

    def gradients(apply):
        return jax.value_and_grad(lambda *both: jnp.sum(jnp.sin(apply(*both))), (0, 1))(
            variables, x
        )

    expected = gradients(plain.apply)
    for images in (1, 2, 3):
        packed = gradients(lambda v, x, p=images: ours.apply(v, packing.pack(x, p))[0])
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), packed, expected
        )


@pytest.mark.parametrize("images", [1, 2])
@pytest.mark.parametrize("product", [False, True])
def test_means_are_estimated_from_the_input(product, images):
    x = packing.pack(_normal(4, 5, 8, 3), images)
    conv = packing.Conv(6, 1, nn.initializers.normal(), jnp.float32, 1, product)
    variables = conv.init(jax.random.key(0), x)
    y, estimate = conv.apply(variables, x, packing.estimate_mean(x))
    assert estimate.shape == (4 // images, 1, 1, *y.shape[3:])
    middle = jnp.mean(y[:, 2:3], axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(estimate, middle, atol=1e-6)
    _, estimate = conv.apply(variables, x, jnp.mean(x, axis=tuple(range(x.ndim - 1))))
    np.testing.assert_allclose(estimate, jnp.mean(y, axis=tuple(range(y.ndim - 1))), atol=1e-6)
    assert conv.apply(variables, x)[1] is None


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 2])
def test_a_packed_encoder_equals_plain_autodiff(devices, monkeypatch, random_variables, tower):
    """Values, running statistics, dropped branches and gradients; also per-device statistics."""
    monkeypatch.setattr(efficientnet, "STAGES", efficientnet.STAGES[:3])
    images = {"image": np.random.default_rng(1).integers(0, 256, (8, 24, 24, 3), np.uint8)}
    options = {
        "width": 0.25, "depth": 1.0, "drop_connect": 0.5, "depthwise": "convolution",
        "statistics": "per_device", "devices": devices,
    }  # fmt: skip
    plain, packed = (tower("efficientnet", pack=number, **options) for number in (1, 4))
    params, state = random_variables(plain, images)
    jax.tree.map(
        lambda a, b: np.testing.assert_array_equal(a.shape, b.shape),
        (params, state),
        random_variables(packed, images),
    )

    def step(made):
        def loss(params):
            key = jax.random.key(0)
            embedding, new_state = made.apply(params, state, images, train=True, key=key)
            return jnp.sum(jnp.sin(embedding.vector)), (embedding.vector, new_state)

        return jax.jit(jax.value_and_grad(loss, has_aux=True))

    expected, actual = (step(made)(params) for made in (plain, packed))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4), actual, expected
    )
    # Four images per array on one device, and on two.
    assert "tensor<2x12x12x4x8x" in step(packed).lower(params).as_text()

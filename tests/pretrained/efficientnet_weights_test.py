import jax
import numpy as np
import parity
import pytest

from xmodal.core.errors import UserError


def _keras(name, size):
    """A model with random weights, including the batch norms, and without drop connect."""
    keras = pytest.importorskip("keras")
    keras.utils.set_random_seed(0)
    builder = getattr(keras.applications, f"EfficientNet{name.upper()}")
    model = builder(include_top=False, weights=None, input_shape=(size, size, 3), pooling="avg")
    return parity.random_norms(keras, model)


def _keras_apply(model, images, training):
    """Keras scales by 1/255 but, with random weights, leaves out the ImageNet statistics."""
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    pixels = 255 * ((images / 255 - mean) / std)
    return np.asarray(model(pixels.astype(np.float32), training=training))


def _convert(model, name):
    flat, report = parity.convert_arrays("efficientnet", parity.keras_arrays(model), name)
    assert all("normalization" in name for name in report.unexpected)
    return flat


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size"), [("b0", 97), ("b4", 64)])
def test_equals_keras_applications(name, size):
    model, images = _keras(name, size), parity.images(2, size)
    flat, expected = _convert(model, name), _keras_apply(model, images, False)
    options = {"variant": name, "depthwise": "convolution"}
    parity.check_dtypes("efficientnet", flat, images, expected, **options)


@pytest.mark.slow
def test_training_pass_equals_keras_applications():
    model, images = _keras("b0", 64), parity.images(6, 64)
    tower = parity.tower("efficientnet", variant="b0", drop_connect=0.0, depthwise="convolution")
    params, state = parity.nest(_convert(model, "b0"))
    expected = _keras_apply(model, images, True)  # also updates the running statistics
    train = jax.jit(lambda p, s, x, key: tower.apply(p, s, {"image": x}, train=True, key=key))
    embedding, new_state = train(params, state, images, jax.random.key(0))
    assert parity.relative(embedding.vector, expected) < 1e-4
    jax.tree.map(
        lambda ours, theirs: np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5),
        new_state,
        parity.nest(_convert(model, "b0"))[1],
    )


def test_a_file_with_other_pixel_statistics_is_refused():
    arrays = {"normalization/mean": np.float32([0.5, 0.5, 0.5])}
    with pytest.raises(UserError, match=r"normalization/mean is \[0\.5, 0\.5, 0\.5\]"):
        parity.convert_arrays("efficientnet", arrays, "b0")

import numpy as np
import parity
import pytest


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
def test_equals_keras_applications():
    name, size = "b0", 97
    model, images = _keras(name, size), parity.images(2, size)
    flat, expected = _convert(model, name), _keras_apply(model, images, False)
    options = {"variant": name, "depthwise": "convolution"}
    parity.check_dtypes("efficientnet", flat, images, expected, **options)

import re

import numpy as np
import parity
import pytest

SIZE = 75


def _pixels(images):
    return images / np.float32(127.5) - 1


def _keras():
    keras = pytest.importorskip("keras")
    # Keras continues numbering layers within a process: start in the middle.
    keras.utils.set_random_seed(0)
    keras.layers.Conv2D(1, 1)
    model = keras.applications.InceptionV3(
        include_top=False, weights=None, pooling="avg", input_shape=(SIZE, SIZE, 3)
    )
    return parity.random_norms(keras, model)


@pytest.mark.slow
def test_equals_keras_applications():
    model = _keras()
    images = parity.images(2, SIZE)
    flat, _ = parity.convert_arrays("inception_v3", parity.keras_arrays(model))
    expected = model(_pixels(images), training=False)
    parity.check_dtypes("inception_v3", flat, images, expected)


# TF-slim's names of the convolutions in the order in which it and Keras create them: the number of
# the branch, and the scopes in it. From research/slim/nets/inception_v3.py of tensorflow/models.
_DOUBLE = "0 0a_1x1 1 0a_1x1 0b_1x7 0c_7x1 2 0a_1x1 0b_7x1 0c_1x7 0d_7x1 0e_1x7 3 0b_1x1"
_SLIM = {
    "5b": "0 0a_1x1 1 0a_1x1 0b_5x5 2 0a_1x1 0b_3x3 0c_3x3 3 0b_1x1",
    "5c": "0 0a_1x1 1 0b_1x1 _1_0c_5x5 2 0a_1x1 0b_3x3 0c_3x3 3 0b_1x1",
    "5d": "0 0a_1x1 1 0a_1x1 0b_5x5 2 0a_1x1 0b_3x3 0c_3x3 3 0b_1x1",
    "6a": "0 1a_1x1 1 0a_1x1 0b_3x3 1a_1x1",
    **dict.fromkeys(("6b", "6c", "6d", "6e"), _DOUBLE),
    "7a": "0 0a_1x1 1a_3x3 1 0a_1x1 0b_1x7 0c_7x1 1a_3x3",
    "7b": "0 0a_1x1 1 0a_1x1 0b_1x3 0b_3x1 2 0a_1x1 0b_3x3 0c_1x3 0d_3x1 3 0b_1x1",
    "7c": "0 0a_1x1 1 0a_1x1 0b_1x3 0c_3x1 2 0a_1x1 0b_3x3 0c_1x3 0d_3x1 3 0b_1x1",
}


def _slim_names():
    names = [f"Conv2d_{scope}" for scope in ("1a_3x3", "2a_3x3", "2b_3x3", "3b_1x1", "4a_3x3")]
    for block, scopes in _SLIM.items():
        for scope in scopes.split():
            if "_" not in scope:
                branch = f"Mixed_{block}/Branch_{scope}/"
            else:
                names.append(f"{branch}Conv{'' if scope[0] == '_' else '2d_'}{scope}")
    return names


def test_names_of_slim_are_those_of_the_same_layers():
    model = _keras()
    expected, _ = parity.convert_arrays("inception_v3", parity.keras_arrays(model))
    layers = [layer for layer in model.layers if layer.get_weights()]
    kinds = ("weights",), ("BatchNorm/beta", "BatchNorm/moving_mean", "BatchNorm/moving_variance")
    arrays = {"global_step": np.int64(7), "InceptionV3/Logits/Conv2d_1c_1x1/biases": np.zeros(1001)}
    for found in kinds:
        own = [layer for layer in layers if len(layer.get_weights()) == len(found)]
        own.sort(key=lambda layer: int(re.search(r"(?:_(\d+))?$", layer.name)[1] or 0))
        for name, layer in zip(_slim_names(), own, strict=True):
            for leaf, array in zip(found, layer.get_weights(), strict=True):
                arrays[f"InceptionV3/{name}/{leaf}"] = array
    flat, report = parity.convert_arrays("inception_v3", arrays)
    assert len(report.unexpected) == 1
    parity.assert_equal_arrays(flat, expected)

import json

import numpy as np
import parity
import pytest

from xmodal.pretrained.weight_files import load_source

SIZE = 65


def _keras():
    keras = pytest.importorskip("keras")
    keras.utils.set_random_seed(0)
    model = keras.applications.MobileNetV2(
        include_top=False, weights=None, pooling="avg", input_shape=(SIZE, SIZE, 3)
    )
    return parity.random_norms(keras, model)


def _pixels(images):
    return images / np.float32(127.5) - 1


@pytest.mark.slow
def test_equals_keras_applications(tmp_path):
    model, images = _keras(), parity.images(2, SIZE)
    parity.save_released(model, tmp_path / "mobilenet_v2.h5")
    arrays = load_source(tmp_path / "mobilenet_v2.h5").arrays
    flat, _ = parity.convert_arrays("mobilenet_v2", arrays)
    expected = model(_pixels(images), training=False)
    assert expected.shape == (2, 1280)
    parity.check_dtypes("mobilenet_v2", flat, images, expected)


def _published_forward(arrays, images):
    """The layers listed in `meta_json`, on pixels as expected by the .tflite file.

    `meta_json` has the zero point 127 of the quantized input, which must be an integer; the
    network was trained, and its activations were measured, on `_pixels`.
    """
    tf = pytest.importorskip("tensorflow")
    meta = json.loads(str(arrays["meta_json"]))
    x = _pixels(images)
    for layer in meta["layers"][:-1]:
        name, kernel = layer["name"], arrays[f"{layer['name']}/kernel"]
        if name.endswith("/expand"):
            block_input = x
        if layer["kind"] == "depthwise":
            strides = [1, layer["stride"], layer["stride"], 1]
            x = tf.nn.depthwise_conv2d(x, np.swapaxes(kernel, 2, 3), strides, layer["padding"])
        else:
            x = tf.nn.conv2d(x, kernel, layer["stride"], layer["padding"])
        x += arrays[f"{name}/bias"]
        x = tf.nn.relu6(x) if layer["act"] == "relu6" else x
        if name.endswith("/project") and name.split("/")[0] in meta["residual_blocks"]:
            x += block_input
    return tf.reduce_mean(x, [1, 2]).numpy()


@pytest.mark.slow
def test_folded_weights_equal_the_published_layers():
    arrays = load_source(parity.real_file("weights/mobilenet_v2_1.0_224_tf2_float.npz")).arrays
    flat, report = parity.convert_arrays("mobilenet_v2", arrays)
    assert set(report.unexpected) == {"logits/kernel", "logits/bias", "meta_json"}
    images = parity.images(2, 160)
    ours = parity.embed(parity.tower("mobilenet_v2", folded=True), flat, images)
    assert parity.relative(ours, _published_forward(arrays, images)) < 1e-4

import json
import zipfile

import numpy as np
import parity
import PIL.Image
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


def _folded():
    arrays = load_source(parity.real_file("weights/mobilenet_v2_1.0_224_tf2_float.npz")).arrays
    flat, report = parity.convert_arrays("mobilenet_v2", arrays)
    assert set(report.unexpected) == {"logits/kernel", "logits/bias", "meta_json"}
    return arrays, flat


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


def _cosines(left, right):
    norms = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    return np.sum(left * right, axis=1) / norms


@pytest.mark.slow
def test_real_weights_recognize_their_features_from_smaller_pictures():
    """The features were computed at 224 pixels; these pictures have only 160."""
    arrays, flat = _folded()
    stored = np.load(parity.real_file("flickr8k/mobilenet_v2_features.npz"))
    rows = np.random.default_rng(0).choice(len(stored["files"]), 16, replace=False)
    with zipfile.ZipFile(parity.real_file("flickr8k/images_160.zip")) as archive:
        pictures = [PIL.Image.open(archive.open(str(stored["files"][row]))) for row in rows]
        images = [picture.resize((224, 224), PIL.Image.BILINEAR) for picture in pictures]
    images = np.stack([np.asarray(image) for image in images])
    ours = parity.embed(parity.tower("mobilenet_v2", folded=True), flat, images)
    assert parity.relative(ours, _published_forward(arrays, images)) < 1e-4
    features = stored["features"].astype(np.float32)
    assert np.mean(_cosines(ours, features[rows])) > 0.84
    nearest = [np.argmax(_cosines(vector[None], features)) for vector in ours]
    np.testing.assert_array_equal(nearest, rows)

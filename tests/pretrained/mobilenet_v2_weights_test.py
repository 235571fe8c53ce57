import json
import struct
import zipfile

import flatbuffers
import numpy as np
import parity
import PIL.Image
import pytest

from xmodal.models.encoders.mobilenet_v2 import MobileNetV2Config
from xmodal.models.encoders.pixels import normalize
from xmodal.pretrained.mobilenet_v2_weights import describe_mobilenet_v2
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


@pytest.mark.slow
def test_training_pass_equals_keras_applications():
    parity.check_training(
        parity.tower("mobilenet_v2"),
        lambda arrays: parity.convert_arrays("mobilenet_v2", arrays)[0],
        _keras(),
        _pixels,
        parity.images(6, SIZE),
    )


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


def _only(table, number):
    """The only table in a field that is a list of tables."""
    place = table.Vector(table.Offset(4 + 2 * number))
    return flatbuffers.table.Table(table.Bytes, table.Indirect(place))


def _tflite_normalization(content):
    """Mean and standard deviation of the pixels, from the metadata inside a .tflite file.

    Numbers of fields: metadata_schema.fbs of tensorflow/tflite-support.
    """
    schema = pytest.importorskip("tensorflow.lite.python.schema_py_generated")
    model = schema.Model.GetRootAsModel(content, 0)
    entries = [model.Metadata(number) for number in range(model.MetadataLength())]
    entry = next(entry for entry in entries if entry.Name() == b"TFLITE_METADATA")
    buffer = model.Buffers(entry.Buffer()).DataAsNumpy().tobytes()
    root = flatbuffers.table.Table(bytearray(buffer), struct.unpack_from("<I", buffer)[0])
    unit = _only(_only(_only(root, 3), 2), 4)  # subgraph, its input, how that is processed
    kinds = flatbuffers.number_types
    assert unit.Get(kinds.Uint8Flags, unit.Pos + unit.Offset(4)) == 1  # NormalizationOptions
    place = unit.Indirect(unit.Pos + unit.Offset(6))
    options = flatbuffers.table.Table(unit.Bytes, place)
    fields = (options.Offset(4), options.Offset(6))
    return [options.GetVectorAsNumpy(kinds.Float32Flags, field).tolist() for field in fields]


@pytest.mark.parametrize(
    ("name", "zero_point"),
    [("tf2_mobilenet_v2_1.0_224_ptq", 127), ("mobilenet_v2_1.0_224_quant", 128)],
)
def test_published_files_name_the_scaling_of_pixels_that_a_tower_records(name, zero_point):
    content = parity.real_file(f"weights/{name}.tflite").read_bytes()
    mean, deviation = _tflite_normalization(content)
    assert mean == deviation == [127.5]
    archive = {"tf2": "tf2_float", "mob": "qat_float"}[name[:3]]
    source = load_source(parity.real_file(f"weights/mobilenet_v2_1.0_224_{archive}.npz"))
    note = json.loads(str(source.arrays["meta_json"]))["input_quant"]
    assert note["zero_point"] == zero_point
    recorded = describe_mobilenet_v2(source).sides["image"].preprocessing["normalization"]
    assert recorded == MobileNetV2Config().normalization
    pixels = np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1).repeat(3, -1)
    expected = (pixels - np.float32(mean[0])) / np.float32(deviation[0])
    np.testing.assert_allclose(normalize(pixels, recorded), expected, atol=1e-6)
    # The quantized input is the same up to rounding.
    quantized = (pixels.astype(np.float64) - zero_point) * note["scale"]
    assert np.abs(quantized - expected).max() <= 1.01 / 127.5


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

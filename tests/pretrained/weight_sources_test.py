"""Reads every format, as written by the library that uses it."""

import json
import pathlib

import ml_dtypes
import numpy as np
import parity
import pytest
import safetensors.numpy

from xmodal.core.errors import UserError
from xmodal.pretrained.weight_files import load_source

ARRAYS = {
    "conv/kernel": np.arange(12, dtype=np.float32).reshape(3, 4),
    "conv/bias": np.ones(4, np.float16),
    "count": np.int64(7),
}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """Common prefix of the file names of a TensorFlow 1 checkpoint."""
    prefix = str(tmp_path_factory.mktemp("checkpoint") / "model.ckpt")
    parity.save_checkpoint(ARRAYS, prefix)
    return prefix


def assert_read(path, expected=ARRAYS):
    arrays = load_source(path).arrays
    assert set(arrays) == set(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype


def test_tensorflow_checkpoint(checkpoint, tmp_path):
    assert_read(checkpoint)
    assert_read(f"{checkpoint}.data-00000-of-00001")
    for name in ("model", "old"):
        for file in pathlib.Path(checkpoint).parent.glob("model.ckpt.*"):
            (tmp_path / file.name.replace("model", name)).write_bytes(file.read_bytes())
    with pytest.raises(UserError, match=r"has several: model.ckpt.*old.ckpt.*. Name the one"):
        load_source(tmp_path)


def test_saved_model_has_the_names_of_its_variables(tmp_path):
    import tensorflow as tf

    module = tf.Module()
    module.parts = [tf.Variable(ARRAYS["conv/kernel"], name="conv/kernel")]
    module.do_lower_case = tf.Variable(True, trainable=False)
    tf.saved_model.save(module, str(tmp_path / "hub"))
    (tmp_path / "hub/assets").mkdir(exist_ok=True)
    (tmp_path / "hub/assets/vocab.txt").write_text("a\nb\n")
    source = load_source(tmp_path / "hub")
    assert source.files == {"vocab.txt": "a\nb\n"}
    expected = {"conv/kernel": ARRAYS["conv/kernel"], "do_lower_case": np.bool_(True)}
    assert_read(tmp_path / "hub", expected)
    assert_read(tmp_path / "hub/saved_model.pb", expected)
    (tmp_path / "hub/variables/variables.data-00000-of-00001").unlink()
    with pytest.raises(UserError, match="variables.index cannot be read"):
        load_source(tmp_path / "hub")


def test_safetensors_and_what_lies_beside(tmp_path):
    file = tmp_path / "model.safetensors"
    plain = {name: np.asarray(array) for name, array in ARRAYS.items()}
    safetensors.numpy.save_file(plain, file)
    (tmp_path / "config.json").write_text(json.dumps({"hidden_size": 4}))
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling/config.json").write_text("{}")
    assert_read(tmp_path)
    assert_read(file)
    assert load_source(file).files == {
        "config.json": {"hidden_size": 4},
        "1_Pooling/config.json": {},
    }
    (tmp_path / "config.json").write_text('{"hidden_')
    with pytest.raises(UserError, match="config.json is damaged"):
        load_source(tmp_path)
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(UserError, match="model.safetensors cannot be read .*: download it again"):
        load_source(tmp_path)


def test_npz(tmp_path):
    np.savez(tmp_path / "model.npz", **ARRAYS)
    assert_read(tmp_path)
    half = np.float32([1.5, -2]).astype(ml_dtypes.bfloat16)
    np.savez(tmp_path / "a.npz", half=half)  # NumPy stores two bytes without a meaning.
    assert_read(tmp_path / "a.npz", {"half": half})


def test_keras(tmp_path):
    import keras

    layers = keras.layers
    stem = layers.Conv2D(2, 3, name="stem", bias_initializer="ones")
    model = keras.Sequential([keras.Input((5, 5, 3)), stem, layers.BatchNormalization(name="bn")])
    model.save(tmp_path / "model.h5")
    values = {f"bn/{weight.name}": np.asarray(weight) for weight in model.layers[1].weights}
    values |= {"stem/kernel": np.asarray(stem.kernel), "stem/bias": np.asarray(stem.bias)}
    assert_read(tmp_path / "model.h5", values)


def test_shards(tmp_path):
    names = [f"model-{n:05}-of-00002.safetensors" for n in (1, 2)]
    parts = {"conv/kernel": names[0], "conv/bias": names[1]}
    for array, name in parts.items():
        safetensors.numpy.save_file({array: ARRAYS[array]}, tmp_path / name)
    table = tmp_path / "model.safetensors.index.json"
    table.write_text(json.dumps({"weight_map": parts}))
    assert_read(tmp_path, {name: ARRAYS[name] for name in parts})
    (tmp_path / names[1]).unlink()
    with pytest.raises(UserError, match="index.json cannot be read .*model-00002"):
        load_source(tmp_path)


def test_what_is_not_known_is_named(tmp_path):
    (tmp_path / "notes.gguf").write_bytes(b"x")
    for path in (tmp_path, tmp_path / "notes.gguf", tmp_path / "none"):
        with pytest.raises(UserError, match="There are no weights at .* in a known format: a Tens"):
            load_source(path)

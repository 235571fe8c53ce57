"""From a published file to a folder with a tower, for every converter."""

import jax
import numpy as np
import parity
import pytest

from xmodal.core.errors import UserError
from xmodal.models import ENCODERS, make_tower
from xmodal.models.encoders import efficientnet, resnet
from xmodal.pretrained import cmcm, cvse, image_towers, model_converters, pvse, variants, vsepp
from xmodal.pretrained.converters import CONVERTERS, convert
from xmodal.pretrained.folder import read_description, read_weights, save_tower
from xmodal.pretrained.weight_files import WeightSource


def fold(source, tower, folder, variant=""):
    """Converts, saves, and compares the arrays with the tower's; returns the description."""
    arrays, description, report = convert(tower, source, variant)
    assert report.missing == {}
    save_tower(folder, arrays, description, report)
    assert read_description(folder) == description
    ids = np.ones((1, 2), np.int32)
    inputs = {"image": np.zeros((1, 96, 96, 3), np.uint8), "text_ids": ids, "text_mask": ids}
    made = make_tower("tower", description.side())
    shapes = jax.eval_shape(made.init, jax.random.key(0), inputs)
    params, state = parity.nest(read_weights(folder))
    assert jax.tree.map(np.shape, (params, state)) == jax.tree.map(lambda x: x.shape, shapes)
    assert made.module.encoder.config.normalization == description.preprocessing["normalization"]
    return description


def test_every_converter_makes_a_tower():
    assert set(CONVERTERS) <= set(ENCODERS)


def test_the_names_of_variants_are_those_that_converters_read():
    assert variants.TOWERS.keys() == CONVERTERS.keys()
    assert variants.MODELS.keys() == model_converters.MODELS.keys()
    for name, module in {"efficientnet": efficientnet, "resnet": resnet}.items():
        assert variants.TOWERS[name] == tuple(module.VARIANTS)
    for name, module in {"cmcm": cmcm, "cvse": cvse, "pvse": pvse, "vsepp": vsepp}.items():
        assert variants.MODELS[name] == tuple(module.VARIANTS)


@pytest.mark.slow
@pytest.mark.parametrize("end", [".h5", ".weights.h5", ".keras"])
def test_keras_files(tmp_path, end):
    keras = pytest.importorskip("keras")
    model = keras.applications.MobileNetV2(weights=None, alpha=0.35, input_shape=(32, 32, 3))
    path = tmp_path / f"model{end}"
    (model.save_weights if end == ".weights.h5" else model.save)(path)
    description = fold(path, "mobilenet_v2", tmp_path / "tower")
    assert description.encoder == {"name": "mobilenet_v2", "width": 0.35}


@pytest.mark.slow
def test_an_efficientnet_is_the_variant_asked_for_or_refused(tmp_path):
    keras = pytest.importorskip("keras")
    path = tmp_path / "b0.weights.h5"
    keras.applications.EfficientNetB0(weights=None, input_shape=(32, 32, 3)).save_weights(path)
    description = fold(path, "efficientnet", tmp_path / "tower", "b0")
    assert description.encoder == {"name": "efficientnet", "variant": "b0"}
    with pytest.raises(UserError, match="missing.*\n.*stage1_block2"):
        convert("efficientnet", path, "b1")
    with pytest.raises(
        UserError, match="--variant='' is not a variant of efficientnet; known: b0, b1"
    ):
        convert("efficientnet", path)
    with pytest.raises(UserError, match="is not a MobileNetV2: it has no block_16_project/kernel"):
        convert("mobilenet_v2", path)
    with pytest.raises(UserError, match="has 81 convolutions, a ResNet 53 .depth 50., 104 .depth"):
        convert("resnet", path, "keras")


@pytest.mark.parametrize(("convs", "depth"), [(53, 50), (54, 50), (104, 101), (155, 152)])
def test_the_depth_of_a_resnet_is_counted(convs, depth):
    arrays = {f"conv{n}/weights": np.zeros((1, 1, 1, 1)) for n in range(convs)}
    arrays |= {f"{name}/Momentum": array for name, array in arrays.items()}
    description = image_towers.describe_resnet(WeightSource("x", arrays, {}), "slim")
    assert description.encoder == {"name": "resnet", "depth": depth, "variant": "slim"}
    assert description.preprocessing == {"normalization": "inception", "size": 224}


def test_a_slim_checkpoint_with_a_mean_of_pixels_wants_it_subtracted():
    arrays = {f"resnet_v1_50/c{n}/weights": np.zeros((1, 1, 1, 1)) for n in range(54)}
    arrays["resnet_v1_50/mean_rgb"] = np.zeros(3)
    description = image_towers.describe_resnet(WeightSource("x", arrays, {}), "slim")
    assert description.preprocessing == {"normalization": "vgg", "size": 224}
    assert make_tower("tower", description.side()).module.encoder.config.normalization == "vgg"


@pytest.mark.parametrize("channels", [112, 448, 300])
def test_the_width_of_a_mobilenet(channels):
    source = WeightSource("x", {"block_16_project/kernel": np.zeros((1, 1, 2, channels))}, {})
    if channels == 300:
        with pytest.raises(
            UserError, match="300 channels, which is not a width of MobileNetV2 among"
        ):
            image_towers.describe_mobilenet_v2(source, "")
        return
    description = image_towers.describe_mobilenet_v2(source, "")
    assert description.encoder == {"name": "mobilenet_v2", "width": {112: 0.35, 448: 1.4}[channels]}


def test_the_folded_mobilenet(tmp_path):
    path = parity.real_file("weights/mobilenet_v2_1.0_224_tf2_float.npz")
    description = fold(path, "mobilenet_v2", tmp_path / "tower")
    assert description.encoder == {"name": "mobilenet_v2", "width": 1.0, "folded": True}


def test_word_vectors(tmp_path):
    (tmp_path / "glove.txt").write_text("the 1 2\ncat -1 0.5\n")
    arrays, description, report = convert("words", tmp_path / "glove.txt")
    save_tower(tmp_path / "tower", arrays, description, report)
    assert read_description(tmp_path / "tower") == description
    assert description.files == {"vocab.txt": b"the\ncat\n"}
    tower = make_tower("tower", description.side())
    inputs = {"text_ids": np.int32([[0, 1, 0]]), "text_mask": np.int32([[1, 1, 0]])}
    embedding, _ = tower.apply(*parity.nest(read_weights(tmp_path / "tower")), inputs)
    np.testing.assert_allclose(embedding.vector, [[0, 1.25]])

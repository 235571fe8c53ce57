"""From a published file to a folder with a tower, for every converter."""

import jax
import numpy as np
import parity
import pytest

from xmodal.core.errors import UserError
from xmodal.models import make_tower
from xmodal.models.encoders import efficientnet, resnet
from xmodal.pretrained import cmcm, cvse, pvse, resnet_weights, variants, vsepp
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


@pytest.mark.slow
@pytest.mark.parametrize("end", [".h5", ".weights.h5", ".keras"])
def test_keras_files(tmp_path, end):
    keras = pytest.importorskip("keras")
    model = keras.applications.MobileNetV2(weights=None, alpha=0.35, input_shape=(32, 32, 3))
    path = tmp_path / f"model{end}"
    (model.save_weights if end == ".weights.h5" else model.save)(path)
    description = fold(path, "mobilenet_v2", tmp_path / "tower")
    assert description.encoder == {"name": "mobilenet_v2", "width": 0.35}


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


def test_the_names_of_variants_are_those_that_converters_read():
    assert variants.TOWERS.keys() | variants.MODELS.keys() == CONVERTERS.keys()
    for name, module in {"efficientnet": efficientnet, "resnet": resnet}.items():
        assert variants.TOWERS[name] == tuple(module.VARIANTS)
    for name, module in {"cmcm": cmcm, "cvse": cvse, "pvse": pvse, "vsepp": vsepp}.items():
        assert variants.MODELS[name] == tuple(module.VARIANTS)


def test_an_efficientnet_is_the_variant_asked_for_or_refused(tmp_path):
    keras = pytest.importorskip("keras")
    path = tmp_path / "b0.weights.h5"
    keras.applications.EfficientNetB0(weights=None, input_shape=(32, 32, 3)).save_weights(path)
    description = fold(path, "efficientnet", tmp_path / "tower", "b0")
    assert description.encoder == {"name": "efficientnet", "variant": "b0"}
    with pytest.raises(UserError, match="missing.*\n.*stage1_block2"):
        convert("efficientnet", path, "b1")
    with pytest.raises(UserError, match="--variant='' is not a variant of efficientnet; known: b0"):
        convert("efficientnet", path)


@pytest.mark.parametrize(("convs", "depth"), [(53, 50), (54, 50), (104, 101), (155, 152)])
def test_the_depth_of_a_resnet_is_counted(convs, depth):
    arrays = {f"conv{n}/weights": np.zeros((1, 1, 1, 1)) for n in range(convs)}
    arrays |= {f"{name}/Momentum": array for name, array in arrays.items()}
    arrays["resnet_v1_50/mean_rgb"] = np.zeros(3)
    source = WeightSource("x", arrays, {}, variant="slim")
    description = resnet_weights.describe_resnet(source).sides["image"]
    assert description.encoder["depth"] == depth
    assert description.preprocessing == {"normalization": "vgg", "size": 224}

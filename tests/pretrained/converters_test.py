"""From a published file to a folder that training accepts, for every kind of tower."""

import pathlib

import numpy as np
import pytest
from xmodal.training.init_towers import check_towers

from xmodal.config import UserError
from xmodal.models import TOWERS
from xmodal.pretrained import image_towers
from xmodal.pretrained.converters import CONVERTERS, convert
from xmodal.pretrained.folder import save_tower
from xmodal.pretrained.report import Report
from xmodal.pretrained.sources import Source

WEIGHTS = pathlib.Path(__file__).parents[3] / "shared/data/weights"


def fold(source, tower, folder, variant=""):
    """Converts, saves and asks training whether it agrees; returns the description."""
    arrays, description, report = convert(tower, source, variant)
    assert report.missing == {}
    save_tower(folder, arrays, description, report)
    side = "text" if tower in ("bert", "bag_of_words") else "image"
    model = {side: {"name": tower, **description.keywords}}
    assert check_towers({side: str(folder)}, model) == {side: description}
    pixels = description.preprocessing.get("normalization")
    if pixels is not None:
        model["image"]["normalization"] = "unit"
        with pytest.raises(UserError, match=f"wants normalization='{pixels}', but config.model.im"):
            check_towers({"image": str(folder)}, model)
    return description


def test_every_converter_makes_a_tower():
    assert set(CONVERTERS) <= set(TOWERS)


@pytest.mark.parametrize("end", [".h5", ".weights.h5", ".keras"])
def test_keras_files(tmp_path, end):
    keras = pytest.importorskip("keras")
    model = keras.applications.MobileNetV2(weights=None, alpha=0.35, input_shape=(32, 32, 3))
    path = tmp_path / f"model{end}"
    (model.save_weights if end == ".weights.h5" else model.save)(path)
    description = fold(path, "mobilenet_v2", tmp_path / "tower")
    assert description.keywords == {"width": 0.35}


def test_an_efficientnet_is_the_variant_asked_for_or_refused(tmp_path):
    keras = pytest.importorskip("keras")
    path = tmp_path / "b0.weights.h5"
    keras.applications.EfficientNetB0(weights=None, input_shape=(32, 32, 3)).save_weights(path)
    assert fold(path, "efficientnet", tmp_path / "tower", "b0").keywords == {"variant": "b0"}
    with pytest.raises(UserError, match="missing.*\n.*stage1_block2"):
        convert("efficientnet", path, "b1")
    with pytest.raises(UserError, match="--variant='' is none of efficientnet; known: b0, b1"):
        convert("efficientnet", path)
    with pytest.raises(UserError, match="holds no MobileNetV2: it has no block_16_project/kernel"):
        convert("mobilenet_v2", path)
    with pytest.raises(UserError, match="has 81 convolutions, a ResNet 53 .depth 50., 104 .depth"):
        convert("resnet", path, "keras")


@pytest.mark.parametrize(("convs", "depth"), [(53, 50), (54, 50), (104, 101), (155, 152)])
def test_the_depth_of_a_resnet_is_counted(convs, depth):
    arrays = {f"conv{n}/weights": np.zeros((1, 1, 1, 1)) for n in range(convs)}
    arrays |= {f"{name}/Momentum": array for name, array in arrays.items()}
    description = image_towers.describe_resnet(Source("x", arrays, {}), "slim")
    assert description.keywords == {"depth": depth, "variant": "slim"}
    assert description.preprocessing == {"normalization": "inception"}


def test_a_slim_checkpoint_with_a_mean_of_pixels_wants_it_subtracted(tmp_path):
    arrays = {f"resnet_v1_50/c{n}/weights": np.zeros((1, 1, 1, 1)) for n in range(54)}
    arrays["resnet_v1_50/mean_rgb"] = np.zeros(3)
    description = image_towers.describe_resnet(Source("x", arrays, {}), "slim")
    assert description.preprocessing == {"normalization": "vgg"}
    save_tower(tmp_path / "tower", {}, description, Report({}, {}, [], {}))
    model = {"image": {"name": "resnet", "depth": 50, "variant": "slim"}}
    with pytest.raises(UserError, match="normalization='vgg', but .*normalization is None"):
        check_towers({"image": str(tmp_path / "tower")}, model)
    model["image"]["normalization"] = "vgg"
    check_towers({"image": str(tmp_path / "tower")}, model)


@pytest.mark.parametrize("channels", [112, 448, 300])
def test_the_width_of_a_mobilenet(channels):
    source = Source("x", {"block_16_project/kernel": np.zeros((1, 1, 2, channels))}, {})
    if channels == 300:
        with pytest.raises(UserError, match="300 channels, which is no width of MobileNetV2 among"):
            image_towers.describe_mobilenet_v2(source, "")
        return
    description = image_towers.describe_mobilenet_v2(source, "")
    assert description.keywords == {"width": {112: 0.35, 448: 1.4}[channels]}


def test_the_folded_mobilenet(tmp_path):
    path = WEIGHTS / "mobilenet_v2_1.0_224_tf2_float.npz"
    if not path.exists():
        pytest.skip("the MobileNetV2 weights are not in ../shared/data")
    description = fold(path, "mobilenet_v2", tmp_path / "tower")
    assert description.keywords == {"width": 1.0, "batch_norm": "folded"}


def test_word_vectors(tmp_path):
    (tmp_path / "glove.txt").write_text("the 1 2\ncat -1 0.5\n")
    description = fold(tmp_path / "glove.txt", "bag_of_words", tmp_path / "tower")
    assert description.files == {"vocab.txt": "the\ncat\n"}
    assert description.keywords["vocab_size"] == 2

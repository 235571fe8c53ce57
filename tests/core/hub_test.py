"""Repositories of the Hub are downloaded once, without what is not needed."""

import pathlib
import sys

import pytest
from huggingface_hub import constants

from tests.fake_hub import fake_hub as fake_hub
from xmodal.core import hub
from xmodal.core.errors import UserError

FILES = {
    "config.json": b"{}",
    "model.safetensors": b"weights",
    "pytorch_model.bin": b"the same weights",
    "flax_model.msgpack": b"the same weights",
    "onnx/model.onnx": b"the same weights",
    "text/tower.json": b"{ }",
    "text/weights.safetensors": b"text",
}


def names_in(folder):
    root = pathlib.Path(folder)
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def test_copies_of_the_weights_are_left_out(fake_hub):
    fake_hub.repositories["lab/clip"] = dict(FILES)
    folder = hub.locate("hf://lab/clip")
    wanted = ["config.json", "model.safetensors", "text/tower.json", "text/weights.safetensors"]
    assert names_in(folder) == sorted(fake_hub.downloads) == wanted
    assert hub.locate("runs/mine") == "runs/mine"


def test_weights_without_safetensors_are_downloaded_as_they_are(fake_hub):
    fake_hub.repositories["lab/old"] = {"config.json": b"{}", "pytorch_model.bin": b"weights"}
    assert names_in(hub.locate("hf://lab/old")) == ["config.json", "pytorch_model.bin"]


def test_a_folder_of_a_revision_is_downloaded_alone(fake_hub):
    fake_hub.repositories["lab/clip"] = dict(FILES)
    folder = pathlib.Path(hub.locate("hf://lab/clip@v1/text"))
    assert names_in(folder) == ["tower.json", "weights.safetensors"]
    assert "model.safetensors" not in fake_hub.downloads
    assert any("/revision/v1" in path for _, path in fake_hub.requests)
    with pytest.raises(UserError, match="hf://lab/clip/image does not exist: .* no image"):
        hub.locate("hf://lab/clip/image")


def test_a_cached_repository_needs_no_network(fake_hub, monkeypatch):
    fake_hub.repositories["lab/clip"] = dict(FILES)
    folder = hub.locate("hf://lab/clip")
    hub.locate.cache_clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert hub.locate("hf://lab/clip") == folder
    with pytest.raises(UserError, match="hf://lab/other cannot be reached .* local cache"):
        hub.locate("hf://lab/other")


def test_problems_end_in_one_sentence(fake_hub, monkeypatch):
    with pytest.raises(UserError, match=r"hf://lab/missing cannot be .*404.*hf auth login"):
        hub.locate("hf://lab/missing")
    with pytest.raises(UserError, match="hf://clip is not hf://OWNER/NAME"):
        hub.locate("hf://clip")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UserError, match=r'hf://lab/b needs huggingface_hub: pip install "xmodal\['):
        hub.locate("hf://lab/b")

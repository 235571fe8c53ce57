"""Models on the Hub stand where folders of weights do."""

import pathlib

import numpy as np
import pytest
from converted_models import MODELS, save_converted
from tiny_dual_encoder import make_texts, save_run

import xmodal
from configs import clip
from tests.fake_hub import fake_hub as fake_hub
from xmodal.core.config import read
from xmodal.pretrained.converters import convert
from xmodal.train.inherit import inherit
from xmodal.train.initialization.from_towers import named_folders, with_local_folders
from xmodal.train.sections import InitConfig


@pytest.fixture
def uploaded(fake_hub, tmp_path):
    """Uploads a folder as a repository."""

    def upload(repository, folder):
        root = pathlib.Path(folder)
        fake_hub.repositories[repository] = {
            path.relative_to(root).as_posix(): path.read_bytes()
            for path in root.rglob("*")
            if path.is_file()
        }
        return root

    return upload


def test_models_towers_and_runs_are_loaded(uploaded, tmp_path):
    model = uploaded("lab/model", save_converted(tmp_path / "model", MODELS["pcme"]))
    run, texts = uploaded("lab/run", save_run(str(tmp_path / "run"))), make_texts(3)
    for source, folder in (
        ("hf://lab/model", model),
        ("hf://lab/model@main/text", model / "text"),
        ("hf://lab/run", run),
    ):
        found, expected = (np.asarray(xmodal.load(x).embed_texts(texts)) for x in (source, folder))
        np.testing.assert_array_equal(found, expected)
    assert repr(xmodal.load("hf://lab/model")).startswith("<xmodal.Model hf://lab/model: ")
    index = xmodal.Index.build(xmodal.load("hf://lab/model"), captions=texts)
    index.save(tmp_path / "index")
    assert xmodal.Index.open(tmp_path / "index").query(texts[0])[0].item == texts[0]


def test_weights_are_converted(fake_hub):
    fake_hub.repositories["lab/vectors"] = {"tiny.txt": b"cat 0.5 1.0\ndog 1.5 -2.0\n"}
    arrays, *_ = convert("words", "hf://lab/vectors/tiny.txt")
    assert arrays["params/encoder/table"][-2:].tolist() == [[0.5, 1.0], [1.5, -2.0]]


def test_a_config_names_them(uploaded, tmp_path):
    model = uploaded("lab/model", save_converted(tmp_path / "model", MODELS["pcme"]))
    uploaded("lab/run", save_run(str(tmp_path / "run")))
    given = {"run": "hf://lab/run", "towers": {"text": "hf://lab/model/text"}}
    local = with_local_folders(read(InitConfig, "config.init_from", given))
    for place, file in ((local.run, "config.json"), (named_folders(local)["text"], "tower.json")):
        assert (pathlib.Path(place) / file).is_file()

    config = clip.get_config()
    config.init_from.model = "hf://lab/model"
    found = inherit(config)
    assert found.init_from.model == "hf://lab/model"  # So that it resumes by this name.
    config.init_from.model = str(model)
    assert inherit(config).model == found.model

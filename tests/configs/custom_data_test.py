"""One command trains on a folder of pictures; named towers replace the small ones."""

import sys

import pytest
from absl import flags, logging

from configs import custom_data
from tests.data_prep.captioned_images import own_folders
from xmodal import data
from xmodal.apps import config_flag
from xmodal.pretrained import packaged_towers
from xmodal.train import loop
from xmodal.train.folder import run_folder
from xmodal.train.inherit import inherit

FILE = custom_data.__file__


def make_config(folder):
    config = custom_data.complete(custom_data.get_config(), "small")
    config.data.manual_dir, config.data.data_dir = str(folder), f"{folder}_tfds"
    config.evals.own.bootstrap_samples = 10
    return config


@pytest.fixture
def config_of_flags(own_flags, monkeypatch):
    """Command line -> config."""

    def read(*overrides, argument="", **how):
        monkeypatch.setattr(sys, "argv", ["main", f"--config={FILE}{argument}", *overrides])
        flags.FLAGS.unparse_flags()
        config_flag._parse_flags(sys.argv)
        return config_flag.read_config(**how)

    return read


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    own_folders.long_tsv(folder, list(range(60)))
    return folder


@pytest.mark.slow
@pytest.mark.usefixtures("fast_compilation", "quick_draws")
def test_a_folder_is_all_that_a_user_gives(folder, tmp_path):
    config, run_dir = make_config(folder), tmp_path / "run"
    config.total_steps = 4
    config.optimizer.schedule.warmup_steps = 1
    assert loop.train(config, str(run_dir))
    report = (run_dir / "test" / "own" / "report.md").read_text()
    assert report.startswith("# files, test split: own\n")
    assert "\n## Own pictures and captions (captioned_images)\n" in report
    assert list(run_dir.glob("**/events*"))
    trained = run_folder.load_training_items(str(run_dir))
    items = data.eval_split(run_folder.load_run(str(run_dir)).data.to_dict(), split="train")
    assert trained == {
        "images": items.image_hashes.tolist(),
        "captions": list(items.caption_texts),
    }
    assert len(trained["images"]) > 30
    # Another run starts only from its text tower, with a different, random image encoder.
    other = custom_data.get_config()
    other.init_from.run, other.init_from.include = str(run_dir), ["text/"]
    other.init_from.optimizer = False
    other = custom_data.complete(other, "small")
    other.data, other.evals = make_config(folder).data, make_config(folder).evals
    for key in ("tokenizer", "lower_case", "unknown", "special_tokens", "max_length"):
        del other.data.text[key]
    filled = inherit(other)
    assert filled.model.image.encoder.name == "efficientnet"
    saved = run_folder.load_run(str(run_dir)).model.text.encoder
    assert filled.model.text.encoder.vocab_size == saved.vocab_size > 0
    assert filled.data.text.vocabulary == str(run_dir / "vocab.txt")


def test_installed_towers_are_used_frozen_unless_something_is_named(config_of_flags, monkeypatch):
    said = []
    monkeypatch.setattr(logging, "info", lambda text, *values: said.append(text % values))
    monkeypatch.setattr(packaged_towers, "is_installed", lambda name: True)
    config = config_of_flags("--config.optimizer.learning_rate=5e-4")
    assert config.init_from.towers.to_dict() == {
        "image": "pip:efficientnet_lite2", "text": "pip:minilm"
    }  # fmt: skip
    assert said[-1].startswith("Installed pretrained towers, frozen: pip:efficientnet_lite2 and")
    expected = custom_data.get_config("frozen")
    expected.init_from.towers, expected.optimizer.learning_rate = config.init_from.towers, 5e-4
    assert config.to_dict() == expected.to_dict()
    named = config_of_flags("--config.init_from.towers.text=weights/minilm")
    assert named.init_from.towers.image == ""
    small = config_of_flags(argument=":small")
    assert small.model.image.encoder.name == "efficientnet"
    monkeypatch.setattr(packaged_towers, "is_installed", lambda name: name == "minilm")
    missing = config_of_flags()
    assert missing.to_dict() == small.to_dict()
    assert said[-1].startswith("efficientnet_lite2: not installed, so small towers are trained")

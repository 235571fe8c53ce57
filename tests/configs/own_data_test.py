"""One command trains on a folder of pictures; named towers replace the small ones."""

import re
import sys

import pytest
from absl import flags, logging

from configs import base, own_data
from data_prep.building.folder_key import place_of
from tests.data_prep.captioned_images import own_folders
from xmodal import data
from xmodal.api import run_training
from xmodal.apps import config_flag
from xmodal.core.errors import UserError
from xmodal.pretrained import packaged_towers
from xmodal.train import loop, preflight
from xmodal.train.folder import run_folder
from xmodal.train.folder.finished import finished_reports
from xmodal.train.folder.run_folder import load_records
from xmodal.train.inherit import inherit

FILE = own_data.__file__


def make_config(folder):
    config = own_data.complete(own_data.get_config(), "small")
    config.data.manual_dir, config.data.data_dir = str(folder), f"{folder}_tfds"
    config.evals.own.bootstrap_samples = 10
    return config


def captions_alone(config):
    """Compiles in seconds and trains for a few steps."""
    config.total_steps = "3 epochs"
    config.optimizer.schedule.warmup_steps = "1 epochs"
    config.evals.own.every = config.checkpoint.every = "3 epochs"
    config.model.image = config.data.image = None
    del config.optimizer.groups["image_tower"]
    config.data.captions_per_image = 2
    config.tasks = {"t2t": base.task("caption_0", "caption_1", "softmax")}
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
    selected = (
        r"Selected by config.best_checkpoint.metric='own/captioned_images/mean_mrr': it is \d+"
    )
    assert re.search(rf"{selected}\S* at \d of \d evaluated checkpoints", report)
    assert re.search(r"finds (its own image|\S+\.png, the image of) ", report)
    assert (
        "examples of the split `train` of files (captioned_images/images)"
        in (run_dir / "model_card.md").read_text()
    )
    assert list(run_dir.glob("**/events*"))
    # Another run starts only from its text side, with a different, random image encoder.
    other = own_data.get_config()
    other.init_from.run, other.init_from.include = str(run_dir), ["text/"]
    other.init_from.optimizer = False
    other = own_data.complete(other, "small")
    other.data, other.evals = make_config(folder).data, make_config(folder).evals
    for key in ("tokenizer", "lower_case", "unknown", "special_tokens", "max_length"):
        del other.data.text[key]
    filled = inherit(other)
    assert filled.model.image.encoder.name == "efficientnet"
    saved = run_folder.load_run(str(run_dir)).model.text.encoder
    assert filled.model.text.encoder.vocab_size == saved.vocab_size > 0
    assert filled.data.text.vocabulary == str(run_dir / "vocab.txt")
    # Starting it again continues the run, even without the folder of the first run.
    other.total_steps = 2
    other.optimizer.schedule.warmup_steps = 1
    first, second = other.copy_and_resolve_references(), other.copy_and_resolve_references()
    assert loop.train(first, str(tmp_path / "second"))
    run_dir.rename(tmp_path / "moved")
    second.log_every = 1
    assert loop.train(second, str(tmp_path / "second"))
    other.init_from.run = str(tmp_path / "moved")
    other.init_from.include = ["nope/"]
    with pytest.raises(UserError, match="'nope/' matches no parameter"):
        preflight.check(other, str(tmp_path / "other"))


@pytest.mark.slow
@pytest.mark.usefixtures("quick_draws")
def test_changed_files_do_not_go_on_with_a_run(folder, tmp_path):
    config, run_dir = captions_alone(make_config(folder)), str(tmp_path / "run")
    assert loop.train(config, run_dir)
    before, saved = load_records(run_dir), run_folder.load_run(run_dir)
    steps_per_epoch = before["examples"] // 16
    assert saved.batch_size == 16
    assert saved.total_steps == 3 * steps_per_epoch
    # The same files need no work.
    assert finished_reports(captions_alone(make_config(folder)), run_dir)
    assert loop.train(captions_alone(make_config(folder)), run_dir)
    assert load_records(run_dir) == before
    captions = folder / "all.tsv"
    captions.write_text(captions.read_text().replace("child", "boy"))
    assert not finished_reports(captions_alone(make_config(folder)), run_dir)
    with pytest.raises(UserError, match="was started with other records"):
        loop.train(captions_alone(make_config(folder)), run_dir)
    with pytest.raises(UserError, match="has none left for other records: raise config.total_st"):
        loop.train(captions_alone(make_config(folder)), run_dir, allow_changes=["records"])
    assert load_records(run_dir) == before


def test_sides_without_weights_are_small():
    config = own_data.complete(own_data.get_config(), "small")
    assert inherit(config).model == config.model
    assert config.model.image.encoder.name == "efficientnet"
    assert config.model.text.encoder.name == "words"
    assert config.data.text.tokenizer == "nltk"
    assert {name: group.rate for name, group in config.optimizer.groups.items()} == {
        "image_tower": 1.0, "text_tower": 1.0
    }  # fmt: skip


@pytest.mark.parametrize(
    ("freeze", "groups"),
    [
        (["text/encoder/"], {"image_tower"}),
        (["image/encoder/stem", "text/"], {"image_tower"}),
        ([".*/encoder/"], set()),
        (["text/encoder/table"], {"image_tower", "text_tower"}),
    ],
)
def test_a_frozen_tower_has_no_rate(config_of_flags, freeze, groups):
    config = config_of_flags("--config.init_from.run=runs/other", f"--config.freeze={freeze}")
    assert set(config.optimizer.groups) == groups


@pytest.mark.parametrize(
    ("include", "with_weights"),
    [
        ([".*"], {"image", "text"}),
        (["text/"], {"text"}),
        (["image/enc"], {"image"}),
        (["s"], set()),
    ],
)
def test_sides_that_a_run_provides(include, with_weights):
    config = own_data.get_config()
    config.init_from.run, config.init_from.include = "runs/other", include
    own_data.complete(config)
    assert {s for s in ("image", "text") if not config.model[s].encoder.name} == with_weights
    assert config.data.text.min_count == (1 if "text" in with_weights else 2)


def test_what_is_written_among_the_pictures_would_be_another_dataset(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("a dog")
    with pytest.raises(UserError, match=r"run is inside config.data.manual_dir=.* a --workdir out"):
        loop.train(make_config(tmp_path), str(tmp_path / "run"))
    with pytest.raises(UserError, match="sweep is inside config.data.manual_dir="):
        run_training.check_folder(str(tmp_path / "sweep"), make_config(tmp_path))
    monkeypatch.chdir(tmp_path)
    config = make_config(tmp_path)
    config.data.manual_dir, config.data.data_dir = ".", "data"
    with pytest.raises(UserError, match="data, where the dataset would be stored, is inside .,"):
        loop.train(config, f"{tmp_path}_run")
    # Hidden folders are not read.
    data.check_outside(data.parse(config.data), str(tmp_path / ".runs" / "first"))
    before = place_of(tmp_path, str(tmp_path / ".data"))
    (tmp_path / ".data").mkdir()
    (tmp_path / ".data" / "records").write_text("stored")
    assert place_of(tmp_path, str(tmp_path / ".data")) == before


def test_overrides_stand(config_of_flags):
    convnet = {"name": "convnet", "channels": (8, 16), "units": (1, 1)}
    small = config_of_flags(
        f"--config.model.image.encoder={convnet}",
        "--config.data.image.augment.area=(0.9, 1.0)",
        "--config.data.image.augment.color=True",
        "--config.data.text.min_count=1",
        "--config.optimizer.groups.text_tower.rate=0.3",
    )
    assert small.model.image.encoder.to_dict() == convnet
    assert small.data.image.augment.area == (0.9, 1.0)
    assert small.data.image.augment.color is True
    assert small.data.text.min_count == 1
    assert small.optimizer.groups.text_tower.rate == 0.3
    # The rest is unchanged.
    assert small.model.image.head.name == "mean"
    assert small.data.image.augment.erase == 0.3
    assert small.model.text.encoder.name == "words"


def test_installed_towers_are_used_frozen_unless_something_is_named(config_of_flags, monkeypatch):
    said = []
    monkeypatch.setattr(logging, "info", lambda text, *values: said.append(text % values))
    monkeypatch.setattr(packaged_towers, "is_installed", lambda name: True)
    config = config_of_flags("--config.optimizer.learning_rate=5e-4")
    assert config.init_from.towers.to_dict() == {
        "image": "pip:efficientnet_lite2", "text": "pip:minilm"
    }  # fmt: skip
    assert said[-1].startswith("Installed pretrained towers, frozen: pip:efficientnet_lite2 and")
    expected = own_data.get_config("frozen")
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

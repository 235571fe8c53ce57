"""The folder of a run: its config and its checkpoints by name and number."""

import pytest
from checkpoints_test import BEST, make_state, save
from ml_collections import ConfigDict

from tests import tiny_encoder as tiny
from xmodal.core.errors import UserError
from xmodal.train.folder import run_folder


@pytest.fixture(scope="module")
def three_steps(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    config = tiny.make_config()
    config.best_checkpoint.metric = BEST
    run_folder.save_config(str(folder), config)
    metrics = {0: {BEST: 50.0}, 4: {BEST: 50.0}, 6: {BEST: 20.0}}
    save(folder, map(make_state, (0, 4, 6)), metrics)
    return str(folder)


@pytest.mark.parametrize(("asked", "step"), [("latest", 6), ("best", 4), (0, 0), ("6", 6)])
def test_steps_by_name_and_number(three_steps, asked, step):
    assert run_folder.resolve_step(three_steps, asked) == step


def test_folders_without_checkpoints(tmp_path):
    with pytest.raises(UserError, match="is not a run of xmodal.main: .*config.json is missing"):
        run_folder.resolve_step(str(tmp_path), "latest")
    run_folder.save_config(str(tmp_path), tiny.make_config())
    with pytest.raises(UserError, match="has no checkpoint yet"):
        run_folder.resolve_step(str(tmp_path), "latest")
    save(tmp_path, [make_state(0)])
    with pytest.raises(UserError, match="No checkpoint of .* has .*; use --step=latest"):
        run_folder.resolve_step(str(tmp_path), "best")


def test_data_are_found_from_any_folder(tmp_path, monkeypatch):
    config = tiny.make_config()
    config.data.update({"manual_dir": "../pets", "data_dir": "gs://bucket/data"})
    evaluator = {"type": "benchmarks", "data": {"dataset": "flickr8k", "manual_dir": "flickr"}}
    config.evals = {"other": evaluator, "same": {"type": "benchmarks", "data": None}}
    given = config.to_json()
    monkeypatch.chdir(tmp_path)
    run_folder.save_config("run", config)
    assert config.to_json() == given
    monkeypatch.chdir("/")
    loaded = run_folder.load_run(str(tmp_path / "run"))
    assert loaded.data.manual_dir == str(tmp_path.parent / "pets")
    assert loaded.data.data_dir == "gs://bucket/data"
    assert loaded.evals.other.data.manual_dir == str(tmp_path / "flickr")


def test_a_run_uses_the_vocabulary_in_its_folder_or_none(tmp_path):
    config = ConfigDict({"data": {"image": None, "text": {"vocabulary": ""}}})
    run_folder.save_config(str(tmp_path), config, ["[PAD]", "[UNK]", "red"])
    assert run_folder.load_run(str(tmp_path)).data.text.vocabulary == str(tmp_path / "vocab.txt")
    (tmp_path / "vocab.txt").rename(tmp_path / "kept.txt")
    with pytest.raises(UserError, match=r"the run's vocabulary, is missing: .* from a backup"):
        run_folder.load_run(str(tmp_path))

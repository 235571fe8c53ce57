"""The folder of a run: its config and its checkpoints by name and number."""

import json
import shutil

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
    config.select.metric = BEST
    run_folder.save_config(str(folder), config)
    metrics = {0: {BEST: 50.0}, 4: {BEST: 50.0}, 6: {BEST: 20.0}}
    save(folder, map(make_state, (0, 4, 6)), metrics)
    return str(folder)


@pytest.mark.parametrize(("asked", "step"), [("latest", 6), ("best", 4), (0, 0), ("6", 6)])
def test_steps_by_name_and_number(three_steps, asked, step):
    assert run_folder.resolve_step(three_steps, asked) == step


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (5, r"no checkpoint of step 5; it has \[0, 4, 6\]"),
        ("last", r"Step 'last' of .*: give one of \[0, 4, 6\], latest or best"),
        ("²", "Step '²' of"),
        ("-1", r"Step '-1' of .*: give one of \[0, 4, 6\]"),
    ],
)
def test_unknown_steps_list_what_is_there(three_steps, asked, message):
    with pytest.raises(UserError, match=message):
        run_folder.resolve_step(three_steps, asked)


def test_folders_without_checkpoints(tmp_path):
    with pytest.raises(UserError, match="is not a run of xmodal.main: .*config.json is missing"):
        run_folder.resolve_step(str(tmp_path), "latest")
    # Killed while compiling.
    (tmp_path / "writer.txt").write_text("process 7")
    with pytest.raises(UserError, match=r"is missing. The run has not reached its first step"):
        run_folder.resolve_step(str(tmp_path), "latest")
    run_folder.save_config(str(tmp_path), tiny.make_config())
    with pytest.raises(UserError, match="has no checkpoint yet"):
        run_folder.resolve_step(str(tmp_path), "latest")
    save(tmp_path, [make_state(0)])
    with pytest.raises(UserError, match="No checkpoint of .* has .*; use --step=latest"):
        run_folder.resolve_step(str(tmp_path), "best")


def test_the_config_comes_back(tmp_path):
    config = tiny.make_config(seed=7)
    run_folder.save_config(str(tmp_path), config)
    loaded = run_folder.load_run(str(tmp_path))
    assert loaded.to_json() == config.to_json()
    assert [p.name for p in tmp_path.iterdir()] == ["config.json"]


def test_data_are_found_from_any_folder(tmp_path, monkeypatch):
    config = tiny.make_config()
    config.data.update({"manual_dir": "../pets", "data_dir": "gs://bucket/data"})
    evaluator = {"type": "boards", "data": {"dataset": "flickr8k", "manual_dir": "flickr"}}
    config.evals = {"other": evaluator, "same": {"type": "boards", "data": None}}
    given = config.to_json()
    monkeypatch.chdir(tmp_path)
    run_folder.save_config("run", config)
    assert config.to_json() == given
    monkeypatch.chdir("/")
    loaded = run_folder.load_run(str(tmp_path / "run"))
    assert loaded.data.manual_dir == str(tmp_path.parent / "pets")
    assert loaded.data.data_dir == "gs://bucket/data"
    assert loaded.evals.other.data.manual_dir == str(tmp_path / "flickr")


def test_a_step_that_only_other_evaluators_saw_is_not_the_best(tmp_path):
    config = tiny.make_config()
    config.select.metric = BEST
    run_folder.save_config(str(tmp_path), config)
    metrics = {0: {BEST: 1.0, "sts/pearson": 5.0}, 1: {"sts/pearson": 9.0}}
    save(tmp_path, map(make_state, range(4)), metrics, keep_last=1)
    assert run_folder.steps(str(tmp_path)) == [0, 3]
    assert run_folder.best_step(str(tmp_path)) == 0


def test_a_saturated_metric_does_not_select_the_last_step(tmp_path, caplog):
    config = tiny.make_config()
    config.select.metric = BEST
    run_folder.save_config(str(tmp_path), config)
    recalls = {0: 10.0, 1: 70.0, 2: 90.0, 3: 80.0, 4: 60.0}
    metrics = {step: {BEST: 100.0, "shapes/mean/recall@5": x} for step, x in recalls.items()}
    save(tmp_path, map(make_state, recalls), metrics, keep_last=1)
    assert run_folder.steps(str(tmp_path)) == [2, 4]
    assert run_folder.best_step(str(tmp_path)) == 2
    (said,) = [each.getMessage() for each in caplog.records if "decides" in each.message]
    assert f"{BEST!r}: it is 100 at 2 of 2 evaluated checkpoints; shapes/mean/recall@5" in said
    # Those that were removed count, except after the newest one that is left.
    assert run_folder.explain_best_step(str(tmp_path)) == said.replace("2 of 2", "5 of 5")
    shutil.rmtree(run_folder.step_folder(str(tmp_path), 4))
    assert run_folder.explain_best_step(str(tmp_path)) == said.replace("2 of 2", "3 of 3")


def test_lost_files_of_a_run_are_named(tmp_path):
    config = ConfigDict({"data": {"image": None, "text": {"vocabulary": ""}}})
    run_folder.save_config(str(tmp_path), config, ["[PAD]", "[UNK]", "red"])
    save(tmp_path, [make_state(0)])
    (tmp_path / "vocab.txt").rename(tmp_path / "kept.txt")
    with pytest.raises(UserError, match=r"the run's vocabulary, is missing: .* from a backup"):
        run_folder.load_run(str(tmp_path))
    config.data.text.vocabulary = str(tmp_path / "kept.txt")
    (tmp_path / "config.json").write_text(config.to_json())
    with pytest.raises(UserError, match="the run's vocabulary, is missing"):  # Not of elsewhere.
        run_folder.load_run(str(tmp_path))
    (tmp_path / "kept.txt").rename(tmp_path / "vocab.txt")
    assert run_folder.load_run(str(tmp_path)).data.text.vocabulary == str(tmp_path / "vocab.txt")
    hashes = {"vocabulary": run_folder.hash_vocabulary(["[PAD]", "[UNK]", "red"])}
    (tmp_path / "records.json").write_text(json.dumps(hashes))
    run_folder.load_run(str(tmp_path))
    (tmp_path / "vocab.txt").write_text("[PAD]\nred\n[UNK]\n")
    with pytest.raises(UserError, match=r"vocab.txt has different words from those"):
        run_folder.load_run(str(tmp_path))
    (tmp_path / "config.json").unlink()
    with pytest.raises(UserError, match=r"config.json is missing. Its checkpoints are there; copy"):
        run_folder.load_run(str(tmp_path))


def test_missing_metrics_do_not_make_another_step_the_best(three_steps, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(three_steps, folder)
    (folder / "checkpoints/4/metrics/metrics").unlink()
    with pytest.raises(UserError, match="4/metrics/metrics is missing: the checkpoint is damaged"):
        run_folder.resolve_step(str(folder), "best")
    assert run_folder.resolve_step(str(folder), "0") == 0

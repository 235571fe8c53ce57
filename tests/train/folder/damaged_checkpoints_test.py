"""Checkpoint files that are truncated, missing or have a flipped bit."""

import logging
import shutil

import jax
import numpy as np
import pytest
from checkpoints_test import BEST, make_saver, make_state, restore_latest, save

from tests import tiny_encoder as tiny
from xmodal.core.errors import UserError
from xmodal.train.folder import checkpoints, run_folder
from xmodal.train.folder.damaged_checkpoints import newest_whole, set_damaged_aside
from xmodal.train.folder.file_hashes import HASHES


def files(folder):
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size]


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 16
    path.write_bytes(content)


def tear(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path):
    path.write_bytes(b"")


# Orbax writes and ignores them.
HARMLESS = ("_CHECKPOINT_METADATA", "commit_success.txt")
DAMAGES = {"flip": flip, "tear": tear, "empty": empty, "remove": lambda path: path.unlink()}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    save(folder, [make_state(3), make_state(7)])
    return folder


def largest(folder):
    """The largest file with a hash; the file of hashes itself may become unreadable JSON."""
    return max(
        (path for path in files(folder) if path.name != HASHES),
        key=lambda path: path.stat().st_size,
    )


@pytest.mark.parametrize("damage", DAMAGES)
def test_any_damage_of_any_file_sends_the_run_back(run, caplog, damage):
    newest, aside = run / "checkpoints/7", run / "damaged/7"
    found = files(newest)
    assert len(found) > 20
    assert newest / HASHES in found
    for path in found:
        if path.parent == newest and path.name in HARMLESS:
            continue
        if path == newest / HASHES and damage == "flip":
            continue  # Another digit is any other file's.
        content = path.read_bytes()
        DAMAGES[damage](path)
        caplog.clear()
        with caplog.at_level(logging.ERROR):
            set_damaged_aside(str(run))
        assert "THE CHECKPOINT OF STEP 7 IS DAMAGED" in caplog.text, path
        assert "the run goes back to step 3" in caplog.text
        assert run_folder.steps(str(run)) == [3]
        aside.rename(newest)
        path.write_bytes(content)
    set_damaged_aside(str(run))
    assert run_folder.steps(str(run)) == [3, 7]


def test_the_state_before_the_damage_comes_back(tmp_path, caplog):
    save(tmp_path, [make_state(3), make_state(7)])
    flip(largest(tmp_path / "checkpoints/7/params"))
    with pytest.raises(
        UserError, match="of step 7 is damaged: .* has different bytes than were writt"
    ):
        restore_latest(str(tmp_path), make_state(0))
    set_damaged_aside(str(tmp_path))
    restored = restore_latest(str(tmp_path), make_state(0))
    jax.tree.map(np.testing.assert_array_equal, restored, make_state(3))
    # The step is made and saved again, and damaged again.
    save(tmp_path, [make_state(7)])
    tear(largest(tmp_path / "checkpoints/7/opt_state"))
    set_damaged_aside(str(tmp_path))
    assert run_folder.steps(str(tmp_path)) == [3]


@pytest.mark.parametrize("hashes", [None, "null", "{}", "[1]"])
def test_a_checkpoint_without_its_hashes(tmp_path, caplog, hashes):
    save(tmp_path, [make_state(3), make_state(7)])
    newest = tmp_path / "checkpoints/7"
    if hashes is None:
        (newest / HASHES).unlink()
    else:
        (newest / HASHES).write_text(hashes)
    with caplog.at_level(logging.WARNING):
        assert newest_whole(str(tmp_path)) == 3
    assert "The checkpoint of step 7 is damaged: " in caplog.text
    assert run_folder.steps(str(tmp_path)) == [3, 7]
    set_damaged_aside(str(tmp_path))
    assert run_folder.steps(str(tmp_path)) == [3]


def save_best(folder):
    """A run of three checkpoints, whose second one is the best."""
    config = tiny.make_config()
    config.select.metric, config.select.mode = BEST, "max"
    run_folder.save_config(str(folder), config)
    metrics = {3: {BEST: 3.0}, 5: {BEST: 9.0}, 7: {BEST: 1.0}}
    save(folder, map(make_state, metrics), metrics)
    assert run_folder.best_step(str(folder)) == 5


@pytest.mark.parametrize(
    ("damaged", "damage"), [("params", flip), ("metrics", empty), ("metrics", shutil.rmtree)]
)
def test_the_best_checkpoint_and_the_metrics_of_all_are_whole(tmp_path, caplog, damaged, damage):
    save_best(tmp_path)
    folder = tmp_path / "checkpoints/5" / damaged
    damage(folder if damage is shutil.rmtree else largest(folder))
    assert newest_whole(str(tmp_path)) == 7
    with caplog.at_level(logging.ERROR):
        set_damaged_aside(str(tmp_path))
    assert "THE CHECKPOINT OF STEP 5 IS DAMAGED" in caplog.text
    assert "another step may be the best" in caplog.text
    assert run_folder.steps(str(tmp_path)) == [3, 7]
    assert run_folder.best_step(str(tmp_path)) == 3


@pytest.mark.parametrize("damage", [flip, empty, lambda path: path.unlink()])
def test_the_best_checkpoint_does_not_need_its_optimizer_state(tmp_path, damage):
    save_best(tmp_path)
    damage(largest(tmp_path / "checkpoints/5/opt_state"))
    set_damaged_aside(str(tmp_path))
    assert run_folder.best_step(str(tmp_path)) == 5
    checkpoints.check_whole(str(tmp_path), 5, ("params", "model_state"))


def test_what_cannot_be_replaced_ends_the_run(tmp_path):
    save(tmp_path, [make_state(3)])
    newest = tmp_path / "checkpoints/3"
    path = largest(newest)
    content = path.read_bytes()
    flip(path)
    with pytest.raises(
        UserError, match=r"No checkpoint of .* can be read; step 3: .*different byt"
    ):
        set_damaged_aside(str(tmp_path))
    assert newest.exists()
    path.write_bytes(content)
    flip(largest(tmp_path / "frozen"))
    with pytest.raises(
        UserError, match=r"The frozen parameters of .* are damaged: .*different bytes"
    ):
        set_damaged_aside(str(tmp_path))


def test_nothing_to_look_at(tmp_path):
    set_damaged_aside(str(tmp_path))
    assert newest_whole(str(tmp_path)) is None
    assert not list(tmp_path.iterdir())
    make_saver(tmp_path).close()
    before = sorted(tmp_path.rglob("*"))
    set_damaged_aside(str(tmp_path))
    assert sorted(tmp_path.rglob("*")) == before

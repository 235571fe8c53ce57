"""Checkpoint files that are truncated, missing or have a flipped bit."""

import json

import jax
import numpy as np
import pytest
from checkpoints_test import make_state, restore_latest, save

from xmodal.core.errors import UserError
from xmodal.train.folder import run_folder
from xmodal.train.folder.checkpoints import HASHES, newest_whole


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 16
    path.write_bytes(content)


def tear(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


DAMAGES = {"flip": flip, "tear": tear, "remove": lambda path: path.unlink()}


def largest(folder):
    return max(folder.rglob("d/*"), key=lambda path: path.stat().st_size)


@pytest.mark.parametrize("damage", DAMAGES)
def test_any_damage_of_any_file_sends_the_run_back(tmp_path, damage):
    save(tmp_path, [make_state(3), make_state(7)])
    newest = tmp_path / "checkpoints/7"
    hashed = list(json.loads((newest / HASHES).read_text()))
    assert {name.split("/")[0] for name in hashed} == set(run_folder.ITEMS)
    for name in hashed if damage == "flip" else [*hashed[::7], HASHES]:
        content = (newest / name).read_bytes()
        if not content:
            continue
        DAMAGES[damage](newest / name)
        assert newest_whole(str(tmp_path)) == 3, name
        (newest / name).write_bytes(content)
    assert newest_whole(str(tmp_path)) == 7
    assert run_folder.steps(str(tmp_path)) == [3, 7]


def test_the_state_before_the_damage_comes_back(tmp_path, caplog):
    save(tmp_path, [make_state(3), make_state(7)])
    for item in ("params", "opt_state"):  # The step is made and saved again, and damaged again.
        flip(largest(tmp_path / "checkpoints/7" / item))
        assert newest_whole(str(tmp_path), sets_aside=True) == 3
        assert "is damaged" in caplog.text
        assert "The run resumes from step 3 without it." in caplog.text
        assert run_folder.steps(str(tmp_path)) == [3]
        restored = restore_latest(str(tmp_path), make_state(0))
        jax.tree.map(np.testing.assert_array_equal, restored, make_state(3))
        save(tmp_path, [make_state(7)])


def test_what_cannot_be_replaced_ends_the_run(tmp_path):
    assert newest_whole(str(tmp_path), sets_aside=True) is None
    save(tmp_path, [make_state(3)])
    for folder in ("checkpoints/3/params", "frozen"):
        path = largest(tmp_path / folder)
        content = path.read_bytes()
        flip(path)
        with pytest.raises(UserError, match=f"{path.name} is damaged .* from a backup"):
            newest_whole(str(tmp_path), sets_aside=True)
        path.write_bytes(content)
    assert newest_whole(str(tmp_path)) == 3

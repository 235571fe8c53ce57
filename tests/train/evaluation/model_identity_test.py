"""The model to which results belong."""

import shutil

import pytest

from configs import quickstart
from xmodal.train.evaluation.model_identity import ModelIdentity
from xmodal.train.folder import run_folder


@pytest.fixture
def run_dir(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    run_folder.save_config(str(folder), quickstart.get_config("t2t"), ["[PAD]", "[UNK]", "red"])
    return folder


@pytest.mark.parametrize(
    ("changes", "is_same"),
    [
        ({"data_dir": "/moved", "manual_dir": "/a", "ratings_dir": "/b", "prefetch": 9}, True),
        ({"dataset": "flickr8k"}, False),
        ({"text.lower_case": False}, False),
    ],
)
def test_other_training_data_make_another_model(run_dir, tmp_path, changes, is_same):
    moved = shutil.copytree(run_dir, tmp_path / "moved")
    before, config = (run_folder.load_run(str(folder)) for folder in (run_dir, moved))
    assert config.data.text.vocabulary != before.data.text.vocabulary
    with config.unlocked():
        config.data.update_from_flattened_dict(changes)
    assert (ModelIdentity.of_config(config) == ModelIdentity.of_config(before)) == is_same


def test_other_records_make_another_model_and_another_place_does_not(run_dir):
    config = run_folder.load_run(str(run_dir))
    records = {"a train": "12"}, {"b train": "12"}, {"a train": "34"}
    first, moved, changed = (ModelIdentity.of_config(config, each) for each in records)
    assert first == moved
    assert first != changed

"""The model to which results belong."""

import shutil

import numpy as np
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


def test_a_file_is_one_model_with_the_similarity_that_it_names(tmp_path):
    path, ids = str(tmp_path / "model.npz"), str(tmp_path / "ids.npz")
    np.savez(path, image_embeddings=np.ones((2, 3)), similarity="cosine")
    np.savez(ids, image_ids=np.arange(2))
    unnamed = ModelIdentity.of_file(path)
    assert unnamed == ModelIdentity.of_file(path, "cosine")
    assert unnamed.name == f"{path} (cosine)"
    assert unnamed != ModelIdentity.of_file(path, "dot")
    scores = str(tmp_path / "scores.npy")
    np.save(scores, np.ones((2, 2)))
    assert ModelIdentity.of_file(scores) != ModelIdentity.of_file(scores, ids=ids)
    assert ModelIdentity.of_file(str(tmp_path / "missing.npz")).name.endswith("missing.npz")

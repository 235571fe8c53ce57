import json

import numpy as np
import pytest
import safetensors.numpy

from xmodal.config import UserError
from xmodal.pretrained import folder
from xmodal.pretrained.report import Report

ARRAYS = {
    "params/stem/kernel": np.arange(6, dtype=np.float32).reshape(2, 3),
    "params/stem/bias": np.ones(3, np.float32),
    "batch_stats/stem/mean": np.zeros(3, np.float32),
}
DESCRIPTION = folder.Description(
    "bert", {"depth": 2, "pool": "mean"}, {"lower_case": True}, {"vocab.txt": "[PAD]\nü\n"}
)
REPORT = Report({name: ("x",) for name in ARRAYS}, {}, [], {})


@pytest.fixture
def saved(tmp_path):
    folder.save_tower(tmp_path / "tower", ARRAYS, DESCRIPTION, REPORT)
    return tmp_path / "tower"


def test_what_is_saved_comes_back(saved):
    params, model_state, keywords = folder.load_tower(saved)
    assert keywords == {"name": "bert", "depth": 2, "pool": "mean"}
    np.testing.assert_array_equal(params["stem"]["kernel"], ARRAYS["params/stem/kernel"])
    np.testing.assert_array_equal(params["stem"]["bias"], 1)
    assert set(params["stem"]) == {"kernel", "bias"}
    assert model_state["batch_stats"]["stem"]["mean"].shape == (3,)
    assert folder.read_description(saved) == DESCRIPTION
    assert (saved / "report.txt").read_text() == REPORT.text()
    assert [child.name for child in saved.parent.iterdir()] == ["tower"]


def test_nothing_is_overwritten(saved):
    with pytest.raises(UserError, match="tower exists already: give another --output"):
        folder.save_tower(saved, ARRAYS, DESCRIPTION, REPORT)


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(json, "dumps", fail)
    with pytest.raises(OSError, match="disk full"):
        folder.save_tower(tmp_path / "tower", ARRAYS, DESCRIPTION, REPORT)
    assert list(tmp_path.iterdir()) == []


def test_damage_is_named(saved, tmp_path):
    for read in (folder.read_description, folder.load_tower):
        with pytest.raises(UserError, match="is no converted tower: .*tower.json is missing"):
            read(tmp_path)
    weights = saved / "weights.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1])
    with pytest.raises(UserError, match="weights.safetensors cannot be read .*cut off"):
        folder.load_tower(saved)
    weights.unlink()
    with pytest.raises(UserError, match="tower is incomplete: weights.safetensors is missing"):
        folder.load_tower(saved)
    safetensors.numpy.save_file(ARRAYS, weights)
    for text in ('{"name"', "{}", "[]"):
        (saved / "tower.json").write_text(text)
        with pytest.raises(UserError, match=r"tower.json is damaged \(.*convert the weights again"):
            folder.read_description(saved)

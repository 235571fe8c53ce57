import numpy as np
import pytest

from xmodal.core.errors import UserError
from xmodal.pretrained import folder
from xmodal.pretrained.conversion_report import Report

ARRAYS = {
    "params/stem/kernel": np.arange(6, dtype=np.float32).reshape(2, 3),
    "params/stem/bias": np.ones(3, np.float32),
    "batch_stats/stem/mean": np.zeros(3, np.float32),
}
DESCRIPTION = folder.Description(
    {"name": "bert", "depth": 2},
    {"name": "mean"},
    {"lower_case": True},
    {"vocab.txt": "[PAD]\nü\n".encode()},
)
REPORT = Report({name: ("x",) for name in ARRAYS}, {}, [], {})


@pytest.fixture
def saved(tmp_path):
    folder.save_folder(tmp_path / "tower", ARRAYS, DESCRIPTION, REPORT)
    return tmp_path / "tower"


def test_what_is_saved_comes_back(saved):
    arrays = folder.read_weights(saved)
    assert set(arrays) == set(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
    assert folder.read_description(saved) == DESCRIPTION
    assert (saved / "report.txt").read_text() == REPORT.text()
    assert [child.name for child in saved.parent.iterdir()] == ["tower"]


def test_damage_is_named(saved, tmp_path):
    for read in (folder.read_description, folder.read_weights):
        with pytest.raises(UserError, match="is not a converted tower: .*tower.json is missing"):
            read(tmp_path)
    weights = saved / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    for check in (folder.read_weights, folder.check_weights):
        with pytest.raises(UserError, match="weights.safetensors is damaged .*convert the wei"):
            check(saved)
    (saved / "tower.json").write_text('{"name"')
    with pytest.raises(UserError, match=r"tower.json is damaged \(.*convert the weights again"):
        folder.read_description(saved)

"""Files of torch: every kind of content, in both formats."""

import argparse
import collections
import os

import numpy as np
import pytest

from xmodal.core.errors import UserError
from xmodal.pretrained.weight_files import load_source

torch = pytest.importorskip("torch")


class Hostile:
    """A pickle of it makes a folder when it is loaded."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


class Settings(dict):
    """A class that only its own code can load."""


@pytest.mark.parametrize("is_zip", [True, False])
def test_a_checkpoint_is_read_in_both_formats(tmp_path, is_zip):
    base, noted = torch.arange(12.0).reshape(3, 4), torch.arange(3.0)
    noted.note = "x"
    saved = {
        "list": [base, {"view": base[1:, ::2].T, "scalar": torch.tensor(3)}],
        "half": torch.ones(2, dtype=torch.float16),
        "brain": torch.full((2,), 1.5, dtype=torch.bfloat16),
        "empty": torch.zeros(0, 3),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "noted": noted,
        "opt": argparse.Namespace(rate=0.1, device=torch.device("cpu")),
        "seen": Settings(words=["a"]),
        "nested": collections.defaultdict(dict, a={"w": torch.ones(2)}),
        "bad": Hostile(tmp_path / "ran"),
        "text": "x",
    }
    path = tmp_path / "m.pth.tar"
    torch.save(saved, path, _use_new_zipfile_serialization=is_zip)
    source = load_source(path)
    assert set(source.arrays) == {
        "list.0", "list.1.view", "list.1.scalar", "half", "brain", "empty", "parameter", "noted",
        "nested.a.w",
    }  # fmt: skip
    np.testing.assert_array_equal(source.arrays["list.1.view"], base[1:, ::2].T)
    assert source.arrays["half"].dtype == np.float16
    np.testing.assert_array_equal(source.arrays["brain"].astype(np.float32), [1.5, 1.5])
    assert source.options["rate"] == 0.1
    assert not (tmp_path / "ran").exists()
    content = path.read_bytes()
    (tmp_path / "cut.pth").write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match="cut.pth cannot be read"):
        load_source(tmp_path / "cut.pth")


@pytest.mark.filterwarnings("ignore")
def test_a_scripted_module_is_read_like_its_state_dict(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Sequential(torch.nn.Linear(3, 1)))
    model.register_buffer("count", torch.tensor(7))
    torch.jit.save(torch.jit.trace(model, torch.ones(1, 2)), tmp_path / "m.pt")
    found = load_source(tmp_path / "m.pt").arrays
    wanted = model.state_dict()
    assert found.keys() == wanted.keys()
    assert all(np.array_equal(found[name], wanted[name]) for name in wanted)

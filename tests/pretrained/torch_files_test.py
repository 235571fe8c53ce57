"""Checkpoints of PyTorch that are read without it, and tiny ones that would take all memory."""

import numpy as np
import pytest
from etils import epath

from xmodal.core.errors import UserError
from xmodal.pretrained import torch_files

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("is_zip", [True, False])
def test_a_checkpoint_is_read_in_both_formats(tmp_path, is_zip):
    path = tmp_path / "a.pth"
    weights = {"a": torch.arange(6.0).reshape(2, 3).T, "b": [torch.tensor([1, 2]), torch.ones(3)]}
    torch.save(weights, path, _use_new_zipfile_serialization=is_zip)
    found = torch_files.read_torch(epath.Path(path))
    assert found.keys() == {"a", "b.0", "b.1"}
    for name, tensor in (("a", weights["a"]), ("b.0", weights["b"][0]), ("b.1", weights["b"][1])):
        np.testing.assert_array_equal(found[name], tensor.numpy())


def test_a_tiny_checkpoint_takes_little_memory(tmp_path):
    """Lists that it refers to twice are one, and not named for each path that leads to them."""
    row = [1.0]
    for _ in range(40):
        row = [row, row]
    path = epath.Path(tmp_path / "a.pth")
    torch.save({"rows": row, "table": torch.zeros(1)}, path)
    rows = torch_files.read_objects(path)["rows"]
    assert rows[0] is rows[1]
    with pytest.raises(UserError, match="repeat more than 1,000,000 entries"):
        torch_files.read_torch(path)
    nested = torch.zeros(1)
    for _ in range(20):
        nested = {"a" * 1_000: nested}
    torch.save(nested, path)
    with pytest.raises(UserError, match="a name has more than 10,000 characters"):
        torch_files.read_torch(path)
    torch.save({"table": torch.zeros(1).expand(10**9)}, path)
    with pytest.raises(UserError, match="repeats more than 1,000,000 numbers"):
        torch_files.read_torch(path)

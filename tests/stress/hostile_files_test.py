"""Short campaigns against every reader of files from elsewhere."""

import pytest

from tests.stress.hostile_files import attack
from tests.stress.hostile_readers import READERS


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Pillow and h5py warn of damage.
@pytest.mark.parametrize("name", READERS)
def test_only_values_and_errors_for_users_come_out(name, tmp_path):
    if name.startswith(("torch", "Torch")):
        pytest.importorskip("torch")
    if name.startswith("LMDB"):
        pytest.importorskip("lmdb")
    if name.startswith("faiss"):
        pytest.importorskip("faiss")
    counts = attack(READERS[name], tmp_path, mutations=300, seed=1)
    assert counts["errors for users"] + counts["other values"] > counts["mutations"] // 5

"""Configs by name."""

import pytest

from xmodal.apps.config_flag import describe_configs, find_config_file
from xmodal.core.errors import UserError


def test_names_and_paths(tmp_path, monkeypatch):
    path = find_config_file("quickstart")
    assert path.endswith("configs/quickstart.py")
    assert find_config_file("quickstart:i2t") == f"{path}:i2t"
    assert find_config_file("own/other.py:argument") == "own/other.py:argument"
    assert find_config_file(f"{path}:t2t") == f"{path}:t2t"
    with pytest.raises(UserError, match=r"--config=quikstart names no config; did you mean 'quick"):
        find_config_file("quikstart")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="--config=quickstart:i2t is the config that came with"):
        find_config_file("configs/quickstart.py:i2t")


def test_every_config_says_what_it_is():
    described = describe_configs()
    assert {"quickstart", "cxc_multitask", "vete"} <= set(described)
    assert not {"base", "cxc", "cmcm"} & set(described)
    assert all(20 < len(text) < 100 for text in described.values()), described

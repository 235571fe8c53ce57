"""Truncated JSON files of a run."""

import logging

import pytest

from tests import tiny_encoder as tiny
from xmodal.base.config import UserError
from xmodal.runs.folder import compute, run_folder


@pytest.mark.parametrize("content", ["", '{"select"', "[1, 2]"])
def test_a_torn_file_is_named_with_its_remedy(tmp_path, content, caplog):
    run_folder.save_config(str(tmp_path), tiny.make_config())
    for name in ("config.json", "records.json", "compute.json"):
        (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=r"config.json is damaged: .*copy it from a backup"):
        run_folder.load_run(str(tmp_path))
    with pytest.raises(UserError, match=r"records.json is damaged: .*another --workdir"):
        run_folder.load_records(str(tmp_path))
    with caplog.at_level(logging.WARNING):
        assert compute.read_starts(str(tmp_path)) == []
    assert "compute.json is damaged" in caplog.text

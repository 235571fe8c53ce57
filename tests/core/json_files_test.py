"""Damaged JSON files: one sentence names each file and its remedy."""

import json
import math

import pytest
from etils import epath

from tests import tiny_encoder as tiny
from xmodal.core.errors import UserError
from xmodal.core.json_files import read_json, read_numbers
from xmodal.core.result_files import format_json
from xmodal.train.evaluation import subjects
from xmodal.train.folder import run_folder

DAMAGED = [b"", b"[1, 2]", b'{"a": "\xff\xfe"}']


@pytest.mark.parametrize("content", DAMAGED)
def test_a_torn_file_is_named_with_its_remedy(tmp_path, content):
    run_folder.save_config(str(tmp_path), tiny.make_config())
    (tmp_path / "steps").mkdir()
    for path in (tmp_path / "config.json", tmp_path / "steps/4.json"):
        path.write_bytes(content)
    with pytest.raises(UserError, match=r"config.json is damaged: .*copy it from a backup"):
        run_folder.load_run(str(tmp_path))
    with pytest.raises(UserError, match=r"steps/4.json is damaged: .*remove it and evaluate"):
        subjects.read_others(str(tmp_path), 4, ["a"])


def test_null_is_an_undefined_number(tmp_path):
    path = epath.Path(tmp_path / "numbers.json")
    path.write_text(format_json({"a": 1.5, "b": math.nan, "c": 3, "d": math.inf}))
    assert json.loads(path.read_text()) == {"a": 1.5, "b": None, "c": 3, "d": None}
    found = read_numbers(path, "write it again.")
    assert found == pytest.approx({"a": 1.5, "b": math.nan, "c": 3, "d": math.nan}, nan_ok=True)
    assert read_json(path, "write it again.")["b"] is None

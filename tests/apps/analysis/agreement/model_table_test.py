"""Tables of models from files."""

import json
import math

import pytest

from xmodal.apps.analysis.agreement.model_table import load_models
from xmodal.core.errors import UserError


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_a_table_and_folders_are_read_together(tmp_path):
    # Some editors begin a file with a mark.
    content = "\ufeff" + json.dumps({"a": {"m": 1, "n": None}, "b": {"m": 2.5}})
    table = write(tmp_path / "table.json", content)
    write(tmp_path / "runs/ours/metrics.json", {"m": 3.0, "sts": None})
    found = load_models([table, f"{tmp_path}/runs/ours/"])
    wanted = {"a": {"m": 1.0, "n": math.nan}, "b": {"m": 2.5}, "ours": {"m": 3.0, "sts": math.nan}}
    assert found.keys() == wanted.keys()
    for name, numbers in wanted.items():
        assert found[name] == pytest.approx(numbers, nan_ok=True)


def test_models_are_called_like_their_folders(tmp_path, monkeypatch):
    write(tmp_path / "run_17/metrics.json", {"m": 1})
    (tmp_path / "best").symlink_to(tmp_path / "run_17")
    monkeypatch.chdir(tmp_path / "run_17")
    assert list(load_models([".", "../best"])) == ["run_17", "best"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not a readable JSON file"),
        ("[" * 100_000, "not a readable JSON file"),
        ("[]", "must have a JSON object that is not empty"),
        ("{}", "must have a JSON object that is not empty"),
        ('{"a": {}}', "model 'a' has no number"),
        ('{"a": {"m": null}}', "model 'a' has no number"),
        ('{"a": {"m": "1"}}', "'m' in .*table.json, model 'a' is '1', expected a number"),
        ('{"a": {"m": true}}', "is True, expected a number"),
        ('{"a": {"m": NaN}}', "NaN is not JSON; write null"),
        ('{"a": {"m": 1e999}}', "too large"),
        ('{"a": {"m": 1}, "a": {"m": 2}}', "'a' occurs twice"),
        ('{"cxc/i2t/recall@1": 3.0}', "pass the folder and not its metrics.json"),
    ],
)
def test_tables_that_are_none_are_refused(tmp_path, content, message):
    path = write(tmp_path / "table.json", content)
    with pytest.raises(UserError, match=message):
        load_models([path])


def test_missing_files_and_doubled_names_are_refused(tmp_path):
    with pytest.raises(UserError, match="Cannot read .*none.json"):
        load_models([str(tmp_path / "none.json")])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"Cannot read .*empty/metrics\.json"):
        load_models([str(tmp_path / "empty")])
    for folder in ("x/run", "y/run"):
        write(tmp_path / folder / "metrics.json", {"m": 1})
    with pytest.raises(UserError, match="Two models are called 'run', in .*x/run and in .*y/run"):
        load_models([str(tmp_path / "x/run"), str(tmp_path / "y/run")])
    with pytest.raises(UserError, match="No models"):
        load_models([])
    binary = tmp_path / "table.json"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="not a readable JSON file"):
        load_models([str(binary)])

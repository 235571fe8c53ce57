"""Tables of models from files, and the choice of metrics."""

import json

import pytest

from xmodal.evals import meta
from xmodal.evals.published import ECCV_TABLE_4, ECCV_TABLE_5_METRICS
from xmodal.options import UserError


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_a_table_and_folders_are_read_together(tmp_path):
    table = write(tmp_path / "table.json", {"a": {"m": 1, "n": None}, "b": {"m": 2.5}})
    write(tmp_path / "runs/ours/metrics.json", {"m": 3.0, "sts": None})
    found = meta.load_models([table, f"{tmp_path}/runs/ours/"])
    assert found == {"a": {"m": 1.0}, "b": {"m": 2.5}, "ours": {"m": 3.0}}


def test_models_are_called_like_their_folders(tmp_path, monkeypatch):
    write(tmp_path / "run_17/metrics.json", {"m": 1})
    (tmp_path / "best").symlink_to(tmp_path / "run_17")
    monkeypatch.chdir(tmp_path / "run_17")
    assert list(meta.load_models([".", "../best"])) == ["run_17", "best"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not a readable JSON file"),
        ("[]", "must hold a JSON object that is not empty"),
        ("{}", "must hold a JSON object that is not empty"),
        ('{"a": {}}', "model 'a' holds no number"),
        ('{"a": {"m": null}}', "model 'a' holds no number"),
        ('{"a": {"m": "1"}}', "'m' in .*table.json, model 'a' is '1', expected a number"),
        ('{"a": {"m": true}}', "is True, expected a number"),
        ('{"a": {"m": NaN}}', "NaN is not JSON; write null"),
        ('{"a": {"m": 1e999}}', "too large"),
        ('{"a": {"m": 1}, "a": {"m": 2}}', "'a' occurs twice"),
        ('{"cxc/i2t/recall@1": 3.0}', "give the folder and not its metrics.json"),
    ],
)
def test_tables_that_are_none_are_refused(tmp_path, content, message):
    path = write(tmp_path / "table.json", content)
    with pytest.raises(UserError, match=message):
        meta.load_models([path])


def test_missing_files_and_doubled_names_are_refused(tmp_path):
    with pytest.raises(UserError, match="Cannot read .*none.json"):
        meta.load_models([str(tmp_path / "none.json")])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"Cannot read .*empty/metrics\.json"):
        meta.load_models([str(tmp_path / "empty")])
    for folder in ("x/run", "y/run"):
        write(tmp_path / folder / "metrics.json", {"m": 1})
    with pytest.raises(UserError, match="Two models are called 'run', in .*x/run and in .*y/run"):
        meta.load_models([str(tmp_path / "x/run"), str(tmp_path / "y/run")])
    with pytest.raises(UserError, match="No models"):
        meta.load_models([])
    binary = tmp_path / "table.json"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="not a readable JSON file"):
        meta.load_models([str(binary)])


def test_small_tables_are_compared_whole_but_for_what_stands_behind_metrics():
    row = {"x/recall@1": 1, "x/recall@1_low": 0, "x/recall@1_high": 2, "x/queries": 7, "human": 3}
    assert meta.choose_metrics({"a": row, "b": {"sts/spearman": 4}}) == (
        "x/recall@1",
        "human",
        "sts/spearman",
    )


def test_large_tables_are_compared_by_the_metrics_of_the_paper():
    row = ECCV_TABLE_4["BLIP"] | {f"other/mean/recall@{k}": 1.0 for k in range(30)}
    chosen = meta.choose_metrics({"a": row})
    assert chosen == tuple(tag for tag in ECCV_TABLE_5_METRICS if tag in row)
    assert len(chosen) == 7


def test_metrics_asked_for_are_taken_in_their_order():
    models = {"a": {"m": 1, "n": 2, "m_low": 0}}
    assert meta.choose_metrics(models, ["n", "m_low"]) == ("n", "m_low")


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        (["m", "nn"], r"No model has the metric\(s\) \['nn'\]; known: \['m', 'n'\]"),
        (["m"], "two or more metrics"),
        (["m", "m"], "each once"),
        ([], "two or more metrics"),
    ],
)
def test_metrics_that_cannot_be_compared_are_refused(metrics, message):
    with pytest.raises(UserError, match=message):
        meta.choose_metrics({"a": {"m": 1, "n": 2}}, metrics)


def test_a_table_with_nothing_to_choose_asks_for_names():
    with pytest.raises(UserError, match="Name two or more metrics"):
        meta.choose_metrics({"a": {"m": 1, "queries": 2}})
    with pytest.raises(UserError, match="Name two or more metrics"):
        meta.choose_metrics({"a": {f"own{i}": i for i in range(20)}})

"""Metrics of several models: files, labels, and the choice of metrics."""

import json
import math

import pytest

from xmodal.apps.analysis.metric_tables import (
    choose_metrics,
    load_models,
)


def test_small_tables_are_compared_whole_but_for_what_stands_behind_metrics():
    row = {
        "step": 400,
        "x/recall@1": 1,
        "x/recall@1_low": 0,
        "x/recall@1_high": 2,
        "x/queries": 7,
        "x/mean_recall@10": 4,
        "human": 3,
        "sts/spearman": 4,
        "sts/spearman_std": 1,
    }
    assert choose_metrics({"a": row, "b": row}) == ("x/recall@1", "human", "sts/spearman")


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_a_table_and_folders_are_read_together(tmp_path):
    content = json.dumps({"a": {"m": 1, "n": None}, "b": {"m": 2.5}})
    table = write(tmp_path / "table.json", content)
    write(tmp_path / "runs/ours/metrics.json", {"m": 3.0, "sts": None})
    found = load_models([table, f"{tmp_path}/runs/ours/"])
    wanted = {"a": {"m": 1.0, "n": math.nan}, "b": {"m": 2.5}, "ours": {"m": 3.0, "sts": math.nan}}
    assert found.keys() == wanted.keys()
    for name, numbers in wanted.items():
        assert found[name] == pytest.approx(numbers, nan_ok=True)

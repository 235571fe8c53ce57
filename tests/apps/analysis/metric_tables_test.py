"""Metrics of several models: files, labels, and the choice of metrics."""

import json
import math

import pytest

from xmodal.apps.analysis.metric_tables import (
    check_labels,
    choose_metrics,
    load_models,
)
from xmodal.core.errors import UserError
from xmodal.evals.reports.published import eccv_table_4


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


def test_large_tables_are_compared_by_the_metrics_of_the_paper():
    row = eccv_table_4()["BLIP"] | {f"other/mean/recall@{k}": 1.0 for k in range(30)}
    *paper, other = choose_metrics({"a": row, "b": row})
    assert set(paper) == {tag for tag in row if "other" not in tag} - {"coco1k/i2t"}
    assert len(paper) == 6
    assert other == "other/mean/recall@1"  # contains every board


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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "table.json is damaged: it cannot be read as JSON"),
        ('{"a": {"m": "1"}}', "table.json, model 'a', is damaged: 'm' is '1', not a number"),
    ],
)
def test_tables_that_are_none_are_refused(tmp_path, content, message):
    path = write(tmp_path / "table.json", content)
    with pytest.raises(UserError, match=message):
        load_models([path])


def evaluate(folder, hashes):
    """A folder as written by an evaluation; `hashes`: board -> label hash."""
    folder.mkdir()
    metrics = {f"{board}/t2t/{m}": len(folder.name) for board in hashes for m in ("r", "s")}
    (folder / "metrics.json").write_text(json.dumps(metrics))
    boards = {board: {"definition": "d", "label_hash": it} for board, it in hashes.items()}
    (folder / "boards.json").write_text(json.dumps(boards))
    return str(folder)


def test_boards_that_two_folders_share_must_have_the_same_labels(tmp_path):
    whole = evaluate(tmp_path / "whole", {"coco5k": "1111", "cxc": "2222"})
    other = evaluate(tmp_path / "other", {"cxc": "2222"})
    part = evaluate(tmp_path / "part", {"shapes": "4444", "cxc": "3333"})
    check_labels([whole, other])
    message = "board cxc differ: 2222 in .*whole against 3333 in .*part; evaluate both"
    with pytest.raises(UserError, match=message):
        check_labels([whole, other, part])

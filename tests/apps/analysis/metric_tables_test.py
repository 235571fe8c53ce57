"""Metrics of several models: files, labels, and the choice of metrics."""

import json
import math

import pytest

from xmodal.apps.analysis.agree import compare
from xmodal.apps.analysis.agreement.metric_tables import (
    check_labels,
    choose_metrics,
    load_models,
)
from xmodal.core.errors import UserError
from xmodal.evals.reports.published import ECCV_TABLE_5_METRICS, eccv_table_4

RECALLS = ("recall@1", "recall@5", "recall@10")


def evaluated(board, directions=("i2t", "t2i", "t2t", "i2i"), ratings=()):
    """All tags of a board, as in `metrics.json`."""
    judging = [
        f"{board}/{direction}/{metric}"
        for direction in directions
        for metric in (*RECALLS, "median_rank")
    ]
    if "i2t" in directions:
        judging += [f"{board}/mean/{metric}" for metric in RECALLS]
    judging += [f"{board}/{direction}/spearman" for direction in ratings]
    counts = ("queries", "skipped_queries", "tied_queries", "gallery")
    behind = [f"{board}/{direction}/{count}" for direction in directions for count in counts]
    for direction in ratings:
        behind += [f"{board}/{direction}/{name}" for name in ("spearman_std", "pairs")]
    ends = [f"{tag}_{end}" for tag in judging for end in ("low", "high")]
    return dict.fromkeys([*judging, *ends, *behind, f"{board}/mean_recall@10"], 1.0)


CXC = evaluated("cxc", ratings=("sts", "sis", "sits"))


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
    assert paper == [tag for tag in ECCV_TABLE_5_METRICS if tag in row]
    assert len(paper) == 6
    assert other == "other/mean/recall@1"  # contains every board


def test_boards_of_the_paper_do_not_hide_the_others():
    models = dict.fromkeys("ab", CXC | evaluated("coco5k", directions=("i2t", "t2i", "t2t")))
    assert choose_metrics(models) == (
        "coco5k/mean/recall@1",
        "coco5k/mean/recall@5",
        "coco5k/mean/recall@10",
        *choose_metrics({"a": CXC, "b": CXC}),
    )


def test_metrics_that_cannot_be_compared_are_refused():
    models = {"a": {"m": 1.0, "n": 2.0}, "b": {"m": 1.0}}
    with pytest.raises(UserError, match=r"No model has the metric\(s\) \['x'\]; known"):
        choose_metrics(models, ["x", "m"])
    with pytest.raises(UserError, match="Name 2 or more metrics to compare, got"):
        choose_metrics(models, ["m"])
    with pytest.raises(UserError, match=r"Name 2 or more .* models share \['m'\], of all .*'n'"):
        choose_metrics(models)
    assert choose_metrics(models, at_least=1) == ("m",)
    many = {name: {f"own{i}": 1.0 for i in range(20)} for name in "ab"}
    assert len(choose_metrics(many, at_least=1)) == 20


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
        ("{", "Cannot read .*table.json"),
        ("{}", "must have a JSON object that is not empty"),
        ('{"a": {"m": null}}', "model 'a' has no number"),
        ('{"a": {"m": "1"}}', "'m' in .*table.json, model 'a' is '1', expected a number"),
        ('{"a": {"m": 1}, "a": {"m": 2}}', "'a' occurs twice"),
        ('{"cxc/i2t/recall@1": 3.0}', "pass the folder and not its metrics.json"),
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
    assert check_labels([whole, other]) == ()
    message = "board cxc differ: 2222 in .*whole against 3333 in .*part; evaluate both"
    with pytest.raises(UserError, match=message):
        check_labels([whole, other, part])
    with pytest.raises(UserError, match=message):
        compare([whole, part], str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()
    compare([whole, other], str(tmp_path / "out"))


def test_tables_have_no_labels_and_old_folders_say_none(tmp_path):
    table = tmp_path / "table.json"
    table.write_text(json.dumps({"paper": {"cxc/t2t/r": 1, "cxc/t2t/s": 3}}))
    ours = evaluate(tmp_path / "ours", {"cxc": "2222"})
    assert check_labels([str(table), ours]) == ()
    (tmp_path / "ours/boards.json").unlink()
    assert len(check_labels([ours])) == 1
    text = compare([str(table), ours], str(tmp_path / "out"))
    assert f"- Not known to rest on the same labels, without boards.json: {ours}.\n" in text

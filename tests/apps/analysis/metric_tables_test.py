"""Metrics of several models: files, labels, and the choice of metrics."""

from xmodal.apps.analysis.metric_tables import (
    choose_metrics,
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


def test_of_many_metrics_every_direction_has_one():
    directions = [f"coco5k/{each}" for each in ("i2t", "t2i", "mean")]
    row = {f"{each}/recall@{k}": 1 for each in directions for k in (1, 2, 3, 5, 10)}
    models = {"a": row, "b": row}
    assert choose_metrics(models, paper=False) == (
        "coco5k/i2t/recall@1",
        "coco5k/t2i/recall@1",
    )
    assert choose_metrics(models)[0] == "coco5k/mean/recall@1"

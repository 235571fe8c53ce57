"""Flat numbers of small results, computed by hand and with slow loops."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from xmodal.evals.reports import summary, uncertainty
from xmodal.evals.reports.results import BoardResult, CorrelationResult, DirectionResult


def direction(rank, clusters, *, metrics=("recall@1", "recall@10"), values=None, skipped=0):
    rank = None if rank is None else np.array(rank, np.int32)
    if values is None:
        values = {m: 100.0 * (rank < int(m.removeprefix("recall@"))) for m in metrics}
    return DirectionResult(
        query_ids=np.arange(len(clusters)),
        clusters=np.array(clusters, np.int32),
        values=values,
        rank=rank,
        tied=np.arange(len(clusters)) == 1,
        gallery=20,
        skipped=skipped,
        has_median=rank is not None and "recall@1" in values,
    )


def board(name="b", correlations=None, **directions):
    return BoardResult(name, "any", "0", directions, correlations or {})


BOTH = {
    "i2t": direction([0, 3, 12], [0, 1, 2], skipped=4),
    "t2i": direction([0, 0, 5, 11], [0, 0, 1, 2]),
}


def test_numbers_by_hand():
    found = summary.summarize([board(**BOTH)], intervals=False)
    assert found == {
        "b/i2t/recall@1": pytest.approx(100 / 3),
        "b/i2t/recall@10": pytest.approx(200 / 3),
        "b/i2t/median_rank": 4,
        "b/t2i/recall@1": 50,
        "b/t2i/recall@10": 75,
        "b/t2i/median_rank": 3,  # of 0 0 5 11: half-way 2.5, rounded down, counted from 1
        "b/mean/recall@1": pytest.approx((100 / 3 + 50) / 2),
        "b/mean/recall@10": pytest.approx((200 / 3 + 75) / 2),
        "b/mean_recall@10": pytest.approx((200 / 3 + 75) / 2),
        "b/i2t/queries": 3,
        "b/i2t/skipped_queries": 4,
        "b/i2t/tied_queries": 1,
        "b/i2t/gallery": 20,
        "b/t2i/queries": 4,
        "b/t2i/skipped_queries": 0,
        "b/t2i/tied_queries": 1,
        "b/t2i/gallery": 20,
    }
    assert all(type(value) is float for value in found.values())


def test_rsum_and_the_curves():
    metrics = ("recall@1", "recall@5", "recall@10")
    directions = {
        "i2t": direction([0, 3, 12], [0, 1, 2], metrics=metrics),
        "t2i": direction([0, 0, 5, 11], [0, 0, 1, 2], metrics=metrics),
    }
    found = summary.summarize([board(**directions)], intervals=True, samples=50)
    assert found["b/rsum"] == pytest.approx(100 / 3 + 200 / 3 + 200 / 3 + 50 + 50 + 75)
    assert found["b/rsum_low"] < found["b/rsum"] < found["b/rsum_high"]
    ends = {tag.rpartition("/")[2] for tag in summary.select_curves(found)}
    assert ends == {*metrics, "median_rank", "rsum"}
    assert "b/mean/recall@10" in summary.select_curves(found)
    assert "b/mean_recall@10" not in summary.select_curves(found)


def test_unknown_ties_are_not_counted():
    unknown = dataclasses.replace(BOTH["i2t"], tied=None)
    found = summary.summarize([board(i2t=unknown)], intervals=True, samples=9)
    known = summary.summarize([board(i2t=BOTH["i2t"])], intervals=True, samples=9)
    assert found == {tag: value for tag, value in known.items() if tag != "b/i2t/tied_queries"}


def test_correlations_over_their_defined_samples():
    samples = np.array([50.0, np.nan, 54.0, 52.0])
    correlations = {
        "sts": CorrelationResult(samples, 4, np.arange(18).reshape(2, 9), np.zeros(9)),
        "sis": CorrelationResult(np.full(4, np.nan), 3, np.zeros((2, 8), int), np.zeros(8)),
    }
    # Without any influence only the noise of the draws is left.
    half = stats.t.ppf(0.975, 17) * np.std([50, 54, 52]) / np.sqrt(3)
    width = half / 100 / (1 - 0.52**2)
    found = summary.summarize([board(correlations=correlations)], intervals=True)
    assert found == pytest.approx(
        {
            "b/sts/spearman": 52.0,
            "b/sts/spearman_low": 100 * np.tanh(np.arctanh(0.52) - width),
            "b/sts/spearman_high": 100 * np.tanh(np.arctanh(0.52) + width),
            "b/sts/spearman_std": np.std([50, 54, 52]),
            "b/sts/pairs": 9,
            "b/sts/pairs_per_sample": 4,
            "b/sis/spearman": math.nan,
            "b/sis/spearman_low": math.nan,
            "b/sis/spearman_high": math.nan,
            "b/sis/spearman_std": math.nan,
            "b/sis/pairs": 8,
            "b/sis/pairs_per_sample": 3,
        },
        nan_ok=True,
    )


@pytest.mark.parametrize(
    ("directions", "expected"),
    [
        (("i2t", "t2i", "t2t", "i2i"), (100 / 3 + 100) / 2),
        (("t2t",), 200 / 3),
        (("i2i",), None),  # images alone have nothing to select by
        (("t2t", "i2i"), None),
        (("i2t", "t2t"), None),
    ],
)
def test_the_metric_that_selects_checkpoints(directions, expected):
    made = {
        "i2t": direction([9, 10, 11], [0, 1, 2]),
        "t2i": direction([0, 0, 0], [0, 1, 2]),
        "t2t": direction([0, 10, 9], [0, 1, 2]),
        "i2i": direction([5, 5, 5], [0, 1, 2]),
    }
    found = summary.summarize([board(**{name: made[name] for name in directions})], intervals=False)
    assert found.get("b/mean_recall@10") == (expected and pytest.approx(expected))


def test_tags_of_precision_boards():
    values = {"pmrp": np.array([20.0, 60.0])}
    pmrp = board(
        "pmrp",
        i2t=direction([3, 4], [0, 1], values=values),
        t2i=direction([3, 4], [0, 1], values=values),
    )
    eccv = board(
        "eccv",
        i2t=direction(None, [0, 1], values={"map@r": np.array([1.0, 2.0])}),
        t2i=direction(None, [0, 1], values={"map@r": np.array([2.0, 3.0])}),
    )
    found = summary.summarize([pmrp, eccv], intervals=False)
    metrics = {tag: value for tag, value in found.items() if not tag.endswith(("ies", "gallery"))}
    assert metrics == {
        "pmrp/i2t": 40,
        "pmrp/t2i": 40,
        "pmrp/mean": 40,
        "eccv/i2t/map@r": 1.5,
        "eccv/t2i/map@r": 2.5,
        "eccv/mean/map@r": 2,
    }


def test_intervals_of_means_come_from_joint_resamples():
    """Where t2i fails exactly when i2t succeeds, the mean over both does not vary at all."""
    generator = np.random.default_rng(0)
    hit = generator.random(200) < 0.5
    i2t = direction(np.where(hit, 0, 50), np.arange(200))
    t2i = direction(np.where(hit, 50, 0), np.arange(200))
    found = summary.summarize([board(i2t=i2t, t2i=t2i)], intervals=True, samples=300)
    assert found["b/i2t/recall@1_high"] - found["b/i2t/recall@1_low"] > 10
    assert found["b/mean/recall@1_low"] == found["b/mean/recall@1_high"] == 50


def test_intervals_are_those_of_the_samples():
    boards = [board("a", **BOTH), board("b", **BOTH)]
    found = summary.summarize(boards, intervals=True, samples=99, seed=3)
    plain = summary.summarize(boards, intervals=False)
    assert {tag: found[tag] for tag in plain} == plain
    drawn = uncertainty.Bootstrap(samples=99, seed=3).resample(boards[0])
    for tag in ("a/i2t/recall@1", "a/i2t/median_rank", "a/t2i/recall@10"):
        assert (found[f"{tag}_low"], found[f"{tag}_high"]) == uncertainty.compute_interval(
            drawn[tag]
        )
        assert found[f"{tag}_low"] <= found[tag] <= found[f"{tag}_high"]
    intervals = {tag.removesuffix("_low") for tag in found if tag.endswith("_low")}
    assert intervals == {tag.removesuffix("_high") for tag in found if tag.endswith("_high")}
    assert {tag.split("/", 1)[1] for tag in intervals} == {
        *(f"{t}/{m}" for t in ("i2t", "t2i") for m in ("recall@1", "recall@10", "median_rank")),
        "mean/recall@1",
        "mean/recall@10",
    }


def test_no_query_and_no_direction():
    empty = board(i2t=direction([], []), t2i=direction([0], [0]))
    found = summary.summarize([empty, board("none")], intervals=True, samples=5)
    assert found["b/i2t/queries"] == 0
    for tag in ("i2t/recall@1", "i2t/median_rank", "mean/recall@1"):
        for suffix in ("", "_low", "_high"):
            assert math.isnan(found[f"b/{tag}{suffix}"])
    assert found["b/t2i/recall@1_low"] == 100
    assert not any(tag.startswith("none") for tag in found)

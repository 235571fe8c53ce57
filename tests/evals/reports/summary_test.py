"""Flat numbers of small results, computed by hand and with slow loops."""

import math

import numpy as np
import pytest
from scipy import stats

from tests.evals.reports.directions import make_direction
from xmodal.evals.reports import summary
from xmodal.evals.reports.results import CorrelationResult, Result

BOTH = {
    "i2t": make_direction([0, 3, 12], [0, 1, 2], skipped=4),
    "t2i": make_direction([0, 0, 5, 11], [0, 0, 1, 2]),
}


def test_numbers_by_hand():
    found = summary.summarize([Result("b", "any", "0", BOTH)], intervals=False)
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


def test_correlations_over_their_defined_samples():
    samples = np.array([50.0, np.nan, 54.0, 52.0])
    correlations = {
        "sts": CorrelationResult(samples, 4, np.arange(18).reshape(2, 9), np.zeros(9)),
        "sis": CorrelationResult(np.full(4, np.nan), 3, np.zeros((2, 8), int), np.zeros(8)),
    }
    # Without any influence only the noise of the draws is left.
    half = stats.t.ppf(0.975, 17) * np.std([50, 54, 52]) / np.sqrt(3)
    width = half / 100 / (1 - 0.52**2)
    found = summary.summarize([Result("b", "any", "0", {}, correlations)], intervals=True)
    assert found == pytest.approx(
        {
            "b/sts/spearman": 52.0,
            "b/sts/spearman_low": 100 * np.tanh(np.arctanh(0.52) - width),
            "b/sts/spearman_high": 100 * np.tanh(np.arctanh(0.52) + width),
            "b/sts/spearman_std": np.std([50, 54, 52]),
            "b/sts/pairs": 9,
            "b/sts/pairs_per_sample": 4,
            **{f"b/sis/spearman{end}": math.nan for end in ("", "_low", "_high", "_std")},
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
        (("i2t", "t2t"), None),
    ],
)
def test_the_metric_that_selects_checkpoints(directions, expected):
    made = {
        "i2t": make_direction([9, 10, 11], [0, 1, 2]),
        "t2i": make_direction([0, 0, 0], [0, 1, 2]),
        "t2t": make_direction([0, 10, 9], [0, 1, 2]),
        "i2i": make_direction([5, 5, 5], [0, 1, 2]),
    }
    made = {name: made[name] for name in directions}
    found = summary.summarize([Result("b", "any", "0", made)], intervals=False)
    assert found.get("b/mean_recall@10") == (expected and pytest.approx(expected))

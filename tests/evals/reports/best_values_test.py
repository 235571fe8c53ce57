"""The best models of a metric."""

import math

import pytest

from xmodal.evals.reports.best_values import find_best


def number(value, low, high, tag="b/i2t/recall@1"):
    return {tag: value, f"{tag}_low": low, f"{tag}_high": high}


@pytest.mark.parametrize(
    ("models", "best"),
    [
        ([number(50, 48, 52), number(51, 49, 53), number(40, 39, 41)], [True, True, False]),
        # An interval is that of the best model, not of the nearest.
        ([number(50, 49, 51), number(45, 44, 49.5), number(40, 36, 45)], [True, True, False]),
        ([{"b/i2t/recall@1": 3.0}, {}, {"b/i2t/recall@1": 2.0}], [True, False, False]),
        ([{"b/i2t/recall@1": 3.0}, {"b/i2t/recall@1": math.nan}], [False, False]),
        ([], []),
    ],
)
def test_models_not_separable_from_the_best(models, best):
    assert find_best("b/i2t/recall@1", models) == best

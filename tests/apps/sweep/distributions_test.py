"""Draws of a single value."""

import math

import numpy as np
import pytest

from xmodal.apps.sweep.distributions import Choice, Integers, LogUniform, Uniform
from xmodal.base.config import UserError

QUANTILES = (np.arange(4000) + 0.5) / 4000


def test_quantiles_of_uniform_numbers():
    drawn = [Uniform(-2.0, 6.0).at(q) for q in QUANTILES]
    np.testing.assert_allclose(np.quantile(drawn, [0.25, 0.5, 0.75]), [0, 2, 4], atol=0.01)
    assert Uniform(0.0, 0.5).at(0.123456789) == 0.06173  # four digits


def test_quantiles_of_logarithms():
    drawn = [LogUniform(1e-4, 1e-2).at(q) for q in QUANTILES]
    np.testing.assert_allclose(np.median(drawn), 1e-3, rtol=0.01)
    np.testing.assert_allclose(np.mean(np.log10(drawn) < -3.5), 0.25, atol=0.001)


def test_integers_and_choices_come_equally_often():
    counts = np.bincount([Integers(3, 7).at(q) for q in QUANTILES])
    np.testing.assert_array_equal(counts, [0, 0, 0, 800, 800, 800, 800, 800])
    choice = Choice((64, None, "text", {"name": "x"}))
    drawn = [choice.at(q) for q in QUANTILES]
    assert [drawn.count(value) for value in choice.values] == [1000] * 4


@pytest.mark.parametrize("row", [Uniform(0.1, 0.3), LogUniform(0.012346, 7.65432), Integers(1, 2)])
def test_draws_stay_within_their_bounds(row):
    for quantile in (0.0, math.nextafter(1.0, 0.0)):
        assert row.low <= row.at(quantile) <= row.high
    assert row.ends() == (row.low, row.high)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Uniform(1.0, 1.0), "low=1.0 is not below high=1.0"),
        (lambda: Choice(()), "at least one value"),
        (lambda: Choice((1, 2, 1)), "a value twice"),
    ],
)
def test_distributions_without_a_draw_are_refused(make, message):
    with pytest.raises(UserError, match=message):
        make()

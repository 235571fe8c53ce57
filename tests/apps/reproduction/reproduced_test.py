"""Measured numbers against those of `configs/results`."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from xmodal.apps.reproduction.entries import LedgerRow, LedgerTable, System, Value
from xmodal.apps.reproduction.reproduced import (
    compare_rows,
    describe_verdict,
    is_reproduced,
)

SYSTEM = System("group/key", "key")
TABLE = LedgerTable("group/table", ("a/x", "a/y"), tolerance=0.5, reason="seeds")


def row(published=None, measured=None, table=TABLE, system=SYSTEM):
    values = ({k: Value(v) for k, v in (each or {}).items()} for each in (published, measured))
    return LedgerRow(system, table, *values, system.label)


@pytest.mark.parametrize(("new", "limit"), [(1, 0.5 + 4.968 * 0.2), (3, 0.5 + 3.513 * 0.2)])
def test_few_seeds_tell_little_about_the_next(new, limit):
    """Half a 95 % prediction interval from three seeds: t = 4.303, times (1/3 + 1/new)^0.5."""
    trained = dataclasses.replace(SYSTEM, seeds=(0, 1, 2))
    stored = row(measured={"a/x": "41.3±0.2"}, system=trained)
    for measured, inside in ((41.3 + limit - 1e-3, True), (41.3 + limit + 1e-3, False)):
        (check,) = compare_rows([stored], [{"a/x": measured}] * new)
        assert check.inside is inside
    # The deviation of a published number may be of anything.
    (check,) = compare_rows([row({"a/x": "41.3±0.2"}, system=trained)], [{"a/x": 42.21}])
    assert check.inside is False


def test_names_seeds_and_intervals():
    metrics = {"coco/a/x": 1.0, "coco/a/x_low": 0.5, "coco/a/x_high": 2.0, "mean/a/x": 9.0}
    # Two evaluators have it, and none is named.
    (check,) = compare_rows([row({"a/x": "1"})], [metrics])
    assert check.inside is None
    assert not is_reproduced([check])
    named = dataclasses.replace(SYSTEM, evaluator="coco")
    (check,) = compare_rows([row({"a/x": "1"}, system=named)], [metrics])
    assert (check.measured, check.low, check.high) == (1.0, 0.5, 2.0)
    # Of several seeds, their own intervals do not count.
    seeds = [{"a/x": value, "a/x_low": 0.0, "a/x_high": 9.0} for value in (1.0, 2.0, 6.0)]
    (check,) = compare_rows([row({"a/x": "2"})], seeds)
    half = stats.t.ppf(0.975, 2) * np.std([1, 2, 6], ddof=1) / np.sqrt(3)
    assert (check.measured, check.low, check.high) == pytest.approx((3, 3 - half, 3 + half))


def test_unverified_numbers_and_words_do_not_decide():
    doubtful = dataclasses.replace(TABLE, unverified=True)
    rows = [row({"a/x": "9"}, table=doubtful), row({"a/x": "1", "a/y": "hardest"})]
    checks = compare_rows(rows, [{"a/x": 1.0}])
    assert [check.inside for check in checks] == [False, True]
    assert is_reproduced(checks)
    assert is_reproduced(checks[:1]) is None
    assert describe_verdict(checks[:1]).startswith("undecided, ")
    assert is_reproduced([]) is None  # Of a system without a claim.
    # A missing value decides nothing, but is not a success either.
    absent = compare_rows(rows[:1], [{}])
    assert is_reproduced(absent) is False
    assert describe_verdict(absent) == "not reproduced, 0 of 0 numbers inside, 1 not computed"
    assert is_reproduced(compare_rows(rows, [{"a/x": float("nan")}])) is False

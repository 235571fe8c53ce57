"""Majority votes and their test on small tables."""

import numpy as np
import pytest
import scipy.stats

from xmodal.apps.analysis import votes
from xmodal.core.errors import UserError


def rows(group, *examples):
    return [(group, str(number), answer) for number, each in enumerate(examples) for answer in each]


def test_an_example_counts_as_its_majority():
    answers = rows(
        "Story",
        ["better", "better", "worse"],
        ["better", "both_good", "better"],
        ["worse", "better", "both_bad"],  # no majority
        ["both_bad"],
        ["better", "worse"],  # half is not a majority
    )
    (vote,) = votes.count_votes(answers).values()
    assert vote.examples == 5
    assert vote.shares == {"better": 40, "worse": 0, "both_good": 0, "both_bad": 20}
    expected = scipy.stats.ttest_1samp([1 / 3, 2 / 3, 0, 0, 0], 0)
    assert (vote.t, vote.p) == pytest.approx((expected.statistic, expected.pvalue))


def test_groups_and_all_of_them():
    found = votes.count_votes([*rows("a", ["better"], ["worse"]), *rows("b", ["better"])])
    assert list(found) == ["a", "b", "all"]
    assert found["a"].shares["better"] == 50
    assert found["all"].shares["better"] == pytest.approx(200 / 3)
    assert np.isnan(found["b"].t)  # one example
    with pytest.raises(UserError, match=r"'good' in the answers on '0'; known: \['better', "):
        votes.count_votes(rows("a", ["good"]))

"""Majority votes and their test on small tables, and the power of a sign test."""

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
    assert vote.shares == {"better": 40, "worse": 0, "both_good": 0, "both_bad": 20, "same": 0}
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


def test_an_example_that_nobody_was_asked_about_counts_in_all_shares():
    (vote,) = votes.count_votes([*rows("Story", ["better"], ["same"], ["same"])]).values()
    assert vote.shares["better"] == pytest.approx(100 / 3)
    assert vote.shares["same"] == pytest.approx(200 / 3)
    assert vote.t == pytest.approx(scipy.stats.ttest_1samp([1, 0, 0], 0).statistic)


def test_no_share_is_left_where_every_example_has_a_majority(tmp_path, monkeypatch, capsys):
    answers = ["better", "better", "worse", "both_good", "both_good", "both_bad"]
    lines = ["example,answer", *(f"{number},{each}" for number, each in enumerate(answers))]
    (tmp_path / "answers.csv").write_text("\n".join(lines))
    monkeypatch.setattr("sys.argv", ["votes", f"--answers={tmp_path / 'answers.csv'}"])
    votes.main()
    cells = capsys.readouterr().out.splitlines()[-1].split("|")
    assert [each.strip() for each in cells[2:9]] == ["6", "33", "17", "33", "17", "0", "0"]


def at_least(wins, of, chance):
    return scipy.stats.binom.sf(wins - 1, of, chance)


@pytest.mark.parametrize(("examples", "raters", "level"), [(10, 3, 0.05), (100, 5, 0.01)])
def test_the_smallest_preference_is_found_as_often_as_the_power_says(examples, raters, level):
    share, answers = votes.smallest_preference(examples, raters, level)
    wins = examples // 2
    while scipy.stats.binomtest(wins, examples).pvalue > level:
        wins += 1
    assert at_least(wins, examples, share) == pytest.approx(0.8)
    assert at_least((raters + 1) // 2, raters, answers) == pytest.approx(share)

"""Agreement against loops over pairs of answers; quality of individual raters."""

import itertools

import numpy as np
import pytest

from xmodal.apps.annotate.answers import Answer
from xmodal.apps.annotate.rater_quality import compute_alphas

ORDER = ["no", "weak_no", "weak_yes", "yes"]


def answer(unit, rater, value, kind="sits", golden=None, state="finished", seconds=3.0):
    return Answer(
        *(unit, 0, rater, kind, 10 + unit, 1, None, golden, "", str(value), seconds),
        *(False, state, False, True),
    )


def slow_alpha(by_unit, distance):
    """1 - observed / expected disagreement, as defined by Krippendorff (2011)."""
    by_unit = [values for values in by_unit if len(values) > 1]
    everything = list(itertools.chain(*by_unit))
    observed = sum(
        sum(distance(a, b) for a, b in itertools.permutations(values, 2)) / (len(values) - 1)
        for values in by_unit
    ) / len(everything)
    expected = sum(distance(a, b) for a, b in itertools.permutations(everything, 2)) / (
        len(everything) * (len(everything) - 1)
    )
    return 1 - observed / expected


def ordinal(everything):
    counts = [everything.count(rank) for rank in range(4)]

    def distance(a, b):
        low, high = sorted((a, b))
        return (sum(counts[low : high + 1]) - (counts[low] + counts[high]) / 2) ** 2

    return distance


@pytest.fixture
def drawn():
    """Rater, unit and number of answers, with gaps."""
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 4, 12)
    return [
        (f"rater{r}", unit, int(np.clip(truth[unit] + rng.integers(-1, 2), 0, 3)))
        for unit in range(12)
        for r in rng.permutation(4)[: rng.integers(1, 5)]
    ]


def by_unit(drawn, change=lambda value: value):
    return [[change(v) for _, u, v in drawn if u == unit] for unit in range(12)]


def test_alpha_of_sliders_is_that_of_a_slow_loop(drawn):
    answers = [answer(unit, rater, value + 0.25) for rater, unit, value in drawn]
    answers.append(answer(0, "rater9", 4.5, state="rejected"))
    expected = slow_alpha(by_unit(drawn), lambda a, b: (a - b) ** 2)
    assert compute_alphas(answers) == {"sits": {"interval": pytest.approx(expected)}}
    assert 0 < expected < 1


def test_alphas_of_matches(drawn):
    answers = [answer(unit, rater, ORDER[value], "match") for rater, unit, value in drawn]
    answers.append(answer(0, "rater9", "yes", "match", golden="no"))
    paired = [v for values in by_unit(drawn) if len(values) > 1 for v in values]
    found = compute_alphas(answers)["match"]
    assert found["ordinal"] == pytest.approx(slow_alpha(by_unit(drawn), ordinal(paired)))
    yes = by_unit(drawn, lambda value: value >= 2)
    assert found["nominal"] == pytest.approx(slow_alpha(yes, lambda a, b: a != b))

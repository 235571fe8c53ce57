"""Agreement against loops over pairs of answers; quality of individual raters."""

import itertools

import numpy as np
import pytest

from xmodal.apps.annotate.answers import Answer
from xmodal.apps.annotate.labels import mean_ratings
from xmodal.apps.annotate.rater_quality import compute_alphas

ORDER = ["no", "weak_no", "weak_yes", "yes"]


def answer(unit, rater, value, kind, golden=None):
    return Answer(
        *(unit, 0, rater, kind, 10 + unit, 1, None, golden, "", value, 3.0),
        *(False, "finished", False, True),
    )


def test_a_pair_rated_in_both_orders_or_by_two_methods_keeps_its_ratings():
    pairs = [(11, 12, "a"), (12, 11, "a"), (11, 12, "b")]
    answers = [
        answer(unit, rater, value, "sis")._replace(left=left, right=right, note=method)
        for unit, (left, right, method) in enumerate(pairs)
        for rater, value in (("x", str(unit)), ("y", str(unit + 0.5)))
    ]
    found = mean_ratings(answers)["sis"]
    assert [*zip(found["left_ids"], found["methods"], strict=True)] == [(a, m) for a, _, m in pairs]
    np.testing.assert_allclose(found["scores"], [0.25, 1.25, 2.25])
    alpha = slow_alpha([[0, 0.5], [1, 1.5], [2, 2.5]], lambda a, b: (a - b) ** 2)
    assert compute_alphas(answers)["sis"]["interval"] == pytest.approx(alpha)


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


def test_alphas_of_matches():
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 4, 12)
    values = [
        {r: int(np.clip(value + rng.integers(-1, 2), 0, 3)) for r in rng.permutation(4)[:count]}
        for value, count in zip(truth, rng.integers(1, 5, 12), strict=True)
    ]
    answers = [
        answer(unit, f"rater{rater}", ORDER[value], "match")
        for unit, by_rater in enumerate(values)
        for rater, value in by_rater.items()
    ]
    answers.append(answer(0, "rater9", "yes", "match", golden="no"))
    by_unit = [list(by_rater.values()) for by_rater in values]
    paired = [value for own in by_unit if len(own) > 1 for value in own]
    found = compute_alphas(answers)["match"]
    assert found["ordinal"] == pytest.approx(slow_alpha(by_unit, ordinal(paired)))
    yes = [[value >= 2 for value in own] for own in by_unit]
    assert found["nominal"] == pytest.approx(slow_alpha(yes, lambda a, b: a != b))

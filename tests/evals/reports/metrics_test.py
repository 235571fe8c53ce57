"""Recall, median rank, precision and correlation on examples and against slow loops."""

import numpy as np
import pytest
import scipy.stats

from xmodal.evals.labels.positives import Ragged
from xmodal.evals.reports.metrics import (
    compute_map_at_r,
    compute_median_rank,
    compute_r_precision,
    compute_recall_values,
    compute_spearman,
    draw_pairs,
    tie_breakers,
)


def test_recall_counts_the_first_k_places():
    rank = np.array([3, 0, 10, 5, 1, 9, 4], np.int32)
    found = compute_recall_values(rank, ("recall@1", "median_rank", "recall@10", "map@r"))
    assert {name: values.tolist() for name, values in found.items()} == {
        "recall@1": [0, 100, 0, 0, 0, 0, 0],
        "recall@10": [100, 100, 0, 100, 100, 100, 100],
    }
    assert found["recall@1"].dtype == np.float64


@pytest.mark.parametrize(
    ("rank", "expected"),
    [([0], 1), ([0, 1], 1), ([0, 3, 9], 4), ([1, 2, 2, 5], 3), ([0, 0, 1, 8], 1)],
)
def test_median_rank_floors_a_half(rank, expected):
    assert compute_median_rank(np.array(rank)) == expected


def places(depth, *right):
    """One list with positives at the given places, counted from 1."""
    hits = np.zeros((1, depth), bool)
    hits[0, np.array(right, int) - 1] = True
    return hits


# The synthetic lists of the human study of ECCV Caption, and their printed mAP@R.
STUDY = {
    "only the first is wrong": (range(2, 9), 66.03),
    "only the first is right": ([1], 12.5),
    "the first five are wrong": ([6, 7, 8], 10.34),
    "only the fifth is right": ([5], 2.5),
    "all are wrong": ([], 0.0),
}


@pytest.mark.parametrize("name", STUDY)
def test_map_at_r_of_the_human_study(name):
    right, expected = STUDY[name]
    (found,) = compute_map_at_r(places(8, *right), np.array([8]))
    assert round(100 * found, 2) == expected


@pytest.mark.parametrize("depth", [8, 9, 50])
def test_places_behind_r_do_not_count(depth):
    hits = places(depth, 2, *range(4, depth + 1))
    mean = compute_map_at_r(hits, np.array([3]))
    share = compute_r_precision(hits, np.array([3]))
    np.testing.assert_allclose([mean[0], share[0]], [(1 / 2) / 3, 1 / 3], rtol=1e-15)


def test_precisions_by_hand():
    hits = np.array([[1, 0, 1, 1], [0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]], bool)
    r = np.array([4, 2, 4, 1])
    expected = [(1 + 2 / 3 + 3 / 4) / 4, (1 / 2) / 2, (1 + 1) / 4, 0]
    np.testing.assert_allclose(compute_map_at_r(hits, r), expected, rtol=1e-15)
    np.testing.assert_allclose(compute_r_precision(hits, r), [0.75, 0.5, 0.5, 0])


def test_a_perfect_list_that_cannot_hold_all_positives():
    """R includes a positive that is not in the gallery, so neither metric reaches 1."""
    hits, r = np.ones((1, 7), bool), np.array([8])
    hits = np.pad(hits, [(0, 0), (0, 1)])  # the end of the gallery
    np.testing.assert_allclose(compute_map_at_r(hits, r), 7 / 8)
    np.testing.assert_allclose(compute_r_precision(hits, r), 7 / 8)


PAIRS = 240


def ratings(seed=0):
    """Scores of 240 pairs of 90 items: human ones with five-rater ties, model ones with copies."""
    generator = np.random.default_rng(seed)
    ends = generator.integers(0, 90, (2, PAIRS))
    human = generator.integers(0, 6, (5, PAIRS)).mean(0)
    model = (human + generator.standard_normal(PAIRS)).astype(np.float32)
    model[::7] = model[0]
    queries, rows = np.unique(ends, return_inverse=True)
    pairs = Ragged.from_pairs(rows.ravel(), np.tile(np.arange(PAIRS), 2), len(queries))
    return human, model, pairs, ends


def test_equals_scipy_on_every_sample():
    human, model, pairs, _ = ratings()
    drawn = draw_pairs(pairs, samples=100, seed=3)
    expected = [scipy.stats.spearmanr(model[pair], human[pair]).statistic for pair in drawn]
    found = compute_spearman(model, human, drawn)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert found.std() > 0.01


def test_spearman_by_hand():
    # Ranks 1 2.5 2.5 4 against 2 1 3 4. Deviations -1.5 0 0 1.5 and -.5 -1.5 .5 1.5.
    x, y = np.array([0.0, 1, 1, 2]), np.array([1.0, 0, 2, 3])
    (found,) = compute_spearman(x, y, np.array([[0, 1, 2, 3]]))
    assert found == pytest.approx((0.75 + 2.25) / np.sqrt(4.5 * 5))


def test_constant_scores_have_no_correlation():
    human, _, pairs, _ = ratings()
    drawn = draw_pairs(pairs, samples=5, seed=0)
    assert np.isnan(compute_spearman(np.ones(PAIRS), human, drawn)).all()


def test_a_missing_score_leaves_only_the_samples_without_it_defined():
    human, model, pairs, _ = ratings()
    drawn = draw_pairs(pairs, samples=60, seed=4)
    expected = compute_spearman(model, human, drawn)
    model[13] = human[14] = np.nan
    hit = np.isin(drawn, [13, 14]).any(1)
    assert 0 < hit.sum() < 60
    expected[hit] = np.nan
    np.testing.assert_array_equal(compute_spearman(model, human, drawn), expected)


@pytest.mark.parametrize("queries", [1, 2, 3])
def test_samples_of_less_than_two_pairs_are_undefined(queries):
    pairs = Ragged.from_pairs(np.arange(queries), np.arange(queries), queries)
    drawn = draw_pairs(pairs, samples=4, seed=0)
    assert drawn.shape == (4, queries // 2)
    scores = np.arange(float(queries))
    np.testing.assert_array_equal(compute_spearman(scores, scores, drawn), [np.nan] * 4)


def test_a_sample_is_half_of_the_queries_each_with_one_of_its_pairs():
    _, _, pairs, ends = ratings()
    drawn = draw_pairs(pairs, samples=400, seed=1)
    num_queries = len(pairs.lengths)
    assert drawn.shape == (400, num_queries // 2)
    # A pair can be drawn from each of its two ends, but not more often.
    assert max(np.bincount(row).max() for row in drawn) == 2
    # A pair is drawn with probability 1/2 * (1/degree of one end + 1/degree of the other).
    degree = np.bincount(ends.ravel(), minlength=90)
    expected = 0.5 * (1 / degree[ends[0]] + 1 / degree[ends[1]])
    expected[ends[0] == ends[1]] /= 2  # only one end
    frequency = np.bincount(drawn.ravel(), minlength=PAIRS) / 400
    assert np.abs(frequency - expected).max() < 0.15
    assert np.abs((frequency - expected).mean()) < 1e-3


def test_seed_decides():
    _, _, pairs, _ = ratings()
    same, again, other = (draw_pairs(pairs, samples=3, seed=s) for s in (5, 5, 6))
    np.testing.assert_array_equal(same, again)
    assert (same != other).any()


@pytest.mark.parametrize(
    ("tag", "others"),
    [
        ("a/b/i2t/recall@5", ["recall@1", "median_rank", "recall@10"]),
        ("a/b/t2t/median_rank", ["recall@1", "recall@5", "recall@10"]),
        ("sts/avg2016/pearson", ["spearman"]),
        ("shape/accuracy@1", ["mean_class_accuracy", "accuracy@5"]),
        ("eccv/i2t/map@r", []),
    ],
)
def test_ties_are_broken_by_the_other_metrics_of_a_table(tag, others):
    table = tag.rpartition("/")[0]
    assert tie_breakers(tag) == [f"{table}/{other}" for other in others]


def test_reciprocal_ranks():
    found = compute_recall_values(np.array([0, 1, 3, 9]), ("recall@1", "mrr"))
    np.testing.assert_allclose(found["mrr"], [100, 50, 25, 10])
    assert tie_breakers("own/captioned_images/mean_mrr") == []


@pytest.mark.parametrize("tag", ["mean_recall@10", "mean/recall@10", "rsum"])
def test_ties_of_a_mean_are_broken_by_the_mean_and_its_directions(tag):
    found = tie_breakers(f"own/{tag}")
    assert found[0] == "own/mean/recall@5"
    assert found[-1] == "own/t2t/median_rank"
    assert found.index("own/t2t/recall@5") < found.index("own/mean/recall@1")

"""Bootstrap Spearman against scipy, sample by sample."""

import numpy as np
import pytest
import scipy.stats

from xmodal.evals.boards.ragged import Ragged
from xmodal.evals.metrics import correlation

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


def test_equals_scipy_on_every_sample(monkeypatch):
    monkeypatch.setattr(correlation, "_CODES_PER_CHUNK", 7 * PAIRS)  # chunks of 7 samples
    human, model, pairs, _ = ratings()
    drawn = correlation.draw_pairs(pairs, samples=100, seed=3)
    expected = [scipy.stats.spearmanr(model[pair], human[pair]).statistic for pair in drawn]
    found = correlation.compute_spearman(model, human, drawn)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert found.std() > 0.01


def test_by_hand():
    # Ranks 1 2.5 2.5 4 against 2 1 3 4. Deviations -1.5 0 0 1.5 and -.5 -1.5 .5 1.5.
    x, y = np.array([0.0, 1, 1, 2]), np.array([1.0, 0, 2, 3])
    (found,) = correlation.compute_spearman(x, y, np.array([[0, 1, 2, 3]]))
    assert found == pytest.approx((0.75 + 2.25) / np.sqrt(4.5 * 5))


def test_constant_scores_have_no_correlation():
    human, _, pairs, _ = ratings()
    drawn = correlation.draw_pairs(pairs, samples=5, seed=0)
    assert np.isnan(correlation.compute_spearman(np.ones(PAIRS), human, drawn)).all()


def test_a_missing_score_leaves_only_the_samples_without_it_defined():
    human, model, pairs, _ = ratings()
    drawn = correlation.draw_pairs(pairs, samples=60, seed=4)
    expected = correlation.compute_spearman(model, human, drawn)
    model[13] = human[14] = np.nan
    hit = np.isin(drawn, [13, 14]).any(1)
    assert 0 < hit.sum() < 60
    expected[hit] = np.nan
    np.testing.assert_array_equal(correlation.compute_spearman(model, human, drawn), expected)


@pytest.mark.parametrize("queries", [1, 2, 3])
def test_samples_of_less_than_two_pairs_are_undefined(queries):
    pairs = Ragged.from_pairs(np.arange(queries), np.arange(queries), queries)
    drawn = correlation.draw_pairs(pairs, samples=4, seed=0)
    assert drawn.shape == (4, queries // 2)
    scores = np.arange(float(queries))
    np.testing.assert_array_equal(correlation.compute_spearman(scores, scores, drawn), [np.nan] * 4)


def test_a_sample_is_half_of_the_queries_each_with_one_of_its_pairs():
    _, _, pairs, ends = ratings()
    drawn = correlation.draw_pairs(pairs, samples=400, seed=1)
    num_queries = len(pairs.lengths)
    assert drawn.shape == (400, num_queries // 2)
    # A pair can come from its two ends, but never more often.
    assert max(np.bincount(row).max() for row in drawn) == 2
    # A pair is drawn with probability 1/2 * (1/degree of one end + 1/degree of the other).
    degree = np.bincount(ends.ravel(), minlength=90)
    expected = 0.5 * (1 / degree[ends[0]] + 1 / degree[ends[1]])
    expected[ends[0] == ends[1]] /= 2  # one end only
    frequency = np.bincount(drawn.ravel(), minlength=PAIRS) / 400
    assert np.abs(frequency - expected).max() < 0.15
    assert np.abs((frequency - expected).mean()) < 1e-3


def test_seed_decides():
    _, _, pairs, _ = ratings()
    same, again, other = (correlation.draw_pairs(pairs, samples=3, seed=s) for s in (5, 5, 6))
    np.testing.assert_array_equal(same, again)
    assert (same != other).any()

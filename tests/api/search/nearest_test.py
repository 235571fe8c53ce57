"""Exact and approximate search against a sort of all scores."""

import numpy as np
import pytest

from xmodal.api.search import nearest
from xmodal.api.search.nearest import ApproximateSearch, ExactSearch, Scorer
from xmodal.similarity import SIMILARITIES, make_similarity

PARAMETERS = {"match_probability": {"match_scale": 1.5, "match_shift": 1.0}}
SEVERAL = ("max_cosine", "match_probability")


def make_scorer(name, items_left=False):
    return Scorer(make_similarity({"name": name}), PARAMETERS.get(name, {}), items_left=items_left)


def make_vectors(count, seed, shape=(4,)):
    """Small integers, so that many scores are equal."""
    return np.random.default_rng(seed).integers(1, 4, (count, *shape)).astype(np.float32)


def sort_all(name, queries, items, top, items_left, losses):
    """Computes all scores, lowers and sorts them."""
    scorer = make_scorer(name)
    left, right = scorer.prepare(queries), scorer.prepare(items)
    scores = scorer.score(right, left).T if items_left else scorer.score(left, right)
    scores = np.asarray(scores) - losses
    order = np.argsort(-scores, axis=1, kind="stable")[:, :top]
    return np.take_along_axis(scores, order, axis=1), order


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "items_left"), [*((name, False) for name in SIMILARITIES), ("order", True)]
)
def test_exact_search_is_a_stable_sort(name, items_left, monkeypatch):
    monkeypatch.setattr(nearest, "_BLOCK", 29)
    shape = (2, 4) if name in SEVERAL else (4,)
    items, queries = make_vectors(100, 0, shape), make_vectors(7, 1, shape)
    losses = np.arange(100, dtype=np.float32) % 3 / 8
    search = ExactSearch(make_scorer(name, items_left), items, losses)
    for top in (1, 100):
        scores, rows = search(queries, top)
        expected_scores, expected = sort_all(name, queries, items, top, items_left, losses)
        np.testing.assert_array_equal(rows, expected)
        np.testing.assert_array_equal(scores, expected_scores)
    assert len(np.unique(expected_scores[0])) < 100  # some are equal


def make_clusters(count, seed, shape):
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(0).normal(size=(40, *shape))
    found = centers[rng.integers(0, 40, count)] + 0.3 * rng.normal(size=(count, *shape))
    return found.astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("name", SIMILARITIES)
def test_approximate_search_reaches_its_recall_and_scores_exactly(name):
    pytest.importorskip("faiss")
    shape = (2, 8) if name in SEVERAL else (8,)
    items, queries = make_clusters(3000, 1, shape), make_clusters(50, 2, shape)
    items[1700] = items[3]
    queries[0] = items[3]
    scorer = make_scorer(name)
    losses = np.zeros(len(items), np.float32)
    losses[::2] = 0.01
    losses[1700] = losses[3]
    truth_scores, truth = ExactSearch(scorer, items, losses)(queries, 10)
    search = ApproximateSearch(scorer, items, losses)
    recall = search.tune(queries, truth, 0.9)
    scores, rows = search(queries, 10)
    found = [np.isin(*pair).mean() for pair in zip(truth, rows, strict=True)]
    assert recall == pytest.approx(np.mean(found))
    if name != "order":  # It is unlike any distance.
        assert search.probes < 40
        assert recall >= 0.9
    # Scores agree in both to the last bit; log-odds, to the last bit of their sums.
    tolerance = 1e-6 if name == "match_probability" else 0
    scored = [dict(zip(*each, strict=True)) for each in zip(truth, truth_scores, strict=True)]
    for known, items_of, scores_of in zip(scored, rows, scores, strict=True):
        for row, score in zip(items_of, scores_of, strict=True):
            assert score == pytest.approx(known.get(row, score), rel=tolerance, abs=0)
    assert np.all(np.diff(scores, axis=1) <= 0)
    if name in ("cosine", "euclidean"):
        assert rows[0, :2].tolist() == [3, 1700]

"""Reranked rows against loops over queries."""

import numpy as np
import pytest

from xmodal.evals.scores import rerank
from xmodal.evals.scores.score_rows import MatrixScores
from xmodal.evals.scores.sources import Predictions


def random_case(images=70, captions=131, relations=3):
    generator = np.random.default_rng(0)
    scores = generator.uniform(-1, 1, (images, captions)).astype(np.float32)
    parts = [
        generator.normal(size=(size, relations)).astype(np.float32) for size in (images, captions)
    ]
    probabilities = 1 / (1 + np.exp(-(parts[0][:, None] + parts[1][None])))
    return scores, Predictions(*parts), probabilities


def slow_refinement(scores, probabilities, strength, gap):
    """Query by query and item by item."""
    rows = []
    for row, predicted in zip(scores, probabilities, strict=True):
        first, second = sorted(row, reverse=True)[:2]
        if first - second < gap:
            row = [
                score * sum(np.exp(strength * abs(p - 0.5)) for p in each)
                for score, each in zip(row, predicted, strict=True)
            ]
        rows.append(row)
    return np.array(rows)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("at_a_time", [1, 131 * 3 * 5, 1 << 26])
def test_selective_refinement_of_whole_rows(monkeypatch, transposed, at_a_time):
    monkeypatch.setattr(rerank, "_PREDICTIONS_AT_A_TIME", at_a_time)
    scores, predictions, probabilities = random_case()
    reranker = rerank.make_reranker(
        "config.x", {"name": "selective_refinement", "strength": 0.13, "gap": 0.01}
    )
    found = rerank.RerankedScores(MatrixScores(scores), predictions, reranker)
    found = found.transpose() if transposed else found
    if transposed:
        scores, probabilities = scores.T, probabilities.swapaxes(0, 1)
    expected = slow_refinement(scores, probabilities, 0.13, 0.01)
    changed = np.any(expected != scores, axis=1)
    assert 0 < changed.sum() < len(changed)
    rows, columns = (index.ravel() for index in np.indices(scores.shape))
    np.testing.assert_allclose(found.pairs(rows, columns), expected.ravel(), rtol=1e-5)

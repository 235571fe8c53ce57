"""Similarities of positive and other pairs."""

import numpy as np
import pytest

from xmodal.evals.labels.positives import Ragged
from xmodal.evals.scores.score_rows import MatrixScores
from xmodal.evals.scores.similarities import draw_similarities

QUERIES, ITEMS = 31, 47


@pytest.fixture
def scores():
    """Every score identifies its pair."""
    return MatrixScores(np.arange(QUERIES * ITEMS, dtype=np.float32).reshape(QUERIES, ITEMS))


@pytest.fixture
def positives():
    generator = np.random.default_rng(0)
    rows, items = generator.integers(QUERIES, size=90), generator.integers(ITEMS, size=90)
    return Ragged.from_pairs(rows, items, QUERIES)


def pairs_of(found):
    return {divmod(int(score), ITEMS) for score in found}


def test_every_pair_is_of_its_kind(scores, positives):
    own = {
        (row, int(item))
        for row in range(QUERIES)
        for item in positives.values[positives.offsets[row] : positives.offsets[row + 1]]
    }
    matching, other = draw_similarities(scores, positives, 10_000)
    assert pairs_of(matching) == own
    assert len(matching) == len(own)
    assert pairs_of(other) == {(q, i) for q in range(QUERIES) for i in range(ITEMS)} - own

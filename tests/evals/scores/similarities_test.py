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


def test_the_same_pairs_are_drawn_again_and_no_item_with_itself(scores, positives):
    first, second = (draw_similarities(scores, positives, 20, exclude_self=True) for _ in range(2))
    assert len(first[0]) == 20
    assert len(set(first[0].tolist())) == 20
    for ours, theirs in zip(first, second, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    _, other = draw_similarities(scores, positives, 10_000, exclude_self=True)
    assert all(query != item for query, item in pairs_of(other))

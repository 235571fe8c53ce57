"""Nearest neighbors, against one cosine at a time."""

import numpy as np
import pytest

from data_prep.sampling import nearest_neighbors as module
from data_prep.sampling.nearest_neighbors import nearest


def slow_nearest(vectors, number=5):
    """Neighbors by the definition, one cosine at a time."""
    neighbors = []
    for i, a in enumerate(vectors):
        cosines = {
            j: a @ b / np.linalg.norm(a) / np.linalg.norm(b)
            for j, b in enumerate(vectors)
            if j != i
        }
        neighbors.append(sorted(cosines, key=lambda j: -cosines[j])[:number])
    return neighbors


@pytest.mark.parametrize("rows", [1024, 37, 10, 1])
def test_nearest_are_the_most_similar_others_however_the_matrix_is_cut(rows, monkeypatch):
    monkeypatch.setattr(module, "_ROWS", rows)
    vectors = np.random.default_rng(0).normal(size=(37, 11))
    np.testing.assert_array_equal(nearest(vectors), slow_nearest(vectors))
    np.testing.assert_array_equal(nearest(vectors, 3), slow_nearest(vectors, 3))


def test_equally_similar_items_come_in_their_order():
    rng = np.random.default_rng(1)
    kinds = rng.normal(size=(3, 7))
    kind = rng.integers(3, size=60)
    vectors = kinds[kind] * rng.uniform(0.5, 2, size=(60, 1))  # same direction, other length
    found = nearest(vectors, decimals=10)
    for item, row in enumerate(found):
        same = [other for other in np.flatnonzero(kind == kind[item]) if other != item]
        assert row.tolist() == same[:5]

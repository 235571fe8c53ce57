"""Positives in the top of long lists, against a full stable sort."""

import numpy as np
import pytest

from xmodal.evals.boards.relation import Relation
from xmodal.evals.ranking import hits
from xmodal.evals.ranking.products import Gallery, Products, SavedScores
from xmodal.losses.similarity import make_similarity


def random_relation(generator, queries, items, groups=6):
    return Relation(
        generator.integers(0, groups, queries).astype(np.int32),
        generator.integers(0, groups + 1, items).astype(np.int32),
        generator.random((groups, groups + 1)) < 0.4,
    )


def slow_counts(matrix, relation, r):
    counts = []
    for i, depth in enumerate(r):
        first = np.argsort(-matrix[i], kind="stable")[:depth]
        counts.append(sum(bool(relation.contains(i, j)) for j in first))
    return counts


@pytest.mark.parametrize("shape", [(1, 1), (3, 64), (65, 63), (130, 201)])
@pytest.mark.parametrize("values", [1, 2, 9])
def test_counted_hits_equal_a_stable_sort(shape, values):
    """Scores of few values, of both signs and with both zeros: nearly every R cuts a tie."""
    generator = np.random.default_rng(shape[1] + values)
    matrix = generator.integers(-values, values + 1, shape).astype(np.float32)
    matrix[(matrix == 0) & (generator.random(shape) < 0.5)] = -0.0
    relation = random_relation(generator, *shape)
    r = generator.integers(0, shape[1] + 1, shape[0])
    r[:2] = [shape[1], 0][: shape[0]]
    found = hits.count_hits(SavedScores(matrix, block_size=64), relation, r)
    np.testing.assert_array_equal(found, slow_counts(matrix, relation, r))


def test_counted_hits_of_real_scores():
    """Magnitudes from below the smallest to the largest float, and copies among them."""
    generator = np.random.default_rng(0)
    shape = 70, 150
    matrix = generator.standard_normal(shape) * 10.0 ** generator.integers(-44, 38, shape)
    matrix = matrix.astype(np.float32)
    matrix[:, 100:] = matrix[:, generator.integers(0, 100, 50)]
    relation = random_relation(generator, *shape)
    r = generator.integers(1, 151, 70)
    found = hits.count_hits(SavedScores(matrix, block_size=64), relation, r)
    subnormal = np.abs(matrix) < np.finfo(np.float32).tiny  # these are zeros, see SavedScores
    assert (matrix[subnormal] != 0).any()
    matrix[subnormal] = 0.0
    np.testing.assert_array_equal(found, slow_counts(matrix, relation, r))


def test_counted_hits_do_not_depend_on_the_tiles():
    generator = np.random.default_rng(1)
    left, right = (generator.standard_normal((n, 33), dtype=np.float32) for n in (150, 333))
    right[::3] = right[0]
    relation = random_relation(generator, 150, 333)
    r = generator.integers(1, 334, 150)
    prepare, score = make_similarity({"name": "dot"}).scorer()
    counts = [
        hits.count_hits(
            Products(*(Gallery(x, prepare, block_size=size) for x in (left, right)), score),
            relation,
            r,
        )
        for size in (64, 128, 1024)
    ]
    assert counts[0].sum() > 0
    np.testing.assert_array_equal(counts[0], counts[1])
    np.testing.assert_array_equal(counts[0], counts[2])

"""Precision of the top of a list: the cases of the papers, and a full sort."""

import numpy as np
import pytest

from xmodal.evals import precision
from xmodal.evals.products import Gallery, Products, SavedScores
from xmodal.evals.relation import Relation
from xmodal.losses.similarity import make_scorer


def places(depth, *right):
    """One list, positives at the given places, counted from 1."""
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
    (found,) = precision.compute_map_at_r(places(8, *right), np.array([8]))
    assert round(100 * found, 2) == expected


@pytest.mark.parametrize("depth", [8, 9, 50])
def test_places_behind_r_do_not_count(depth):
    hits = places(depth, 2, *range(4, depth + 1))
    mean = precision.compute_map_at_r(hits, np.array([3]))
    share = precision.compute_r_precision(hits, np.array([3]))
    np.testing.assert_allclose([mean[0], share[0]], [(1 / 2) / 3, 1 / 3], rtol=1e-15)


def test_by_hand():
    hits = np.array([[1, 0, 1, 1], [0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]], bool)
    r = np.array([4, 2, 4, 1])
    expected = [(1 + 2 / 3 + 3 / 4) / 4, (1 / 2) / 2, (1 + 1) / 4, 0]
    np.testing.assert_allclose(precision.compute_map_at_r(hits, r), expected, rtol=1e-15)
    np.testing.assert_allclose(precision.compute_r_precision(hits, r), [0.75, 0.5, 0.5, 0])


def test_a_perfect_list_that_cannot_hold_all_positives():
    """R counts a positive that is not in the gallery: neither metric reaches 1."""
    hits, r = np.ones((1, 7), bool), np.array([8])
    hits = np.pad(hits, [(0, 0), (0, 1)])  # the gallery is at its end
    np.testing.assert_allclose(precision.compute_map_at_r(hits, r), 7 / 8)
    np.testing.assert_allclose(precision.compute_r_precision(hits, r), 7 / 8)


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
    found = precision.count_hits(SavedScores(matrix, block_size=64), relation, r)
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
    found = precision.count_hits(SavedScores(matrix, block_size=64), relation, r)
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
    prepare, score = make_scorer("dot")
    counts = [
        precision.count_hits(
            Products(*(Gallery(x, prepare, block_size=size) for x in (left, right)), score),
            relation,
            r,
        )
        for size in (64, 128, 1024)
    ]
    assert counts[0].sum() > 0
    np.testing.assert_array_equal(counts[0], counts[1])
    np.testing.assert_array_equal(counts[0], counts[2])

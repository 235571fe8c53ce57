"""Ranks of saved scores, and scores that are not finite."""

import dataclasses

import numpy as np
import pytest
from slow_ranks import assert_equal_ranks, mesh_of, products, random_labels, slow_ranks

from xmodal.core.errors import UserError
from xmodal.evals.labels.positives import Ragged
from xmodal.evals.scores import ranks
from xmodal.evals.scores.products import Gallery
from xmodal.evals.scores.ranks import LabelSet
from xmodal.evals.scores.rows import score_queries
from xmodal.evals.scores.saved_scores import SavedScores
from xmodal.similarity import make_similarity


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_saved_scores(tmp_path, dtype):
    generator = np.random.default_rng(4)
    matrix = generator.integers(-9, 9, (83, 130)).astype(dtype)
    np.save(tmp_path / "scores.npy", matrix)
    mapped = np.load(tmp_path / "scores.npy", mmap_mode="r")
    forward = LabelSet(random_labels(generator, 83, 130))
    backward = LabelSet(random_labels(generator, 130, 83))
    for devices in (None, 2):
        scores = SavedScores(mapped, block_size=64, mesh=mesh_of(devices))
        found = ranks.compute_ranks(scores, [forward], [backward])
        assert_equal_ranks(found[0].ranks[0], slow_ranks(matrix, forward))
        assert_equal_ranks(found[1].ranks[0], slow_ranks(matrix.T, backward))


@pytest.mark.parametrize("small", [0.0, 5e-324])
def test_the_zeros_of_saved_scores_tie(small):
    """Also where they come from rounding, and in lists, which are sorted by bits."""
    generator = np.random.default_rng(5)
    matrix = generator.integers(-1, 2, (70, 130)).astype(np.float64)
    at_zero = (matrix == 0) & (generator.random(matrix.shape) < 0.5)
    label_set = LabelSet(random_labels(generator, 70, 130))
    lists = np.argsort(-matrix, axis=1, kind="stable")[:, :90]
    expected = slow_ranks(matrix, label_set)
    matrix[at_zero] = -small
    found, _ = ranks.compute_ranks(SavedScores(matrix, block_size=64), [label_set], depths=(90, 0))
    assert_equal_ranks(found.ranks[0], expected)
    np.testing.assert_array_equal(found.lists, lists)


@pytest.mark.parametrize(
    ("scale", "shift"), [(1, 0.0), (1e-9, 1.0), (1, -1e9), (1e-120, 0.0), (1e300, 0.0)]
)
def test_float64_scores_that_float32_would_tie(scale, shift):
    generator = np.random.default_rng(6)
    matrix = scale * generator.normal(size=(70, 131)) + shift
    matrix[:, 5] = matrix[:, 90]  # legitimate ties
    forward = LabelSet(random_labels(generator, 70, 131))
    backward = LabelSet(random_labels(generator, 131, 70))
    for devices in (None, 2):
        scores = SavedScores(matrix, block_size=64, mesh=mesh_of(devices))
        found = ranks.compute_ranks(scores, [forward], [backward], depths=(9, 0))
        assert_equal_ranks(found[0].ranks[0], slow_ranks(matrix, forward))
        assert_equal_ranks(found[1].ranks[0], slow_ranks(matrix.T, backward))
        order = np.argsort(-matrix, axis=1, kind="stable")[:, :9]
        np.testing.assert_array_equal(found[0].lists, order)
    turned = scores.transpose()
    rows = score_queries(turned, np.array([130, 2]))
    np.testing.assert_array_equal(rows, matrix.T[[130, 2]])
    assert turned.pairs(np.array([4]), np.array([3]))[0] == matrix[3, 4]


def test_float32_scores_below_the_smallest_normal_number_keep_their_order():
    matrix = np.float32([[3e-42, 1e-42, 2e-42]])
    label_set = LabelSet(Ragged.from_pairs(np.array([0]), np.array([1]), 1))
    answers, _ = ranks.compute_ranks(SavedScores(matrix), [label_set])
    assert answers.ranks[0].rank == 2


def test_values_that_are_not_finite():
    prepare, _ = make_similarity({"name": "dot"}).scorer()
    items = np.ones((4, 2), np.float32)
    items[2, 1] = np.nan
    with pytest.raises(UserError, match="1 of 4 image embeddings are not finite"):
        Gallery(items, prepare, name="image")
    message = "Scores of cxc/i2t are not finite in 1 of 4 rows and 1 of 2 columns: the model"
    with pytest.raises(UserError, match=message):
        SavedScores(items).check_finite("cxc/i2t")
    with pytest.raises(UserError, match="not finite in 1 of 4 rows"):
        ranks.compute_ranks(SavedScores(items), [])
    SavedScores(np.full((4, 2), 3e38)).check_finite()  # a sum may overflow where no value does


@pytest.mark.parametrize("devices", [None, 2])
def test_scores_that_overflow(devices):
    generator = np.random.default_rng(8)
    left, right = (generator.uniform(1, 2, (n, 3)).astype(np.float32) for n in (150, 200))
    left[[3, 70, 149]] *= -1e18
    right[[5, 199]] *= 1e18

    def scores(similarity="dot"):
        mesh = mesh_of(devices)
        return products(left, right, block_size=64, mesh=mesh, similarity=similarity)

    scores().check_finite()  # large, yet within the range
    left[[3, 70, 149]] *= 100
    right[[5, 199]] *= 100
    message = (
        r"Scores of x are not finite in 3 of 150 rows and 2 of 200 columns: numbers up to .e\+20"
    )
    with pytest.raises(UserError, match=message):
        scores().check_finite("x")
    with pytest.raises(UserError, match="Scores are not finite .* use the cosine"):
        ranks.compute_ranks(scores(), [])
    for similarity in ("euclidean", "order"):
        with pytest.raises(UserError, match="Scores of x are not finite"):
            scores(similarity).check_finite("x")
    scores("cosine").check_finite()


@pytest.mark.parametrize("similarity", ["dot", "euclidean", "order", "cosine"])
def test_scores_of_short_embeddings(similarity):
    """Ranks do not depend on the scale, down to one that is refused."""
    generator = np.random.default_rng(8)
    left, right = (generator.normal(size=(n, 9)).astype(np.float32) for n in (70, 90))
    label_set = LabelSet(random_labels(generator, 70, 90))

    def rank(exponent):
        scale = np.float32(2.0**exponent)
        scores = products(left * scale, right * scale, block_size=64, similarity=similarity)
        return ranks.compute_ranks(scores, [label_set])[0].ranks[0]

    expected = dataclasses.astuple(rank(0))
    for exponent in (-10, -24, -50):
        assert_equal_ranks(rank(exponent), expected)
    if similarity == "cosine":
        assert_equal_ranks(rank(-66), expected)
    else:
        with pytest.raises(UserError, match=r"up to .e-20 in the embeddings are too small"):
            rank(-66)

"""Ranks that float32 would mix up, against brute force in float64."""

import numpy as np
import pytest
from scipy.special import logsumexp
from slow_ranks import assert_equal_ranks, mesh_of, random_labels, slow_ranks

from xmodal.evals.scores import ranks
from xmodal.evals.scores.products import open_scores
from xmodal.evals.scores.ranks import LabelSet
from xmodal.evals.scores.sources import Embeddings
from xmodal.similarity import make_similarity

MATCH = {"match_scale": 1.5, "match_shift": 2.0}


def score_slowly(left, right):
    """Negative distances in float64; log-odds, if items have several vectors."""
    left, right = left.astype(np.float64), right.astype(np.float64)
    if left.ndim == 2:
        return -np.sqrt(np.square(left[:, None] - right).sum(-1))
    squares = np.square(left[:, None, :, None] - right[None, :, None]).sum(-1)
    logits = 2 * (MATCH["match_shift"] - MATCH["match_scale"] * np.sqrt(squares + 1e-6))
    matches, differs = (-np.logaddexp(0, sign * logits) for sign in (-1, 1))
    return logsumexp(matches, axis=(2, 3)) - logsumexp(differs, axis=(2, 3))


@pytest.mark.parametrize("devices", [None, 2])
@pytest.mark.parametrize(
    ("similarity", "offset", "spread"),
    [
        ("euclidean", 100, 0.01),
        ("euclidean", 1e6, 1),
        ("euclidean", -1e6, 30),
        ("match_probability", 1e3, 0.4),
        ("match_probability", 1e6, 0.4),
    ],
)
def test_ranks_around_a_large_value(similarity, offset, spread, devices):
    rng = np.random.default_rng(1)
    several = (2,) if similarity == "match_probability" else ()
    common = offset * rng.uniform(0.5, 1, 17)
    images, captions = (
        (spread * rng.normal(size=(n, *several, 17)) + common).astype(np.float32) for n in (71, 133)
    )
    captions[5] = captions[90]  # a tie
    source = Embeddings(
        "x", np.arange(71), images, np.arange(133), captions, similarity, MATCH if several else {}
    )
    scores = open_scores(source, block_size=64, mesh=mesh_of(devices))
    forward, backward = LabelSet(random_labels(rng, 71, 133)), LabelSet(random_labels(rng, 133, 71))
    found = ranks.compute_ranks(scores["image", "text"], [forward], [backward])
    expected = score_slowly(images, captions)
    if not several:
        assert_equal_ranks(found[0].ranks[0], slow_ranks(expected, forward))
        assert_equal_ranks(found[1].ranks[0], slow_ranks(expected.T, backward))
        within = LabelSet(random_labels(rng, 133, 133, exclude_self=True))
        answers, _ = ranks.compute_ranks(scores["text", "text"], [within], exclude_self=True)
        slow = slow_ranks(score_slowly(captions, captions), within, exclude_self=True)
        assert_equal_ranks(answers.ranks[0], slow)
    else:
        rows, columns = np.divmod(np.arange(71 * 133), 133)
        pairs = scores["image", "text"].pairs(rows, columns)
        np.testing.assert_allclose(pairs, expected.ravel(), rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(found[0].ranks[0].rank, slow_ranks(expected, forward)[0])


def place(case, rng, several=()):
    """71 images and 133 captions whose scores float32 rounds away, and the type of the vectors."""
    images, captions = (rng.normal(size=(n, *several, 17)) for n in (71, 133))
    axes = (slice(None), *(None,) * (len(several) + 1))
    if case == "two groups":  # half at 100, half at -100
        sides = [
            0.01 * side + 100 * (-1.0) ** np.arange(len(side))[axes] for side in (images, captions)
        ]
        return [side.astype(np.float32) for side in sides]
    if case == "almost one direction":
        return [(side + 3e3).astype(np.float32) for side in (images, captions)]
    if case == "almost one point":
        return [1e-6 * side + np.linspace(1, 2, 17) for side in (images, captions)]
    return [side + 1e9 for side in (images, captions)]


@pytest.mark.parametrize(
    ("similarity", "case"),
    [
        ("euclidean", "two groups"),
        ("euclidean", "almost one point"),
        ("euclidean", "float64 around a billion"),
        ("cosine", "almost one direction"),
        ("dot", "almost one point"),
        ("order", "almost one point"),
        ("match_probability", "two groups"),
    ],
)
def test_ranks_that_need_float64(similarity, case):
    rng = np.random.default_rng(2)
    several = (2,) if similarity == "match_probability" else ()
    images, captions = place(case, rng, several)
    captions[5] = captions[90]  # a tie
    parameters = MATCH if several else {}
    source = Embeddings(
        "x", np.arange(71), images, np.arange(133), captions, similarity, parameters
    )
    scores = open_scores(source, block_size=64, mesh=mesh_of(2))
    forward, backward = LabelSet(random_labels(rng, 71, 133)), LabelSet(random_labels(rng, 133, 71))
    found = ranks.compute_ranks(scores["image", "text"], [forward], [backward])
    left, right = images.astype(np.float64), captions.astype(np.float64)
    if similarity == "cosine":
        left, right = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (left, right))
    expected = {
        "order": lambda: -np.sqrt(np.square(np.maximum(right - left[:, None], 0)).sum(-1)),
        "cosine": lambda: left @ right.T,
        "dot": lambda: left @ right.T,
    }.get(similarity, lambda: score_slowly(left, right))()
    np.testing.assert_array_equal(found[0].ranks[0].rank, slow_ranks(expected, forward)[0])
    np.testing.assert_array_equal(found[1].ranks[0].rank, slow_ranks(expected.T, backward)[0])
    within = LabelSet(random_labels(rng, 133, 133, exclude_self=True))
    if similarity == "euclidean":
        answers, _ = ranks.compute_ranks(scores["text", "text"], [within], exclude_self=True)
        slow = slow_ranks(score_slowly(right, right), within, exclude_self=True)
        np.testing.assert_array_equal(answers.ranks[0].rank, slow[0])


def test_ordinary_vectors_and_exact_ties_stay_in_float32():
    rng = np.random.default_rng(3)
    ties = rng.integers(-2, 3, (133, 17)).astype(np.float32)
    for similarity in ("dot", "cosine", "euclidean", "order", "max_cosine", "match_probability"):
        for vectors in (rng.normal(size=(133, 17)).astype(np.float32), ties, 0 * ties):
            sides = make_similarity({"name": similarity}).place(vectors[:9], vectors)
            assert {side.dtype for side in sides} == {np.dtype(np.float32)}

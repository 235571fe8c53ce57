"""Ranks by distances around a large common value, against brute force in float64."""

import numpy as np
import pytest
from slow_ranks import assert_equal_ranks, mesh_of, random_labels, slow_ranks

from xmodal.evals.inputs.sources import Embeddings
from xmodal.evals.ranking import ranks
from xmodal.evals.ranking.products import open_scores
from xmodal.evals.ranking.ranks import LabelSet

MATCH = {"match_scale": 1.5, "match_shift": 2.0}


def score_slowly(left, right):
    """Negative distances in float64; log-odds, if items have several vectors."""
    left, right = left.astype(np.float64), right.astype(np.float64)
    if left.ndim == 2:
        return -np.sqrt(np.square(left[:, None] - right).sum(-1))
    squares = np.square(left[:, None, :, None] - right[None, :, None]).sum(-1)
    logits = 2 * (MATCH["match_shift"] - MATCH["match_scale"] * np.sqrt(squares + 1e-6))
    matches = (1 / (1 + np.exp(-logits))).mean((2, 3))
    return np.log(matches) - np.log((1 / (1 + np.exp(logits))).mean((2, 3)))


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

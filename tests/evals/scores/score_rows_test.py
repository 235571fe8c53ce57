"""Rows of scores of vectors and of matrices."""

import jax
import numpy as np
import pytest
from scipy.special import logsumexp

from xmodal.core.errors import UserError
from xmodal.core.mesh import make_mesh
from xmodal.evals.scores import vector_scores
from xmodal.evals.scores.score_rows import MatrixScores
from xmodal.evals.scores.sources import Embeddings
from xmodal.evals.scores.vector_scores import open_scores
from xmodal.similarity import SIMILARITIES

MATCH = {"match_scale": 1.5, "match_shift": 2.0}


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def log_odds(left, right):
    squares = np.square(left[:, None, :, None] - right[None, :, None]).sum(-1)
    logits = 2 * (MATCH["match_shift"] - MATCH["match_scale"] * np.sqrt(squares + 1e-6))
    matches, differs = (-np.logaddexp(0, sign * logits) for sign in (-1, 1))
    return logsumexp(matches, axis=(2, 3)) - logsumexp(differs, axis=(2, 3))


def distances(left, right):
    return -np.sqrt(np.square(left[:, None] - right).sum(-1))


SLOW = {
    "dot": lambda x, y: x @ y.T,
    "cosine": lambda x, y: unit(x) @ unit(y).T,
    "euclidean": distances,
    "order": lambda x, y: -np.sqrt(np.square(np.maximum(y - x[:, None], 0)).sum(-1)),
    "max_cosine": lambda x, y: np.einsum("qkd,nld->qnkl", unit(x), unit(y)).max(axis=(2, 3)),
    "match_probability": log_odds,
}


def open_vectors(left, right, similarity, devices=None, **options):
    source = Embeddings(
        "x", np.arange(len(left)), left, np.arange(len(right)), right, similarity,
        MATCH if similarity == "match_probability" else {},
    )  # fmt: skip
    mesh = None if devices is None else make_mesh(jax.devices()[:devices])
    return open_scores(source, mesh=mesh, **options)


@pytest.mark.parametrize("devices", [None, 4])
@pytest.mark.parametrize("name", SIMILARITIES)
def test_rows_columns_and_pairs_of_every_similarity(name, devices, monkeypatch):
    monkeypatch.setattr(vector_scores, "_BLOCK", 64)
    generator = np.random.default_rng(9)
    shape = (3, 16) if name in ("max_cosine", "match_probability") else (16,)
    left, right = (generator.standard_normal((n, *shape), dtype=np.float32) for n in (130, 201))
    expected = SLOW[name](left.astype(np.float64), right.astype(np.float64))
    opened = open_vectors(left, right, name, devices)
    scores = opened["image", "text"]
    held = scores.hold(1 << 30)
    assert scores.hold(130 * 201 * 4 - 1) is scores
    queries, items = np.array([129, 3, 3, 64]), np.array([0, 200, 7])
    pairs = np.array([129, 0, 5, 5]), np.array([200, 3, 3, 0])
    close = {"rtol": 1e-4, "atol": 1e-4}
    for each in (scores, held):
        np.testing.assert_allclose(each.rows(queries), expected[queries], **close)
        np.testing.assert_allclose(each.transpose().rows(items), expected.T[items], **close)
        np.testing.assert_allclose(each.pairs(*pairs), expected[pairs], **close)
        assert each.transpose().transpose().rows(queries).tolist() == each.rows(queries).tolist()
    within = SLOW[name](right.astype(np.float64), right.astype(np.float64))
    blocks = opened["text", "text"].hold(1 << 30).blocks(np.arange(201))
    found = np.concatenate([rows.copy() for _, rows in blocks])
    off = ~np.eye(201, dtype=bool)  # The distance of an item to itself is rounding.
    np.testing.assert_allclose(found[off], within[off], **close)


def test_rows_of_another_order_on_disk(tmp_path):
    matrix = np.random.default_rng(0).normal(size=(20, 40)).astype(np.float16)
    np.save(tmp_path / "scores.npy", matrix)
    mapped = np.load(tmp_path / "scores.npy", mmap_mode="r")
    rows, columns = np.random.default_rng(1).permutation(20)[:9], np.arange(39, 3, -2)
    scores, expected = MatrixScores(mapped, rows, columns), matrix[rows][:, columns]
    assert (scores.shape, scores.dtype) == (expected.shape, np.float32)
    np.testing.assert_array_equal(scores.rows(np.arange(2, 7)), expected[2:7])
    np.testing.assert_array_equal(scores.transpose().rows(np.array([8, 2])), expected.T[[8, 2]])
    assert scores.pairs(np.array([3]), np.array([4]))[0] == expected[3, 4]


@pytest.mark.parametrize("factor", [1e-7, 1e19])
def test_a_cosine_does_not_depend_on_lengths(factor):
    generator = np.random.default_rng(8)
    left, right = (generator.normal(size=(n, 9)).astype(np.float32) for n in (70, 90))
    lengths = np.where(np.arange(90) % 2, factor, 1)[:, None].astype(np.float32)
    rows = [
        open_vectors(left, each, "cosine")["image", "text"].rows(np.arange(70))
        for each in (right, right * lengths)
    ]
    np.testing.assert_allclose(*rows, rtol=0, atol=3e-7)


@pytest.mark.parametrize("case", ["two groups", "around a million", "almost one point"])
def test_euclidean_distances_are_those_of_float64(case):
    generator = np.random.default_rng(2)
    left, right = (generator.normal(size=(n, 17)) for n in (71, 133))
    if case == "two groups":  # Half at 100, half at -100.
        left, right = (0.01 * x + 100 * (-1.0) ** np.arange(len(x))[:, None] for x in (left, right))
    if case == "around a million":
        left, right = left + 1e6, right + 1e6
    if case == "almost one point":
        left, right = (1e-6 * x + np.linspace(1, 2, 17) for x in (left, right))
    right[5] = right[90]
    expected = distances(left, right)
    scores = open_vectors(left, right, "euclidean")["image", "text"]
    order = np.argsort(-scores.rows(np.arange(71)), axis=1, kind="stable")
    np.testing.assert_array_equal(order, np.argsort(-expected, axis=1, kind="stable"))


def test_values_that_are_not_finite():
    left, right = np.ones((4, 2), np.float32), np.full((3, 2), 1e20, np.float32)
    scores = open_vectors(1e19 * left, right, "dot")["image", "text"]
    with pytest.raises(UserError, match="Scores of x by 'dot' are not finite.* use the cosine"):
        scores.rows(np.arange(4))
    left[2, 1] = np.nan
    with pytest.raises(UserError, match="by 'cosine' are not finite: its embeddings hold NaN"):
        open_vectors(left, right, "cosine")["image", "text"].rows(np.arange(4))

"""Ranked lists against the scores they came from, complete and truncated."""

import numpy as np
import pytest

from xmodal.evals.labels.positives import Ragged, Relation
from xmodal.evals.labels.types import DirectionLabels
from xmodal.evals.scores import ranks
from xmodal.evals.scores.lists import ListedScores, keep_determined
from xmodal.evals.scores.score_rows import MatrixScores

RECALLS = ("recall@1", "recall@5", "recall@10")
QUERIES, ITEMS = 61, 90


def sort_lists(matrix, keep=None):
    """Every row's items by falling score, the first `keep[i]` of them."""
    order = np.argsort(-matrix, axis=1, kind="stable")
    lengths = np.full(len(matrix), matrix.shape[1]) if keep is None else keep
    values = np.concatenate([row[:length] for row, length in zip(order, lengths, strict=True)])
    return Ragged(np.concatenate([[0], np.cumsum(lengths)]), values.astype(np.int32))


def answer(lists, direction):
    scores = ListedScores(lists, ITEMS)
    return keep_determined(scores, direction, *ranks.rank_directions(scores, [direction])[0])


def few_values(generator, shape=(QUERIES, ITEMS)):
    return generator.integers(-3, 4, shape).astype(np.float32)


def random_positives(generator):
    rows = np.repeat(np.arange(QUERIES), generator.integers(0, 5, QUERIES))
    return Ragged.from_pairs(rows, generator.integers(0, ITEMS, len(rows)), QUERIES)


def random_relations(generator):
    """Two that ask the same queries; items of group 2 match nothing."""
    groups = [generator.integers(0, 5, size).astype(np.int32) for size in (QUERIES, ITEMS)]
    related = np.eye(5, dtype=bool)
    relations = []
    for _ in range(2):
        related = related | (generator.random((5, 5)) < 0.3)
        related[2], related[:, 2] = False, False
        relations.append(Relation(*groups, related))
    return tuple(relations)


def directions(generator):
    """One direction of every kind."""
    positives = random_positives(generator)
    unreachable = (generator.random(QUERIES) < 0.2).astype(np.int32)
    folds = [generator.integers(0, 3, size).astype(np.int32) for size in (QUERIES, ITEMS)]
    # Two relations of the labeled items only, which are the first fold.
    labeled = Ragged.from_pairs(
        *np.nonzero((folds[0][:, None] == folds[1]) & (generator.random((QUERIES, ITEMS)) < 0.1)),
        QUERIES,
    )
    relations = random_relations(generator)
    everything = (*RECALLS, "mrr", "median_rank", "map@r", "r_precision")
    return {
        "recalls": DirectionLabels(positives, (*RECALLS, "mrr", "median_rank")),
        "unreachable": DirectionLabels(positives, everything, unreachable),
        "folds": DirectionLabels(labeled, (*RECALLS, "median_rank"), folds=tuple(folds)),
        "capped": DirectionLabels(relations[0], ("pmrp",), cap=7),
        "several": DirectionLabels(relations, ("pmrp",)),
    }


NAMES = ("recalls", "unreachable", "folds", "capped", "several")


def assert_equal_found(found, expected, direction):
    asked = ranks.has_positives(direction)
    assert 0 < asked.sum() < QUERIES
    assert not found.missing
    if expected.rank is None:
        assert found.rank is None
    else:
        np.testing.assert_array_equal(found.rank[asked], expected.rank[asked])
    assert set(found.values) == set(expected.values)
    for metric, value in expected.values.items():
        np.testing.assert_array_equal(found.values[metric][asked], value[asked], metric)


@pytest.mark.parametrize("name", NAMES)
def test_whole_lists_equal_their_scores(name):
    generator = np.random.default_rng(0)
    matrix, direction = few_values(generator), directions(generator)[name]
    (expected,), *_ = ranks.rank_directions(MatrixScores(matrix), [direction])
    assert_equal_found(answer(sort_lists(matrix), direction), expected, direction)


@pytest.mark.parametrize("length", [1, 5, 9])
def test_recalls_of_cut_lists(length):
    generator = np.random.default_rng(3)
    matrix, direction = few_values(generator), directions(generator)["recalls"]
    found = answer(sort_lists(matrix, np.full(len(matrix), length)), direction)
    whole = answer(sort_lists(matrix), direction)
    asked = ranks.has_positives(direction)
    beyond = int(np.sum(whole.rank[asked] >= length))
    assert beyond  # so the reciprocal and the median rank rest on ranks that nobody knows
    assert found.rank is None
    reason = f"the lists of {beyond} of {asked.sum()} queries are missing or too short"
    expected = {f"recall@{k}": reason for k in (1, 5, 10) if k > length} | {"mrr": reason}
    assert found.missing == {**expected, "median_rank": reason}
    assert set(found.values) == set(RECALLS) - set(expected)
    for metric, value in found.values.items():
        np.testing.assert_array_equal(value[asked], whole.values[metric][asked], metric)

"""Positives by groups: lengths and membership against the pairs written out."""

import numpy as np

from xmodal.evals.boards.relation import Relation


def test_groups_stand_for_pairs():
    rng = np.random.default_rng(0)
    related = rng.random((3, 4)) < 0.5
    relation = Relation(rng.integers(3, size=7), rng.integers(4, size=11), related)
    pairs = np.array(
        [[related[q, n] for n in relation.gallery_group] for q in relation.query_group]
    )
    assert relation.lengths.tolist() == pairs.sum(1).tolist()
    assert relation.lengths.dtype == np.int64
    rows, items = np.arange(7)[:, None], np.arange(11)[None, :]
    np.testing.assert_array_equal(relation.contains(rows, items), pairs)


def test_a_negative_item_is_none():
    relation = Relation(np.array([0, 0]), np.array([0]), np.ones((1, 1), bool))
    assert relation.contains(np.arange(2)[:, None], np.array([[0, -1]])).tolist() == [
        [True, False],
        [True, False],
    ]

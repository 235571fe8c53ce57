"""Ragged lists and relations against sets."""

import numpy as np
import pytest

from xmodal.evals.labels.positives import Ragged, Relation, own_pairs

PAIRS = [(2, 7), (0, 3), (2, 0), (0, 3), (2, 5), (4, 9)]  # rows 1 and 3 are empty


def test_pairs_are_grouped_sorted_and_kept_once():
    rows, values = np.array(PAIRS).T
    ragged = Ragged.from_pairs(rows, values, 5)
    assert ragged.offsets.tolist() == [0, 1, 1, 4, 4, 5]
    assert ragged.values.tolist() == [3, 0, 5, 7, 9]
    # Up to 30, far beyond the largest value: such an item must not run into the next row.
    rows, items = np.arange(5)[:, None], np.arange(-2, 30)[None, :]
    found = ragged.contains(rows, items)
    expected = [[(row, item) in PAIRS for item in items[0].tolist()] for row in range(5)]
    assert found.tolist() == expected


def test_groups_stand_for_pairs():
    rng = np.random.default_rng(0)
    related = rng.random((3, 4)) < 0.5
    relation = Relation(rng.integers(3, size=7), rng.integers(4, size=11), related)
    pairs = np.array(
        [[related[q, n] for n in relation.gallery_group] for q in relation.query_group]
    )
    assert relation.lengths.tolist() == pairs.sum(1).tolist()
    rows, items = np.arange(7)[:, None], np.arange(11)[None, :]
    np.testing.assert_array_equal(relation.contains(rows, items), pairs)


@pytest.mark.parametrize("texts", [None, 7, 60])
def test_own_pairs_are_those_of_a_loop_over_texts_and_images(texts):
    """A text is a positive of its images, and of the other texts on them; captions lack one."""
    generator = np.random.default_rng(0)
    group = generator.integers(12, size=30)
    image = np.where(np.arange(12) == 3, -1, np.arange(12))[group]  # One image is not there.
    text = None if texts is None else generator.integers(texts, size=30)
    found = {
        name: set(map(tuple, pairs.T)) for name, pairs in own_pairs(image, group, text).items()
    }
    text = np.arange(30) if text is None else text
    shows = {(int(group[c]), int(text[c])) for c in range(30)}
    i2t = {(i, c) for i in range(12) for c in range(30) if (i, text[c]) in shows and i != 3}
    near = {(a, b) for i, a in shows for j, b in shows if i == j}
    asking = {a for a, b in near if a != b}
    t2t = {(c, d) for c in range(30) for d in range(30) if (text[c], text[d]) in near and c != d}
    assert found["i2t"] == i2t
    assert found["t2i"] == {(c, i) for i, c in i2t}
    assert found["t2t"] == {(c, d) for c, d in t2t if text[c] in asking}

"""Cosines of rated pairs."""

import numpy as np
import pytest

from xmodal.apps.analysis.ratings import cosines
from xmodal.apps.analysis.ratings.cosines import Vectors
from xmodal.apps.analysis.ratings.rated_pairs import RatedPairs


def make_pairs(rating, ids, texts=None):
    left, right = np.array(ids).T
    return RatedPairs(
        rating, left, right, np.full(len(ids), "m"), np.zeros(len(ids), np.float32), texts=texts
    )


@pytest.fixture
def vectors():
    rng = np.random.default_rng(0)
    return {
        "caption": Vectors(np.array([5, 3, 9]), rng.normal(size=(3, 4)).astype(np.float32)),
        "image": Vectors(np.array([3, 5]), rng.normal(size=(2, 4)).astype(np.float32)),
    }


def plain_cosine(a, b):
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def test_items_are_found_by_id_on_their_side(vectors, monkeypatch):
    monkeypatch.setattr(cosines, "_BLOCK", 2)
    captions, images = vectors["caption"].vectors, vectors["image"].vectors
    found = cosines.cosines_of_items(make_pairs("sits", [(9, 3), (5, 5), (3, 5)]), vectors)
    expected = [plain_cosine(captions[i], images[j]) for i, j in ((2, 0), (0, 1), (1, 1))]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    found = cosines.cosines_of_items(make_pairs("sts", [(9, 3), (5, 5)]), vectors)
    np.testing.assert_allclose(found, [plain_cosine(captions[2], captions[1]), 1], rtol=1e-5)


def test_what_has_no_vector_has_no_cosine(vectors):
    vectors["image"].vectors[1] = 0
    found = cosines.cosines_of_items(make_pairs("sis", [(3, 3), (3, 5), (3, 4)]), vectors)
    assert np.isnan(found).tolist() == [False, True, True]
    only_captions = {"caption": vectors["caption"]}
    assert np.isnan(cosines.cosines_of_items(make_pairs("sits", [(5, 5)]), only_captions)).all()


def test_sentences_of_pairs_are_compared():
    texts = np.array([["a dog", "a dog"], ["a dog", "two cats"], ["a dog", "a cat"], ["a", "!"]])
    pairs = make_pairs("sts", [(0, 0)] * 4, texts.astype(object))
    found = cosines.cosines_of_texts(pairs)
    np.testing.assert_allclose(found, [1, 0, 0.5, np.nan], rtol=1e-6)

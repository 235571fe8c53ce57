"""A pair scorer ranks the hits of an index again."""

import numpy as np
import pytest

import xmodal
from tests.api.tiny_dual_encoder import FEATURES, PAIR_SCORER, make_model, make_texts


@pytest.fixture(scope="module")
def model():
    return make_model(1, pair_scorer=PAIR_SCORER)[0]


def test_the_best_by_vectors_are_ranked_by_the_pair_scorer(model):
    texts = make_texts(12)
    image = np.random.default_rng(3).normal(size=FEATURES).astype(np.float32)
    index = xmodal.Index.build(model, captions=texts)
    first = index.query(image=image, top=7)
    scores = {hit.item: model.score_pairs([image], [hit.item])[0] for hit in first}
    expected = sorted(scores, key=lambda item: -scores[item])
    found = index.query(image=image, top=3, rerank=7)
    assert [hit.item for hit in found] == expected[:3] != [hit.item for hit in first[:3]]
    assert [hit.rank for hit in found] == [1, 2, 3]
    np.testing.assert_allclose([hit.score for hit in found], sorted(scores.values())[:-4:-1], 1e-4)
    # At least as many as are asked for.
    assert len(index.query(image=image, top=5, rerank=2)) == 5


def test_what_cannot_be_paired_is_named(model):
    features = np.random.default_rng(3).normal(size=(4, FEATURES)).astype(np.float32)
    index = xmodal.Index.build(model, images=features, captions=make_texts(4))
    with pytest.raises(xmodal.UserError, match="is not a picture in a file"):
        index.query("a red star", rerank=4)
    with pytest.raises(xmodal.UserError, match="use find='image'"):
        index.query("a red star", find="caption", rerank=4)
    other = xmodal.Index.build(make_model(1)[0], captions=make_texts(4))
    with pytest.raises(xmodal.UserError, match="has no pair scorer"):
        other.query(image=features[0], rerank=4)

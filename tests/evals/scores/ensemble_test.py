"""An ensemble's scores against the mean of its members' score matrices."""

import dataclasses

import numpy as np
import pytest

from xmodal.core.errors import UserError
from xmodal.evals.scores.ensemble import average
from xmodal.evals.scores.sources import Embeddings
from xmodal.similarity import make_similarity


def make(seed, width, similarity):
    rng = np.random.default_rng(seed)
    return Embeddings(
        place=f"model {seed}",
        image_ids=np.arange(5),
        images=rng.normal(size=(5, width)).astype(np.float32),
        caption_ids=np.arange(7),
        captions=rng.normal(size=(7, width)).astype(np.float32),
        similarity=similarity,
    )


def score(source):
    similarity = make_similarity({"name": source.similarity})
    return np.asarray(
        similarity.score(similarity.prepare(source.images), similarity.prepare(source.captions))
    )


@pytest.mark.parametrize("similarities", [("cosine", "cosine"), ("dot", "cosine", "cosine")])
def test_scores_are_the_means(similarities):
    members = [make(seed, 3 + seed, name) for seed, name in enumerate(similarities)]
    expected = np.mean([score(member) for member in members], axis=0)
    np.testing.assert_allclose(score(average(members)), expected, rtol=1e-5, atol=1e-6)


def test_mistakes_are_named():
    with pytest.raises(UserError, match="the similarity 'order' of one of its models is not"):
        average([make(0, 3, "cosine"), make(1, 3, "order")])
    other = dataclasses.replace(make(1, 3, "cosine"), caption_ids=np.arange(1, 8))
    with pytest.raises(UserError, match="caption_ids of model 0 and of model 1 differ"):
        average([make(0, 3, "cosine"), other])

"""An ensemble's scores against the mean of its members' score matrices."""

import numpy as np
import pytest

from tests.similarity.slow_saf import real_items, score_pairs
from tests.similarity.token_views import make_params, make_view
from xmodal.evals.model_adapter import average, average_scores
from xmodal.evals.scores.ragged_tokens import RaggedTokens
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


SAF = make_similarity({"name": "saf", "width": 5})


def test_models_are_averaged_on_their_own_scale(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    views = [make_view(5, 4, ragged=False), make_view(6, 7, seed=1)]
    tokens = {
        modality: RaggedTokens.from_padded(view.extras["tokens"], view.extras["mask"])
        for modality, view in zip(("image", "text"), views, strict=True)
    }
    params = [make_params(SAF, views, seed) for seed in (0, 1)]
    ids = np.arange(5), views[0].vector, np.arange(6), views[1].vector
    members = [
        Embeddings(
            "a model", *ids, similarity="saf", parameters=each, options={"width": 5}, tokens=tokens
        )
        for each in params
    ]
    members.append(Embeddings("vectors", *ids, similarity="dot"))
    found = average_scores(members)
    items = [real_items(view) for view in views]
    logits = [score_pairs(each, *items) for each in params]
    expected = sum(1 / (1 + np.exp(-each)) for each in logits) + views[0].vector @ views[1].vector.T
    np.testing.assert_allclose(found.matrix, expected / 3, rtol=1e-4)
    assert found.matrix.dtype == np.float64

"""The mean scores of models of token sets and of vectors, against slow loops."""

import dataclasses

import numpy as np
import pytest

from tests.similarity.slow_saf import real_items, score_pairs
from tests.similarity.token_views import make_params, make_view
from xmodal.core.errors import UserError
from xmodal.evals.scores.ensemble import average_scores
from xmodal.evals.scores.ragged_tokens import RaggedTokens
from xmodal.evals.scores.sources import Embeddings
from xmodal.similarity import make_similarity

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
    # Where float32 rounds to 1, the order of large logits stays.
    large = SAF.rescale(np.float32([[20, 21, -800]]))
    assert 1 > large[0, 1] > large[0, 0] > large[0, 2] == 0
    alone = dataclasses.replace(members[0], captions=None, caption_ids=None)
    with pytest.raises(UserError, match="only one modality"):
        average_scores([alone, alone])

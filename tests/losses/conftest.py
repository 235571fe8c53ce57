"""Small batches."""

import numpy as np
import pytest

from xmodal.losses import Context
from xmodal.similarity import Embedding, make_similarity


@pytest.fixture(scope="session")
def make_pairs():
    """Makes two views of `size` items, with item i of one near item i of the other."""

    def make(size, dim=5, samples=None, log_sigma=False, seed=0):
        rng = np.random.default_rng(seed)
        shape = (size, samples, dim) if samples else (size, dim)
        left = rng.normal(size=shape)
        right = 0.5 * left + rng.normal(size=shape)
        spread = [rng.normal(size=(size, dim)).astype(np.float32) for _ in range(2)]
        return [
            Embedding(vector.astype(np.float32), spread[side] if log_sigma else None)
            for side, vector in enumerate((left, right))
        ]

    return make


@pytest.fixture(scope="session")
def make_context():
    """Makes the context of a batch whose items have `ids`, with a similarity from keywords."""

    def make(ids, similarity="dot", params=None, **others):
        given = {"name": similarity} if isinstance(similarity, str) else similarity
        similarity = make_similarity(given)
        params = similarity.init() if params is None else params
        return Context(ids, similarity, params, **others)

    return make

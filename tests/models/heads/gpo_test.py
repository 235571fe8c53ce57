"""The pooling of VSE-infinity against torch modules written from its description."""

from functools import partial

import jax
import numpy as np
import pytest

from xmodal.models import Features, Mode
from xmodal.models.heads import gpo, make_head

LENGTHS = (7, 1, 5, 3)
TOKENS = np.random.default_rng(0).normal(size=(4, 9, 6)).astype(np.float32)
MASK = np.arange(9) < np.array(LENGTHS)[:, None]


def make(config, features, seed=0, mode=Mode.TRAIN):
    head = make_head("head", {"name": "gpo", "code_width": 6, "hidden": 5, **config})
    init = partial(head.init, features=features, mode=Mode.EVALUATE)
    shapes = jax.eval_shape(init, jax.random.key(0))
    rng = np.random.default_rng(seed)

    def fill(path, leaf):
        noise = 0.4 * rng.normal(size=leaf.shape).astype(np.float32)  # no saturated softmax
        return np.abs(noise) + 0.5 if path[-1].key in ("var", "scale") else noise

    return head, jax.tree_util.tree_map_with_path(fill, shapes)


@pytest.mark.slow
def test_tokens_are_dropped_in_training_alone():
    items, tokens = 4000, 16
    mask = np.ones((items, tokens), bool)
    mask[1::2, 10:] = False
    mask[0, 1:] = False

    class Drop(gpo.Gpo):
        def __call__(self, features, mode):
            return self._drop(features.full_mask())

    def dropped(**config):
        module = Drop(gpo.GpoConfig(**config))
        features = Features(np.zeros((items, tokens, 1), np.float32), mask)
        return np.asarray(
            module.apply({}, features, Mode.TRAIN, rngs={"dropout": jax.random.key(0)})
        )

    kept = dropped(drop=0.2)
    assert not (kept & ~mask).any()
    assert kept[0, 0]  # The only token of an item is kept.
    np.testing.assert_allclose(kept[mask].mean(), 0.8, atol=0.005)
    shares = kept.sum(1) / mask.sum(1)
    varying = dropped(drop=0.2, drop_varies=True)
    # The mean of 0.2 u over u > 0.2 is 0.12, and one item in five keeps all.
    np.testing.assert_allclose(1 - varying[mask].mean(), 0.8 * 0.12, atol=0.005)
    assert (shares == 1).mean() < 0.15 < 0.2 < (varying.sum(1) == mask.sum(1)).mean()

    head, variables = make({"drop": 0.5}, Features(TOKENS, MASK))
    vectors = [
        head.apply(
            variables, Features(TOKENS, MASK), mode, rngs={"dropout": jax.random.key(1)}
        ).vector
        for mode in (Mode.EVALUATE, Mode.FROZEN, Mode.TRAIN)
    ]
    np.testing.assert_array_equal(vectors[0], vectors[1])
    assert np.abs(vectors[0] - vectors[2]).max() > 0.1

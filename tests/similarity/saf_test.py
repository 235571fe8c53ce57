"""SAF against a slow loop, and its gradients against differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.similarity.slow_saf import real_items, score_pairs
from tests.similarity.token_views import make_params, make_views
from xmodal.similarity import make_similarity

SAF = make_similarity({"name": "saf", "width": 5})


def compute(views, params, similarity=SAF):
    sides = [similarity.prepare(view, params) for view in views]
    return similarity.score(*sides, params)


@pytest.mark.parametrize("sizes", [(5, 7), (1, 3), (3, 1)])
def test_equals_the_slow_loop(sizes):
    views = make_views(sizes)
    params = make_params(SAF, views)
    expected = score_pairs(params, *map(real_items, views))
    np.testing.assert_allclose(jax.jit(compute)(views, params), expected, rtol=1e-4, atol=1e-5)


def test_gradients_are_differences_and_padding_has_none():
    views = make_views((3, 4))
    params = make_params(SAF, views)

    @jax.jit
    def loss(views, params):
        return jnp.sum(jnp.sin(3 * compute(views, params)))

    gradients = jax.jit(jax.grad(loss, argnums=(0, 1), allow_int=True))(views, params)
    rng = np.random.default_rng(3)
    for number, tree in enumerate((views, params)):
        of_floats = [
            (path, x) for path, x in jax.tree.leaves_with_path(tree) if x.dtype == np.float32
        ]
        for path, leaf in of_floats:
            found = dict(jax.tree.leaves_with_path(gradients[number]))[path]
            assert np.all(np.isfinite(found))
            move = np.where(np.isnan(leaf), 0, rng.normal(size=leaf.shape)).astype(np.float32)
            assert np.all(np.asarray(found)[np.isnan(leaf)] == 0)
            ends = []
            for step in (1e-3, -1e-3):
                moved = jax.tree_util.tree_map_with_path(
                    lambda p, x, path=path, step=step, move=move: (
                        x + step * move if p == path else x
                    ),
                    tree,
                )
                ends.append(loss(*((moved, params) if number == 0 else (views, moved))))
            slope = (float(ends[0]) - float(ends[1])) / 2e-3
            np.testing.assert_allclose(np.sum(found * move), slope, rtol=2e-2, atol=2e-2)

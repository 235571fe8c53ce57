"""VSRN's graph reasoning against torch modules written from its description."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xmodal.models import Features, Mode
from xmodal.models.heads import make_head

ITEMS, REGIONS, WIDTH, LAYERS = 5, 7, 6, 4
TOKENS = np.random.default_rng(0).normal(size=(ITEMS, REGIONS, 4)).astype(np.float32)


def make(**config):
    head = make_head("head", {"name": "graph", "width": WIDTH, "layers": LAYERS, **config})
    init = partial(head.init, features=Features(TOKENS), mode=Mode.EVALUATE)
    shapes = jax.eval_shape(init, jax.random.key(0))
    rng = np.random.default_rng(1)

    def fill(path, leaf):
        noise = 0.7 * rng.normal(size=leaf.shape).astype(np.float32)
        if [each.key for each in path[-2:]] == ["output", "bias"]:
            return 30 * noise  # A mean that the batch normalization has to remove.
        return np.abs(noise) + 0.5 if path[-1].key == "var" else noise

    return head, jax.tree_util.tree_map_with_path(fill, shapes)


@pytest.mark.slow
def test_padding_changes_nothing_and_gives_no_nan():
    head, variables = make()
    lengths = np.array([7, 3, 3, 7, 3])
    mask = np.arange(REGIONS) < lengths[:, None]
    apply = jax.jit(lambda features: head.apply(variables, features, Mode.EVALUATE))
    whole = apply(Features(np.where(mask[..., None], TOKENS, np.nan), mask))
    for row, length in enumerate(lengths):
        alone = apply(Features(TOKENS[row : row + 1, :length]))
        np.testing.assert_allclose(whole.vector[row], alone.vector[0], rtol=1e-4, atol=1e-5)
    assert not whole.extras["regions"][~mask].any()
    # A channel that is zero in all regions, and an image without regions.
    silent = jax.tree.map(np.zeros_like, variables["params"]["linear"])
    zeros = variables["params"] | {"linear": silent}

    def total(params):
        features = Features(TOKENS, np.zeros_like(mask))
        found = head.apply({**variables, "params": params}, features, Mode.EVALUATE)
        return jnp.sum(found.vector)

    assert all(
        np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(jax.jit(jax.grad(total))(zeros))
    )

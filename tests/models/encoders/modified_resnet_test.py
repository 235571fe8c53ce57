"""CLIP's ResNet: sizes, strides, recomputation. Its values are compared with torch's in
`tests/pretrained/clip_weights_test.py`."""

from functools import partial

import jax
import numpy as np
import pytest

IMAGES = {"image": np.random.default_rng(0).integers(0, 256, (2, 64, 64, 3), np.uint8)}


def test_the_published_number_of_parameters(tower):
    """That of openai/CLIP's RN50 without its text side, a scale, and the text's projection."""
    made = tower("modified_resnet", head={"name": "attention_pool"})
    image = {"image": np.zeros((1, 224, 224, 3), np.uint8)}
    params, state = jax.eval_shape(made.init, jax.random.key(0), image)
    text = 49408 * 512 + 77 * 512 + 12 * (12 * 512**2 + 13 * 512) + 2 * 512 + 512 * 1024
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == 102_007_137 - text - 1
    found = jax.eval_shape(made.apply, params, state, image)[0]
    assert found.vector.shape == (1, 1024)


@pytest.mark.slow
def test_remat_changes_nothing_and_a_unit_starts_as_its_shortcut(tower):
    head = {"name": "attention_pool", "heads": 4, "width": 5}
    make = partial(tower, "modified_resnet", width=4, units=(1, 2), head=head)
    params, state = jax.jit(make().init)(jax.random.key(0), IMAGES)
    assert not np.any(params["encoder"]["stage2_unit2"]["expand_norm"]["scale"])
    params = jax.tree.map(lambda leaf: leaf + 0.1, params)
    found, expected = (
        jax.jit(partial(make(remat=remat).apply, train=True))(
            params, state, IMAGES, key=jax.random.key(1)
        )[0].vector
        for remat in (True, False)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)

import jax
import numpy as np
import pytest


@pytest.mark.slow
def test_number_of_parameters(tower):
    made = tower("inception_v3")
    images = {"image": np.zeros((1, 80, 90, 3), np.uint8)}
    shapes = jax.eval_shape(made.init, jax.random.key(0), images)
    # As published by keras.applications, without the classifier.
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == 21_802_784
    vector = jax.eval_shape(made.apply, *shapes, images)[0].vector
    assert (vector.shape, vector.dtype) == ((1, 2048), np.float32)

import jax
import numpy as np
import pytest

from xmodal.models.encoders import inception_v3


@pytest.mark.slow
def test_number_of_parameters(tower):
    made = tower("inception_v3")
    images = {"image": np.zeros((1, 80, 90, 3), np.uint8)}
    shapes = jax.eval_shape(made.init, jax.random.key(0), images)
    # As published by keras.applications, without the classifier.
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == 21_802_784
    vector = jax.eval_shape(made.apply, *shapes, images)[0].vector
    assert (vector.shape, vector.dtype) == ((1, 2048), np.float32)


def test_steps_are_lettered_with_poolings():
    fork = (inception_v3.InceptionConv(2, (1, 3)), inception_v3.InceptionConv(2, (3, 1)))
    branch = ("average", inception_v3.InceptionConv(4), fork)
    assert inception_v3.letter_steps(branch) == [
        [("a", "average")], [("b", branch[1])], [("c", fork[0]), ("d", fork[1])],
    ]  # fmt: skip


@pytest.mark.slow
def test_remat_and_groups(monkeypatch, random_variables, tower):
    monkeypatch.setattr(inception_v3, "BLOCKS", {"mixed_5b": inception_v3.BLOCKS["mixed_5b"]})
    images = np.random.default_rng(0).integers(0, 256, (4, 75, 75, 3), np.uint8)
    options = {"statistics": "per_device", "devices": 2, "projection": 3}
    plain = tower("inception_v3", **options)
    params, state = random_variables(plain, {"image": images})

    def train(made, images):
        inputs, key = {"image": images}, jax.random.key(0)
        apply = jax.jit(lambda p, s: made.apply(p, s, inputs, train=True, key=key))
        return apply(params, state)[0].vector

    outputs = train(plain, images)
    recomputed = train(tower("inception_v3", remat=True, **options), images)
    np.testing.assert_allclose(recomputed, outputs, rtol=1e-4, atol=1e-5)
    alone = train(tower("inception_v3", projection=3), images[:2])
    np.testing.assert_allclose(outputs[:2], alone, rtol=1e-3, atol=1e-4)


def test_small_images_are_refused(tower):
    images = {"image": np.zeros((1, 100, 74, 3), np.uint8)}
    with pytest.raises(ValueError, match="75 pixels or more"):
        tower("inception_v3").init(jax.random.key(0), images)

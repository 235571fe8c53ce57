import jax
import numpy as np
import pytest

from xmodal import models
from xmodal.config import UserError
from xmodal.models import inception_v3


def test_number_of_parameters():
    tower = models.make_dual_encoder({"image": {"name": "inception_v3"}}).towers["image"]
    images = np.zeros((1, 80, 90, 3), np.uint8)
    shapes = jax.eval_shape(tower.init, jax.random.key(0), images)
    # As keras.applications publishes it, without the classifier.
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == 21_802_784
    vector = jax.eval_shape(tower.apply, *shapes, images)[0].vector
    assert (vector.shape, vector.dtype) == ((1, 2048), np.float32)


def test_steps_are_lettered_with_poolings():
    fork = (inception_v3.Conv(2, (1, 3)), inception_v3.Conv(2, (3, 1)))
    branch = ("average", inception_v3.Conv(4), fork)
    assert inception_v3.letter_steps(branch) == [
        [("a", "average")], [("b", branch[1])], [("c", fork[0]), ("d", fork[1])],
    ]  # fmt: skip


def test_remat_and_groups(monkeypatch, random_variables):
    monkeypatch.setattr(inception_v3, "BLOCKS", {"mixed_5b": inception_v3.BLOCKS["mixed_5b"]})
    images = np.random.default_rng(0).integers(0, 256, (4, 75, 75, 3), np.uint8)
    options = {"batch_norm": "per_device", "devices": models.Devices(2), "projection": 3}
    tower = inception_v3.make_tower(**options)
    params, state = random_variables(tower, images)

    def train(tower, images):
        apply = jax.jit(lambda p, s: tower.apply(p, s, images, train=True, key=jax.random.key(0)))
        return apply(params, state)[0].vector

    outputs = train(tower, images)
    recomputed = train(inception_v3.make_tower(remat=True, **options), images)
    np.testing.assert_allclose(recomputed, outputs, rtol=1e-4, atol=1e-5)
    alone = train(inception_v3.make_tower(projection=3), images[:2])
    np.testing.assert_allclose(outputs[:2], alone, rtol=1e-3, atol=1e-4)


def test_small_images_and_wrong_options_are_refused():
    tower = inception_v3.make_tower()
    with pytest.raises(ValueError, match="75 pixels or more"):
        tower.init(jax.random.key(0), np.zeros((1, 100, 74, 3), np.uint8))
    with pytest.raises(UserError, match="'global', 'per_device'"):
        inception_v3.make_tower(batch_norm="folded")

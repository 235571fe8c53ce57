from functools import partial

import jax
import numpy as np
import pytest

from xmodal import models
from xmodal.config import UserError
from xmodal.models import pixels, resnet

IMAGES = np.random.default_rng(0).integers(0, 256, (2, 40, 33, 3), np.uint8)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setitem(resnet.DEPTHS, "50", (1, 2))


@pytest.mark.parametrize(
    ("depth", "variant", "total"),
    [
        # As keras.applications and torchvision publish them, without the classifier; torchvision
        # does not count the running statistics.
        (50, "keras", 23_587_712), (101, "keras", 42_658_176), (152, "keras", 58_370_944),
        (50, "torchvision", 25_557_032 - 2049 * 1000 + 53_120),
        (152, "slim", 60_192_808 - 2049 * 1000 + 151_424),
    ],
)  # fmt: skip
def test_number_of_parameters(depth, variant, total):
    tower = resnet.make_tower(depth=depth, variant=variant)
    shapes = jax.eval_shape(tower.init, jax.random.key(0), IMAGES)
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == total


def test_where_the_strides_are():
    assert resnet.unit_strides((2, 1, 3, 2), False) == [[1, 1], [2], [2, 1, 1], [2, 1]]
    assert resnet.unit_strides((2, 1, 3, 2), True) == [[1, 2], [2], [1, 1, 2], [1, 1]]


def test_pixels_are_normalised_once_and_by_the_variants_own_rule(small, random_variables):
    tower = resnet.make_tower(variant="simclr")
    params, state = random_variables(tower, IMAGES)
    own = tower.apply(params, state, IMAGES)[0].vector
    assert own.shape == (2, 512)
    named = resnet.make_tower(variant="simclr", normalization="unit")
    np.testing.assert_array_equal(named.apply(params, state, IMAGES)[0].vector, own)
    other = resnet.make_tower(variant="simclr", normalization="torch")
    assert not np.allclose(other.apply(params, state, IMAGES)[0].vector, own)
    assert {row.normalization for row in resnet.VARIANTS.values()} <= set(pixels.NORMALIZATIONS)


def test_remat_and_groups(small, random_variables):
    """Recomputing changes nothing; the groups of a batch do not see each other."""
    images = np.concatenate([IMAGES, IMAGES[::-1]])
    key = jax.random.key(0)
    towers = [
        resnet.make_tower(remat=remat, batch_norm=norm, devices=models.Devices(2))
        for remat, norm in [(False, "per_device"), (True, "per_device"), (False, "global")]
    ]
    params, state = random_variables(towers[0], images)
    train = [jax.jit(partial(tower.apply, train=True)) for tower in towers]
    outputs = [apply(params, state, images, key=key)[0].vector for apply in train[:2]]
    np.testing.assert_allclose(outputs[1], outputs[0], rtol=1e-5)
    alone = train[2](params, state, images[:2], key=key)[0].vector
    np.testing.assert_allclose(outputs[0][:2], alone, rtol=1e-3, atol=1e-5)


def test_options_name_what_is_known():
    with pytest.raises(UserError, match="'101', '152', '50'"):
        resnet.make_tower(depth=34)
    with pytest.raises(UserError, match="'keras', 'simclr', 'slim', 'torchvision'"):
        resnet.make_tower(variant="timm")
    with pytest.raises(UserError, match="'caffe', 'imagenet', 'inception', 'torch', 'unit'"):
        resnet.make_tower(normalization="bgr")
    tower = models.make_dual_encoder({"image": {"name": "resnet", "depth": 152}}).towers["image"]
    with pytest.raises(ValueError, match=r"uint8 images .* float32"):
        tower.init(jax.random.key(0), IMAGES.astype(np.float32))

from functools import partial

import jax
import numpy as np
import pytest

from xmodal.base.config import UserError
from xmodal.models.encoders import pixels, resnet

IMAGES = np.random.default_rng(0).integers(0, 256, (2, 40, 33, 3), np.uint8)
INPUTS = {"image": IMAGES}


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setitem(resnet.DEPTHS, "50", (1, 2))


@pytest.mark.parametrize(
    ("depth", "variant", "total"),
    [
        # As published by keras.applications and torchvision, without the classifier; torchvision
        # does not count the running statistics.
        (50, "keras", 23_587_712), (101, "keras", 42_658_176), (152, "keras", 58_370_944),
        (50, "torchvision", 25_557_032 - 2049 * 1000 + 53_120),
        (152, "slim", 60_192_808 - 2049 * 1000 + 151_424),
    ],
)  # fmt: skip
def test_number_of_parameters(depth, variant, total, tower):
    made = tower("resnet", depth=depth, variant=variant)
    shapes = jax.eval_shape(made.init, jax.random.key(0), INPUTS)
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == total


def test_number_of_parameters_of_resnext(tower):
    """torchvision's resnext101_32x8d, without the classifier."""
    made = tower("resnet", depth=101, cardinality=32, group_width=8)
    params, _ = jax.eval_shape(made.init, jax.random.key(0), INPUTS)
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == 88_791_336 - 2049 * 1000


def test_where_the_strides_are():
    assert resnet.unit_strides((2, 1, 3, 2), False) == [[1, 1], [2], [2, 1, 1], [2, 1]]
    assert resnet.unit_strides((2, 1, 3, 2), True) == [[1, 2], [2], [1, 1, 2], [1, 1]]


@pytest.mark.slow
def test_pixels_are_normalized_once_and_by_the_variants_own_rule(small, random_variables, tower):
    made = tower("resnet", variant="simclr")
    params, state = random_variables(made, INPUTS)
    own = made.apply(params, state, INPUTS)[0].vector
    assert own.shape == (2, 512)
    named = tower("resnet", variant="simclr", normalization="unit")
    np.testing.assert_array_equal(named.apply(params, state, INPUTS)[0].vector, own)
    other = tower("resnet", variant="simclr", normalization="torch")
    assert not np.allclose(other.apply(params, state, INPUTS)[0].vector, own)
    assert {row.normalization for row in resnet.VARIANTS.values()} <= set(pixels.NORMALIZATIONS)


@pytest.mark.slow
def test_remat_and_groups(small, random_variables, tower):
    """Recomputation changes nothing; the groups of a batch are independent."""
    images = {"image": np.concatenate([IMAGES, IMAGES[::-1]])}
    key = jax.random.key(0)
    towers = [
        tower("resnet", remat=remat, statistics=statistics, devices=2)
        for remat, statistics in [(False, "per_device"), (True, "per_device"), (False, "global")]
    ]
    params, state = random_variables(towers[0], images)
    train = [jax.jit(partial(made.apply, train=True)) for made in towers]
    outputs = [apply(params, state, images, key=key)[0].vector for apply in train[:2]]
    np.testing.assert_allclose(outputs[1], outputs[0], rtol=1e-5)
    alone = train[2](params, state, INPUTS, key=key)[0].vector
    np.testing.assert_allclose(outputs[0][:2], alone, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_a_frozen_encoder_runs_as_in_evaluation(small, random_variables, tower):
    """Its running statistics do not change, unless the policy requests it."""
    run = {"train": True, "frozen": ("encoder",), "key": jax.random.key(0)}
    made = tower("resnet", projection=3)
    params, state = random_variables(made, INPUTS)
    expected = made.apply(params, state, INPUTS)[0].vector
    embedding, new_state = made.apply(params, state, INPUTS, **run)
    np.testing.assert_array_equal(embedding.vector, expected)
    assert _moved(new_state, state) == 0
    policy = tower("resnet", projection=3, batch_norm="batch_frozen")
    total = len(jax.tree.leaves(state))
    assert _moved(policy.apply(params, state, INPUTS, **run)[1], state) == total
    policy = tower("resnet", projection=3, batch_norm="running")
    assert _moved(policy.apply(params, state, INPUTS, **run | {"frozen": ()})[1], state) == 0


def _moved(new, old):
    pairs = zip(jax.tree.leaves(new), jax.tree.leaves(old), strict=True)
    return sum(bool(np.any(one != other)) for one, other in pairs)


def test_options_name_what_is_known(tower):
    with pytest.raises(UserError, match="'101', '152', '50'"):
        tower("resnet", depth=34)
    with pytest.raises(UserError, match="'keras', 'simclr', 'slim', 'torchvision', 'vse_inf"):
        tower("resnet", variant="timm")
    with pytest.raises(
        UserError, match="'caffe', 'clip', 'detector', 'efficientnet_lite', 'imagenet', 'inception'"
    ):
        tower("resnet", normalization="bgr")
    with pytest.raises(ValueError, match=r"uint8 images .* float32"):
        tower("resnet").init(jax.random.key(0), {"image": IMAGES.astype(np.float32)})

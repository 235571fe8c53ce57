import jax
import numpy as np
import pytest

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

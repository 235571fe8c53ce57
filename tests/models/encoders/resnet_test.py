import jax
import numpy as np
import pytest

IMAGES = np.random.default_rng(0).integers(0, 256, (2, 40, 33, 3), np.uint8)
INPUTS = {"image": IMAGES}


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

import numpy as np
import pytest
from jax.sharding import PartitionSpec

from xmodal.core.mesh import make_mesh
from xmodal.train.tree import largest_dimension_sharded, tree_shardings


@pytest.mark.parametrize(
    ("shape", "spec"),
    [
        ((512, 1024), (None, "data")),
        ((1024, 512), ("data",)),
        ((1023, 512), (None, "data")),  # The largest is not divisible by 8.
        ((504, 512), ()),  # Less than 2**18 elements.
        ((), ()),
    ],
)
def test_fsdp_splits_the_largest_dimension_that_divides(shape, spec):
    mesh = make_mesh()
    home = largest_dimension_sharded(mesh, shape)
    assert home.spec == PartitionSpec(*spec)
    shares = home.shard_shape(shape)
    assert np.prod(shares) == np.prod(shape) // (8 if spec else 1)


TREE = {"params": {"text": {"w": np.zeros((1024, 512))}, "image": {"w": np.zeros((1024, 512))}}}


def test_the_first_rule_that_matches_wins():
    rules = [("params/text/", "fsdp"), ("params", "replicated")]
    homes = tree_shardings(TREE, rules, make_mesh())["params"]
    assert homes["text"]["w"].spec == PartitionSpec("data")
    assert homes["image"]["w"].spec == PartitionSpec()

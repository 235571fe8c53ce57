import numpy as np
import pytest
from jax.sharding import PartitionSpec

from xmodal.core import mesh as mesh_lib


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
    mesh = mesh_lib.make_mesh()
    home = mesh_lib.largest_dimension_sharded(mesh, shape)
    assert home.spec == PartitionSpec(*spec)
    shares = home.shard_shape(shape)
    assert np.prod(shares) == np.prod(shape) // (8 if spec else 1)


TREE = {"params": {"text": {"w": np.zeros((1024, 512))}, "image": {"w": np.zeros((1024, 512))}}}


def test_the_first_rule_that_matches_wins():
    rules = [("params/text/", "fsdp"), ("params", "replicated")]
    homes = mesh_lib.tree_shardings(TREE, rules, mesh_lib.make_mesh())["params"]
    assert homes["text"]["w"].spec == PartitionSpec("data")
    assert homes["image"]["w"].spec == PartitionSpec()

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
        ((3, 1024, 512), (None, "data")),
        ((512, 512), ("data",)),  # 2**18 elements: just large enough.
        ((504, 512), ()),
        ((1001, 1003), ()),
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


def test_global_batch_keeps_rows_in_order_and_splits_them():
    batch = {
        "image": np.arange(16 * 3, dtype=np.uint8).reshape(16, 3),
        "image_id": np.arange(16, dtype=np.int32),
    }
    placed = mesh_lib.global_batch(batch, mesh_lib.make_mesh())
    for name, value in batch.items():
        assert placed[name].dtype == value.dtype
        np.testing.assert_array_equal(placed[name], value)
        for k, shard in enumerate(placed[name].addressable_shards):
            np.testing.assert_array_equal(shard.data, value[2 * k : 2 * k + 2])

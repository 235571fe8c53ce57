import dataclasses
import functools

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec

from tests import tiny_encoder as tiny
from xmodal.core.errors import UserError
from xmodal.core.mesh import batch_sharded, make_mesh
from xmodal.train.sections import MeshConfig
from xmodal.train.tree import RULES, largest_dimension_sharded, tree_shardings


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


def test_parameters_are_split_over_the_second_axis_of_the_mesh():
    mesh = MeshConfig(fsdp=4).make()
    assert dict(mesh.shape) == {"data": 2, "fsdp": 4}
    home = largest_dimension_sharded(mesh, (1024, 516))
    assert home.spec == PartitionSpec("fsdp")
    assert home.shard_shape((1024, 516)) == (256, 516)
    assert batch_sharded(mesh).shard_shape((16, 3)) == (2, 3)


@dataclasses.dataclass(frozen=True)
class Device:
    id: int
    process_index: int


def test_a_process_has_consecutive_rows():
    mesh = make_mesh([Device(number, number % 2) for number in range(8)], fsdp=2)
    assert [device.id for device in mesh.devices.flat] == [0, 2, 4, 6, 1, 3, 5, 7]


def test_axes_must_have_all_devices():
    assert dict(MeshConfig(data=8).make().shape) == {"data": 8}
    with pytest.raises(UserError, match=r"2 x 3 devices, but there are 8"):
        MeshConfig(fsdp=3).make()


@pytest.mark.slow
def test_a_second_axis_changes_no_update(monkeypatch):
    monkeypatch.setitem(RULES, "fsdp", tiny.shard_first_dimension)
    config = tiny.make_config()
    expected, losses = train(tiny.make_parts(config))
    config.sharding, config.mesh = [(".*", "fsdp")], {"fsdp": 4}
    found, found_losses = train(tiny.make_parts(config))
    np.testing.assert_allclose(found_losses, losses, rtol=1e-5)
    compare = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6)
    jax.tree.map(compare, found, expected)


def train(parts):
    """Parameters after three steps, and the losses."""
    state, losses = tiny.start(parts), []
    compiled = tiny.compile_step(parts, state)
    for number in range(3):
        state, scalars = tiny.run_step(parts, compiled, state, tiny.make_batch(number), number)
        losses.append(float(scalars["train/loss"]))
    return tiny.copy(state.params), losses

"""The scores of a tile that enter lists, and the lists that they enter, against slow references."""

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from xmodal.core.mesh import BATCH_AXIS, make_mesh
from xmodal.evals.scores import counting
from xmodal.evals.scores.entrants import find_entrants, mark_entrants


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
def test_positions_of_entrants(share):
    generator = np.random.default_rng(0)
    scores = generator.random((40, 192)).astype(np.float32) - np.float32(share)
    entrants = jax.jit(mark_entrants)(scores, np.zeros((40, 1), np.float32))
    positions = np.asarray(jax.jit(find_entrants, static_argnums=1)(entrants, 24))
    assert positions.shape == (40, 24)
    assert 0 <= positions.min() <= positions.max() < 192
    for row, number, found in zip(scores, entrants.number, positions, strict=True):
        expected = np.flatnonzero(row > 0)
        assert number == len(expected)
        np.testing.assert_array_equal(found[:number], expected[:24])


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("kind", ["falling", "rising", "tied", "random"])
def test_lists_are_the_tops_of_stable_sorts(axis, devices, kind):
    """Falling scores enter no list after the first tile, rising ones all of them."""
    tiles, size, depth = 4, 128 * devices, 9
    generator = np.random.default_rng(0)
    whole = generator.standard_normal((128, tiles * size)).astype(np.float32)
    if kind == "tied":
        whole = np.round(whole)  # With both zeros.
    elif kind != "random":
        whole = np.sort(whole, axis=1)[:, :: -1 if kind == "falling" else 1]
    if axis == 1:  # The items of a direction are then the rows of its tiles.
        size, tiles = 128, tiles * devices
    mesh = make_mesh(jax.devices()[:devices])
    top = counting.make_side([], [], whole.shape, depth, mesh, np.dtype(np.float32)).top
    for start in range(0, tiles * size, size):
        tile = whole[:, start : start + size]
        tile = np.ascontiguousarray(tile if axis == 0 else tile.T)
        placed = jax.device_put(tile, NamedSharding(mesh, P(None, BATCH_AXIS)))
        at = np.int32(0), np.int32(start)
        top = counting._merge(top, placed, at, axis=axis, mesh=mesh)
    _, found = counting.join(counting.DirectionCounts((), (), top), mesh)
    expected = np.argsort(-whole, axis=1, kind="stable")[:, :depth]
    np.testing.assert_array_equal(found.items, expected)
    np.testing.assert_array_equal(found.scores, np.take_along_axis(whole, expected, axis=1))

"""Ranks against a full stable sort."""

import jax
import numpy as np
import pytest

from xmodal.evals import ranks
from xmodal.evals.ragged import Ragged


def slow_ranks(queries, gallery, positives, exclude_self):
    """Position of the first positive in a stable descending sort, query by query."""
    scores = queries.astype(np.float64) @ gallery.astype(np.float64).T
    rank, tied = [], []
    for i, row in enumerate(scores):
        own = positives.values[positives.offsets[i] : positives.offsets[i + 1]]
        order = [j for j in np.argsort(-row, kind="stable") if not (exclude_self and i == j)]
        hits = [place for place, j in enumerate(order) if j in own]
        rank.append(hits[0] if hits else -1)
        best = max((row[j] for j in own), default=None)
        tied.append(any(row[j] == best and j not in own for j in order))
    return np.array(rank), np.array(tied)


def whole_numbers(generator, rows, width):
    """Small integers: products are exact in float32 in any order, and ties are everywhere."""
    return generator.integers(-2, 3, (rows, width)).astype(np.float32)


def random_labels(generator, num_queries, num_items, *, exclude_self=False):
    """0 to 6 positives per query."""
    rows = np.repeat(np.arange(num_queries), generator.integers(0, 7, num_queries))
    values = generator.integers(0, num_items, len(rows))
    keep = (rows != values) | (not exclude_self)
    return Ragged.from_pairs(rows[keep], values[keep], num_queries)


def mesh_of(devices):
    auto = (jax.sharding.AxisType.Auto,)
    return jax.make_mesh((devices,), ("data",), devices=jax.devices()[:devices], axis_types=auto)


@pytest.mark.parametrize("exclude_self", [False, True])
@pytest.mark.parametrize(
    ("devices", "block_size"),
    [(None, 8), (None, 24), (None, 512), (1, 24), (2, 8), (4, 512), (8, 24)],
)
def test_equals_stable_sort(block_size, devices, exclude_self):
    generator = np.random.default_rng(block_size)
    gallery = whole_numbers(generator, 133, 3)
    queries = gallery if exclude_self else whole_numbers(generator, 71, 3)
    labels = [
        random_labels(generator, len(queries), len(gallery), exclude_self=exclude_self)
        for _ in range(2)
    ]
    found = ranks.compute_ranks(
        queries,
        gallery,
        labels,
        exclude_self=exclude_self,
        block_size=block_size,
        mesh=None if devices is None else mesh_of(devices),
    )
    for positives, result in zip(labels, found, strict=True):
        rank, tied = slow_ranks(queries, gallery, positives, exclude_self)
        np.testing.assert_array_equal(result.rank, rank)
        np.testing.assert_array_equal(result.tied, tied)
    assert found[0].tied.sum() > 20  # the tie rule was really asked


@pytest.mark.parametrize("num_items", [1, 2, 63, 64, 65])
def test_gallery_sizes_around_a_tile(num_items):
    generator = np.random.default_rng(num_items)
    queries, gallery = whole_numbers(generator, 9, 2), whole_numbers(generator, num_items, 2)
    labels = random_labels(generator, 9, num_items)
    (found,) = ranks.compute_ranks(queries, gallery, [labels])
    np.testing.assert_array_equal(found.rank, slow_ranks(queries, gallery, labels, False)[0])


def test_constant_embeddings_rank_by_index():
    items = np.ones((10, 4), np.float32)
    labels = Ragged.from_pairs(np.arange(10), (np.arange(10) + 3) % 10, 10)
    (found,) = ranks.compute_ranks(items, items, [labels], exclude_self=True)
    # Items before the positive, the query itself not counted.
    np.testing.assert_array_equal(found.rank, [2, 3, 4, 5, 6, 7, 8, 0, 1, 2])
    assert found.tied.all()


def test_duplicates_tie_exactly_in_real_numbers():
    """Copies of a positive before it push it back, copies after it do not, at any block size."""
    generator = np.random.default_rng(0)
    items = generator.standard_normal((301, 177), dtype=np.float32)
    items[[40, 200, 300]] = items[250]
    queries = items[250] + generator.standard_normal((45, 177), dtype=np.float32) * 0.01
    labels = Ragged.from_pairs(np.arange(45), np.full(45, 250), 45)
    for block_size in (8, 16, 48):
        (found,) = ranks.compute_ranks(queries, items, [labels], block_size=block_size)
        np.testing.assert_array_equal(found.rank, 2)  # behind 40 and 200
        assert found.tied.all()


def test_block_size_and_devices_do_not_matter_in_real_numbers():
    generator = np.random.default_rng(1)
    items = generator.standard_normal((777, 65), dtype=np.float32)
    items[::3] = items[generator.integers(0, 777, 259)]
    labels = random_labels(generator, 777, 777, exclude_self=True)
    expected, *others = (
        ranks.compute_ranks(items, items, [labels], exclude_self=True, block_size=size, mesh=mesh)[
            0
        ]
        for size, mesh in [(512, None), (8, None), (104, None), (1024, None), (64, mesh_of(8))]
    )
    for other in others:
        np.testing.assert_array_equal(other.rank, expected.rank)
        np.testing.assert_array_equal(other.tied, expected.tied)


def test_one_compilation_for_all_blocks_and_calls():
    generator = np.random.default_rng(2)
    queries, gallery = whole_numbers(generator, 50, 3), whole_numbers(generator, 40, 3)
    labels = [random_labels(generator, 50, 40)]
    before = ranks._rank_blocks._cache_size()
    for _ in range(3):
        ranks.compute_ranks(queries, gallery, labels, block_size=16)
    assert ranks._rank_blocks._cache_size() == before + 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"queries": np.ones((3, 5), np.float32)}, r"Queries \(3, 5\) and gallery \(4, 2\)"),
        ({"gallery": np.full((4, 2), np.nan, np.float32)}, "4 of 4 gallery vectors are not finite"),
        ({"label_sets": [Ragged.from_pairs(np.array([0]), np.array([4]), 3)]}, "4 items"),
        ({"label_sets": [Ragged.from_pairs(np.array([0]), np.array([1]), 2)]}, "2 rows of labels"),
        ({"exclude_self": True}, "3 queries and a gallery of 4"),
        (
            {
                "gallery": np.ones((3, 2), np.float32),
                "label_sets": [Ragged.from_pairs(np.array([1]), np.array([1]), 3)],
                "exclude_self": True,
            },
            "its own positive",
        ),
    ],
)
def test_bad_input(change, message):
    arguments = {
        "queries": np.ones((3, 2), np.float32),
        "gallery": np.ones((4, 2), np.float32),
        "label_sets": [Ragged.from_pairs(np.array([0]), np.array([1]), 3)],
    }
    with pytest.raises(ValueError, match=message):
        ranks.compute_ranks(**(arguments | change))

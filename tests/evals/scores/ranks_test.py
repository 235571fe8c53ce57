"""Ranks and lists against a full stable sort."""

import dataclasses
import re

import numpy as np
import pytest
from slow_ranks import (
    assert_equal_ranks,
    mesh_of,
    products,
    random_labels,
    rank_within,
    slow_ranks,
    whole_numbers,
)

from xmodal.evals.labels.positives import Ragged
from xmodal.evals.scores import counting, ranks
from xmodal.evals.scores import products as products_module
from xmodal.evals.scores.products import Gallery, Products
from xmodal.evals.scores.ranks import LabelSet
from xmodal.similarity import SIMILARITIES, make_similarity

TILINGS = [(None, 64), (None, 128), (None, 1024), (1, 64), (2, 64), (4, 1024), (8, 64)]


@pytest.mark.parametrize(("devices", "block_size"), TILINGS)
def test_both_directions_equal_a_stable_sort(block_size, devices):
    generator = np.random.default_rng(block_size)
    queries, items = whole_numbers(generator, 171, 3), whole_numbers(generator, 233, 3)
    folds = generator.integers(0, 3, 171), generator.integers(0, 3, 233)
    forward = [LabelSet(random_labels(generator, 171, 233)) for _ in range(2)]
    backward = [LabelSet(random_labels(generator, 233, 171))]
    in_fold = folds[0][:, None] == folds[1]
    rows, columns = np.nonzero(in_fold & (generator.random(in_fold.shape) < 0.02))
    forward.append(LabelSet(Ragged.from_pairs(rows, columns, 171), folds))
    backward.append(LabelSet(Ragged.from_pairs(columns, rows, 233), folds[::-1]))
    scores = queries @ items.T
    found = ranks.compute_ranks(
        products(queries, items, block_size=block_size, mesh=mesh_of(devices)), forward, backward
    )
    for answers, label_sets, matrix in zip(
        found, (forward, backward), (scores, scores.T), strict=True
    ):
        for result, label_set in zip(answers.ranks, label_sets, strict=True):
            assert_equal_ranks(result, slow_ranks(matrix, label_set))
        assert answers.ranks[0].tied.sum() > 20  # the tie rule was really asked


@pytest.mark.parametrize(("devices", "block_size"), TILINGS)
def test_within_one_gallery(block_size, devices):
    generator = np.random.default_rng(block_size)
    items = whole_numbers(generator, 301, 3)
    labels = random_labels(generator, 301, 301, exclude_self=True)
    found = rank_within(items, labels, block_size=block_size, mesh=mesh_of(devices))
    assert_equal_ranks(found, slow_ranks(items @ items.T, LabelSet(labels), exclude_self=True))


def test_half_of_the_tiles_serve_both_sides(monkeypatch):
    items = whole_numbers(np.random.default_rng(0), 300, 3)
    scores = products(items, items, block_size=64)
    asked = []
    monkeypatch.setattr(
        scores, "tile", lambda i, j, tile=scores.tile: asked.append((i, j)) or tile(i, j)
    )
    labels = random_labels(np.random.default_rng(1), 300, 300, exclude_self=True)
    ranks.compute_ranks(scores, [LabelSet(labels)], exclude_self=True)
    tiles = asked[2:]  # the first two look whether the device is symmetric
    assert sorted(tiles) == [(i, j) for i in range(5) for j in range(i, 5)]


class Lopsided(Products):
    """A device whose products are not symmetric to the bit."""

    def is_symmetric(self):
        return False


def test_a_device_without_symmetry_computes_all_tiles():
    generator = np.random.default_rng(2)
    items = whole_numbers(generator, 150, 3)
    labels = random_labels(generator, 150, 150, exclude_self=True)
    prepare, score = make_similarity({"name": "dot"}).scorer()
    gallery = Gallery(items, prepare, block_size=64)
    answers, _ = ranks.compute_ranks(
        Lopsided(gallery, gallery, score), [LabelSet(labels)], exclude_self=True
    )
    expected = slow_ranks(items @ items.T, LabelSet(labels), exclude_self=True)
    assert_equal_ranks(answers.ranks[0], expected)


def test_a_device_with_other_bits_is_noticed():
    class Unsteady(Products):
        def pairs(self, rows, columns):
            return np.nextafter(super().pairs(rows, columns), np.float32(np.inf))

    items = np.random.default_rng(3).standard_normal((70, 5), dtype=np.float32)
    prepare, score = make_similarity({"name": "dot"}).scorer()
    gallery = Gallery(items, prepare)
    labels = Ragged.from_pairs(np.arange(70), (np.arange(70) + 1) % 70, 70)
    with pytest.raises(RuntimeError, match="different scores in different products"):
        ranks.compute_ranks(
            Unsteady(gallery, gallery, score), [LabelSet(labels)], exclude_self=True
        )


@pytest.mark.parametrize("devices", [None, 8])
@pytest.mark.parametrize("depth", [1, 7, 100])
def test_lists_equal_a_stable_sort(devices, depth):
    generator = np.random.default_rng(depth)
    queries, items = whole_numbers(generator, 75, 3), whole_numbers(generator, 201, 3)
    scores = queries @ items.T
    forward, backward = ranks.compute_ranks(
        products(queries, items, block_size=64, mesh=mesh_of(devices)),
        [],
        depths=(depth, depth),
    )
    for lists, matrix in ((forward.lists, scores), (backward.lists, scores.T)):
        expected = np.argsort(-matrix, axis=1, kind="stable")[:, :depth]
        expected = np.pad(expected, [(0, 0), (0, depth - expected.shape[1])], constant_values=-1)
        np.testing.assert_array_equal(lists, expected)


def test_tiles_stay_below_the_limit_of_a_count():
    """Two counts share an int32; a query behind 40,000 items needs more than one tile."""
    items = np.arange(40_000, dtype=np.float32)[::-1, None].copy()
    last = LabelSet(Ragged.from_pairs(np.zeros(1, int), np.array([39_999]), 1))
    scores = products(np.ones((1, 1), np.float32), items, block_size=1 << 17)
    found, _ = ranks.compute_ranks(scores, [last])
    assert found.ranks[0].rank.tolist() == [39_999]


@pytest.mark.parametrize("num_items", [1, 2, 63, 64, 65])
def test_gallery_sizes_around_a_tile(num_items):
    generator = np.random.default_rng(num_items)
    queries, items = whole_numbers(generator, 9, 2), whole_numbers(generator, num_items, 2)
    label_set = LabelSet(random_labels(generator, 9, num_items))
    found, _ = ranks.compute_ranks(products(queries, items, block_size=64), [label_set])
    assert_equal_ranks(found.ranks[0], slow_ranks(queries @ items.T, label_set))


def test_constant_embeddings_rank_by_position():
    items = np.ones((10, 4), np.float32)
    labels = Ragged.from_pairs(np.arange(10), (np.arange(10) + 3) % 10, 10)
    found = rank_within(items, labels)
    # Items before the positive, the query itself not counted.
    np.testing.assert_array_equal(found.rank, [2, 3, 4, 5, 6, 7, 8, 0, 1, 2])
    assert found.tied.all()


@pytest.mark.parametrize("similarity", ["dot", "cosine"])
def test_duplicates_tie_exactly_in_real_numbers(similarity):
    """Copies of a positive before it push it back, copies after it do not, in any tile."""
    generator = np.random.default_rng(0)
    items = generator.standard_normal((301, 177), dtype=np.float32)
    items[[40, 200, 300]] = items[250]
    queries = items[250] + generator.standard_normal((45, 177), dtype=np.float32) * 0.01
    label_set = LabelSet(Ragged.from_pairs(np.arange(45), np.full(45, 250), 45))
    for block_size in (64, 128, 1024):
        scores = products(queries, items, block_size=block_size, similarity=similarity)
        found, _ = ranks.compute_ranks(scores, [label_set])
        np.testing.assert_array_equal(found.ranks[0].rank, 2)  # behind 40 and 200
        assert found.ranks[0].tied.all()


@pytest.mark.slow
@pytest.mark.parametrize("width", [65, 1792])
def test_block_size_and_devices_do_not_matter_in_real_numbers(width):
    generator = np.random.default_rng(1)
    items = generator.standard_normal((777, width), dtype=np.float32)
    items[::3] = items[generator.integers(0, 777, 259)]
    labels = random_labels(generator, 777, 777, exclude_self=True)
    expected, *others = (
        rank_within(items, labels, block_size=size, mesh=mesh_of(devices))
        for size, devices in [(512, None), (64, None), (192, None), (1024, None), (64, 8)]
    )
    for other in others:
        assert_equal_ranks(other, (expected.rank, expected.tied))


@pytest.mark.parametrize("width", [8, 16, 24, 30, 50])
def test_block_size_does_not_matter_to_scaled_copies(width):
    """Copies of another length nearly tie: one other bit of a unit vector moves a rank."""
    generator = np.random.default_rng(width)
    base = generator.standard_normal((150, width), dtype=np.float32)
    items = np.concatenate([base, base * np.float32(3.3), base * np.float32(0.7)])
    labels = random_labels(generator, 450, 450, exclude_self=True)
    expected, *others = (
        rank_within(items, labels, block_size=size, similarity="cosine") for size in (64, 192, 1024)
    )
    for other in others:
        assert_equal_ranks(other, (expected.rank, expected.tied))


@pytest.mark.slow
def test_many_tiles_on_eight_devices():
    """Collectives of several tiles under way would wait for each other's threads forever."""
    generator = np.random.default_rng(6)
    images, captions = (generator.standard_normal((n, 64), dtype=np.float32) for n in (1000, 5000))
    i2t = [LabelSet(random_labels(generator, 1000, 5000)) for _ in range(2)]
    t2i = [LabelSet(random_labels(generator, 5000, 1000)) for _ in range(2)]
    t2t = [LabelSet(random_labels(generator, 5000, 5000, exclude_self=True)) for _ in range(2)]
    found = []
    for devices in (8, None):
        mesh = mesh_of(devices)
        between = products(images, captions, block_size=512, mesh=mesh)
        within = products(captions, captions, block_size=512, mesh=mesh)
        both = ranks.compute_ranks(between, i2t, t2i, depths=(50, 10))
        found.append([*both, ranks.compute_ranks(within, t2t, exclude_self=True)[0]])
    for answers, expected in zip(*found, strict=True):
        for ours, theirs in zip(answers.ranks, expected.ranks, strict=True):
            assert_equal_ranks(ours, dataclasses.astuple(theirs))
        np.testing.assert_array_equal(answers.lists, expected.lists)


@pytest.mark.parametrize("name", SIMILARITIES)
def test_devices_do_not_matter_for_any_similarity(name):
    generator = np.random.default_rng(9)
    shape = (3, 16) if name in ("max_cosine", "match_probability") else (16,)
    queries, items = (generator.standard_normal((n, *shape), dtype=np.float32) for n in (130, 300))
    label_set = LabelSet(random_labels(generator, 130, 300))
    found = [
        ranks.compute_ranks(
            products(queries, items, block_size=64, mesh=mesh_of(devices), similarity=name),
            [label_set],
            depths=(7, 7),
        )
        for devices in (4, None)
    ]
    assert_equal_ranks(found[0][0].ranks[0], dataclasses.astuple(found[1][0].ranks[0]))
    for answers, expected in zip(*found, strict=True):
        np.testing.assert_array_equal(answers.lists, expected.lists)
        np.testing.assert_array_equal(answers.list_scores, expected.list_scores)


def test_no_collective_runs_while_tiles_are_counted(monkeypatch):
    programs = []

    def compile_first(function):
        def run(*arguments, **options):
            programs.append(function.lower(*arguments, **options).compile().as_text())
            return function(*arguments, **options)

        return run

    for module, name in (
        (products_module, "_compute"),
        (counting, "_count_label_sets"),
        (counting, "_merge"),
        (counting, "_mask"),
    ):
        monkeypatch.setattr(module, name, compile_first(getattr(module, name)))
    generator = np.random.default_rng(7)
    queries, items = whole_numbers(generator, 100, 3), whole_numbers(generator, 200, 3)
    ranks.compute_ranks(
        products(queries, items, mesh=mesh_of(8)),
        [LabelSet(random_labels(generator, 100, 200))],
        [LabelSet(random_labels(generator, 200, 100))],
        depths=(5, 5),
    )
    assert len(programs) == 6
    for program in programs:
        assert "num_partitions=8" in program
        assert not re.search(r" (all-|collective-|reduce-scatter)\S*\(", program)


def test_one_compilation_for_all_tiles_and_calls():
    generator = np.random.default_rng(2)
    queries, items = whole_numbers(generator, 150, 3), whole_numbers(generator, 140, 3)
    label_sets = [LabelSet(random_labels(generator, 150, 140))]
    counting._count_label_sets.clear_cache()
    for _ in range(3):
        ranks.compute_ranks(products(queries, items, block_size=64), label_sets)
    assert counting._count_label_sets._cache_size() == 1

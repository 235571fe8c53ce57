"""Slow references of ranks, and the inputs of their tests."""

import jax
import numpy as np

from xmodal.evals.labels.positives import Ragged
from xmodal.evals.scores import ranks
from xmodal.evals.scores.products import Gallery, Products
from xmodal.evals.scores.ranks import LabelSet
from xmodal.similarity import make_similarity


def slow_order(scores, i, *, exclude_self, folds):
    """Items that query i meets, by a stable descending sort of its row."""
    order = np.argsort(-scores[i], kind="stable").tolist()
    return [
        j
        for j in order
        if not (exclude_self and i == j) and (folds is None or folds[0][i] == folds[1][j])
    ]


def slow_ranks(scores, label_set, exclude_self=False):
    """Position of the first positive, query by query; whether another item ties with it."""
    positives, rank, tied = label_set.positives, [], []
    for i, row in enumerate(scores.tolist()):
        own = set(positives.values[positives.offsets[i] : positives.offsets[i + 1]].tolist())
        order = slow_order(scores, i, exclude_self=exclude_self, folds=label_set.folds)
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
    if devices is None:
        return None
    auto = (jax.sharding.AxisType.Auto,)
    return jax.make_mesh((devices,), ("data",), devices=jax.devices()[:devices], axis_types=auto)


def products(queries, items, *, block_size=1024, mesh=None, similarity="dot"):
    chosen = make_similarity({"name": similarity})
    prepare, score = chosen.scorer(chosen.init())
    left, right = (
        Gallery(vectors, prepare, block_size=block_size, mesh=mesh) for vectors in (queries, items)
    )
    return Products(left, left if queries is items else right, score)


def rank_within(items, labels, **options):
    (answers, _) = ranks.compute_ranks(
        products(items, items, **options), [LabelSet(labels)], exclude_self=True
    )
    return answers.ranks[0]


def assert_equal_ranks(found, expected):
    np.testing.assert_array_equal(found.rank, expected[0])
    np.testing.assert_array_equal(found.tied, expected[1])

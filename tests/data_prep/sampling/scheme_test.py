"""Each step of the sampling scheme against its definition."""

import collections

import numpy as np

from data_prep.sampling import scheme
from data_prep.sampling.groups import make_groups, number_groups


def make_neighbors(seed, number=37, width=5):
    rng = np.random.default_rng(seed)
    return np.array(
        [rng.permutation(np.delete(np.arange(number), i))[:width] for i in range(number)]
    )


def uneven_groups(sizes=(3, 1, 5, 2, 5, 1, 4)):
    owners = np.repeat(np.arange(len(sizes)), sizes)
    return make_groups(np.arange(len(owners)) + 100, owners + 10)


def test_caption_pairs_join_each_pair_of_groups_once():
    neighbors = make_neighbors(3)
    groups = number_groups(37, 5)
    pairs = groups.draw(scheme.joined_images([neighbors]), np.random.default_rng(0))
    joined = [frozenset(pair) for pair in groups.owners[pairs].tolist()]
    expected = {frozenset((i, j)) for i, row in enumerate(neighbors.tolist()) for j in row}
    assert len(joined) == len(set(joined))
    assert set(joined) == expected
    assert set((pairs % 5).ravel()) == set(range(5))
    assert min(collections.Counter(groups.owners[pairs].ravel().tolist()).values()) >= 5


def test_captions_take_turns_over_the_pairs_of_their_first_image():
    groups = uneven_groups((3, 2, 5))
    images = np.array([(0, 2), (2, 1), (0, 1), (0, 2), (2, 0), (0, 2)])
    pairs = scheme.captions_in_turn(images, groups)
    np.testing.assert_array_equal(groups.owners[pairs], images)
    places = groups.places[pairs].tolist()
    assert places == [[0, 0], [0, 0], [1, 1], [2, 2], [1, 1], [0, 3]]


def test_cocaptions_form_one_cycle_through_each_group():
    groups = uneven_groups()
    pairs = scheme.cocaption_cycles(groups, np.random.default_rng(0)).tolist()
    for start, size in zip(groups.starts.tolist(), groups.sizes.tolist(), strict=True):
        own = [pair for pair in pairs if start <= pair[0] < start + size]
        if size < 3:
            assert [sorted(pair) for pair in own] == [[start, start + 1]] * (size == 2)
            continue
        successor = dict(own)
        walk = [start]
        while len(walk) < size:
            walk.append(successor[walk[-1]])
        assert len(own) == size
        assert sorted(walk) == list(range(start, start + size))
        assert successor[walk[-1]] == walk[0]


def test_every_image_takes_its_best_rated_pairs_from_each_source():
    rng = np.random.default_rng(0)
    groups = number_groups(20, 5)
    sources = []
    for seed in (4, 5):
        edges = np.array(
            [(i, j) for i, row in enumerate(make_neighbors(seed, 20).tolist()) for j in row]
        )
        sources.append((edges, np.random.default_rng(seed).permutation(len(edges)) / 20))
    pairs = scheme.cross_pairs(sources, groups, rng, per_source=1)
    # The caption belongs to the second image of a row; the other image is the first.
    rows = {(groups.owners[caption], image) for caption, image in pairs.tolist()}
    for edges, scores in sources:
        known = {(k, j): score for (j, k), score in zip(edges.tolist(), scores, strict=True)}
        for image in range(20):
            best = max((pair for pair in known if image in pair), key=known.get)
            assert best in rows
    assert len(pairs) <= 40
    assert len(np.unique(pairs, axis=0)) == len(pairs)

import itertools

import numpy as np
import pytest

from data_prep.crisscrossed_shapes import graph_similarity
from data_prep.crisscrossed_shapes.captions import describe
from data_prep.crisscrossed_shapes.scene_graph import (
    Background,
    Content,
    SceneItem,
    full_content,
    make_scenes,
)

OPPOSITE = {"left of": "right of", "right of": "left of", "above": "below", "below": "above"}
ITEM = {"shape": 1.0, "color": 0.8, "size": 0.4, "row": 0.3, "column": 0.3}


def slow_shared_weight(left, right):
    """The definition, one pair and one matching at a time."""

    def same(a, b, name):
        return getattr(a, name) not in ("", None) and getattr(a, name) == getattr(b, name)

    def stated(content):
        return {*content.relations, *((j, OPPOSITE[r], i) for i, r, j in content.relations)}

    best = 0.0
    mine, other = list(left.items), list(right.items) + [SceneItem()] * 4
    for order in itertools.permutations(range(len(other)), len(mine)):
        total = sum(
            value
            for item, k in zip(mine, order, strict=True)
            for name, value in ITEM.items()
            if same(item, other[k], name)
        )
        both = {(order[i], r, order[j]) for i, r, j in stated(left)} & stated(right)
        best = max(best, total + 0.3 * len(both) / 2)
    best += 0.5 * same(left.background, right.background, "pattern")
    best += 0.7 * same(left.background, right.background, "color")
    return best + 0.5 * same(left, right, "count")


@pytest.fixture(scope="module")
def contents():
    scenes = make_scenes(2, {"test": 40})["test"]
    captions = [c for n, s in enumerate(scenes) for c in describe(s, np.random.default_rng(n))]
    return [caption.content for caption in captions] + [full_content(scene) for scene in scenes]


def test_matches_are_the_pairs_in_which_everything_said_is_shown(contents):
    captions, scenes = contents[:67:2], contents[-40:-30]
    slow = [
        (i, j)
        for i, caption in enumerate(captions)
        for j, scene in enumerate(scenes)
        # A caption shares everything it says with itself.
        if slow_shared_weight(caption, scene) > slow_shared_weight(caption, caption) - 1e-4
    ]
    found = graph_similarity.find_matches(
        graph_similarity.encode(captions), graph_similarity.encode(scenes)
    )
    np.testing.assert_array_equal(found.T, slow)
    # Half of the captions of seven scenes describe one of the ten; others are also true.
    assert len(slow) > 30


def test_worked_example():
    star = SceneItem(shape="star", color="red")
    ring = SceneItem(shape="ring")
    caption = Content((star, ring), Background(color="grey"), relations=((0, "above", 1),))
    scene = Content(
        (
            SceneItem("top", "left", "ring", "blue", "small"),
            SceneItem("bottom", "left", "star", "red", "small"),
        ),
        Background("plain", "grey"),
        2,
        ((0, "above", 1),),
    )
    facts = graph_similarity.encode([caption, scene])
    said, shown = facts[np.array([0])], facts[np.array([1])]
    # Star, its color, ring, grey, and that something is above something else.
    np.testing.assert_allclose(graph_similarity.weight(said), 1 + 0.8 + 1 + 0.7 + 0.3)
    # The ring is actually above the star, so everything but the relation holds.
    np.testing.assert_allclose(graph_similarity.fit(said, shown), 3.5 / 3.8, rtol=1e-6)
    np.testing.assert_allclose(graph_similarity.weight(shown), 2 * 2.8 + 0.3 + 0.5 + 0.7 + 0.5)
    np.testing.assert_allclose(
        graph_similarity.resemblance(said, shown), 2 * 3.5 / (3.8 + 7.6), rtol=1e-6
    )

"""How much two partial scene graphs have in common, computed for many pairs at once.

A content states weighted facts: that an item exists (its shape), the item's color, size, row and
column, relations of items, pattern and color of the background, and the number of items. The
items of two contents are matched one to one to maximize the weight of the facts stated by both.
From that shared weight S and the weights W of all facts stated on each side:

- resemblance, symmetric: 2 S / (W_left + W_right), for caption-caption and image-image pairs;
- fit of a caption to a scene: S / W_caption, the fraction of the caption that is true of it.
"""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from data_prep.crisscrossed_shapes import scene_graph
from data_prep.crisscrossed_shapes.scene_graph import MAX_ITEMS, Content

_ITEM_WEIGHTS = {"shape": 1.0, "color": 0.8, "size": 0.4, "row": 0.3, "column": 0.3}
_BACKGROUND_WEIGHTS = {"pattern": 0.5, "color": 0.7}
_COUNT_WEIGHT = 0.5
_RELATION_WEIGHT = 0.3

ITEM_VALUES = {
    "shape": scene_graph.SHAPES,
    "color": scene_graph.COLORS,
    "size": scene_graph.SIZES,
    "row": scene_graph.ROWS,
    "column": scene_graph.COLUMNS,
}
_BACKGROUND_VALUES = {"pattern": scene_graph.PATTERNS, "color": scene_graph.BACKGROUND_COLORS}
_CAPTIONS_AT_A_TIME = 64
_TOLERANCE = 1e-4  # of float32 sums of weights, the smallest of which is far larger

_RELATION_AXES = {"left of": (0, 1), "right of": (0, -1), "above": (1, 1), "below": (1, -1)}


@dataclasses.dataclass(frozen=True)
class Facts:
    """Contents as int8 codes, 0 for attributes that are not stated.

    Attributes:
      items: [N, 4, 5], codes of the attributes in the order of `_ITEM_WEIGHTS`.
      relations: [N, 4, 4, 2], 1 where item i is left of (above) j, -1 right of (below).
      whole: [N, 3], background pattern, background color, number of items.
    """

    items: np.ndarray
    relations: np.ndarray
    whole: np.ndarray

    def __getitem__(self, rows: np.ndarray) -> "Facts":
        return Facts(self.items[rows], self.relations[rows], self.whole[rows])


def encode(contents: Sequence[Content]) -> Facts:
    """Converts contents to arrays, in the given order."""
    items = np.zeros((len(contents), MAX_ITEMS, len(_ITEM_WEIGHTS)), np.int8)
    relations = np.zeros((len(contents), MAX_ITEMS, MAX_ITEMS, 2), np.int8)
    whole = np.zeros((len(contents), len(_BACKGROUND_WEIGHTS) + 1), np.int8)
    for n, content in enumerate(contents):
        for i, item in enumerate(content.items):
            items[n, i] = _codes(item, ITEM_VALUES)
        for i, relation, j in content.relations:
            axis, sign = _RELATION_AXES[relation]
            relations[n, i, j, axis] = sign
            relations[n, j, i, axis] = -sign
        whole[n] = [*_codes(content.background, _BACKGROUND_VALUES), content.count or 0]
    return Facts(items, relations, whole)


def _codes(part: object, values: dict[str, tuple[str, ...]]) -> list[int]:
    said = [getattr(part, name) for name in values]
    return [
        options.index(value) + 1 if value else 0
        for value, options in zip(said, values.values(), strict=True)
    ]


_ITEM = np.array(list(_ITEM_WEIGHTS.values()), np.float32)
_WHOLE = np.array([*_BACKGROUND_WEIGHTS.values(), _COUNT_WEIGHT], np.float32)


def weight(facts: Facts) -> np.ndarray:
    """Weight of everything stated, float32 [N]."""
    items = ((facts.items != 0) @ _ITEM).sum(axis=1)
    # Every relation is stored from both ends.
    relations = np.count_nonzero(facts.relations, axis=(1, 2, 3)) * (_RELATION_WEIGHT / 2)
    return (items + relations + (facts.whole != 0) @ _WHOLE).astype(np.float32)


def shared_weight(left: Facts, right: Facts) -> np.ndarray:
    """Weight of the facts stated on both sides under the best matching of items, float32 [N]."""
    whole = ((left.whole == right.whole) & (left.whole != 0)) @ _WHOLE
    best = np.zeros(len(whole), np.float32)
    for order in itertools.permutations(range(MAX_ITEMS)):
        items = right.items[:, order]
        relations = right.relations[:, order][:, :, order]
        shared = ((left.items == items) & (left.items != 0)) @ _ITEM
        related = (left.relations == relations) & (left.relations != 0)
        total = shared.sum(axis=1) + related.sum(axis=(1, 2, 3)) * (_RELATION_WEIGHT / 2)
        best = np.maximum(best, total)
    return (best + whole).astype(np.float32)


def resemblance(left: Facts, right: Facts) -> np.ndarray:
    """Symmetric similarity of contents, 0 (nothing shared) to 1 (the same), float32 [N].

    Every content must state something.
    """
    return 2 * shared_weight(left, right) / (weight(left) + weight(right))


def fit(captions: Facts, scenes: Facts) -> np.ndarray:
    """Share of the captions' content that holds in scenes, 0 to 1, float32 [N].

    Every caption must state something.
    """
    return shared_weight(captions, scenes) / weight(captions)


def find_matches(captions: Facts, scenes: Facts) -> np.ndarray:
    """Returns every pair of a caption and a scene of which the whole caption is true.

    Args:
      captions: contents of M captions.
      scenes: complete contents of N scenes.

    Returns:
      int64 [2, P], positions of captions and scenes, by caption and then by scene.
    """
    found = []
    for start in range(0, len(captions.whole), _CAPTIONS_AT_A_TIME):
        said = captions[np.arange(start, min(start + _CAPTIONS_AT_A_TIME, len(captions.whole)))]
        rows, columns = np.nonzero(_may_match(said, scenes))
        # Each item may fit individually even if no matching of all items does.
        fits = fit(said[rows], scenes[columns]) > 1 - _TOLERANCE
        found.append(np.stack([start + rows[fits], columns[fits]]))
    return np.concatenate(found, axis=1)


def _may_match(captions: Facts, scenes: Facts) -> np.ndarray:
    """Whether a scene has the background, the number and each single item, bool [M, N]."""
    whole = _holds(captions.whole[:, None], scenes.whole[None])
    items = _holds(captions.items[:, None, :, None], scenes.items[None, :, None])
    return whole & np.all(np.any(items, axis=3), axis=2)


def _holds(said: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """Whether all stated (nonzero) codes along the last axis hold."""
    return ((said == 0) | (said == shown)).all(axis=-1)

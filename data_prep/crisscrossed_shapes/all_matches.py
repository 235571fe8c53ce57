"""All pairs of a caption and a scene it is true of, not only its own scene."""

import numpy as np

from data_prep.crisscrossed_shapes import graph_similarity
from data_prep.crisscrossed_shapes.graph_similarity import Facts

_CAPTIONS_AT_A_TIME = 64
_TOLERANCE = 1e-4  # of float32 sums of weights, the smallest of which is far larger


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
        fits = graph_similarity.fit(said[rows], scenes[columns]) > 1 - _TOLERANCE
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

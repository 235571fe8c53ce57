"""Positive pairs of each kind of label, by gallery position."""

from collections.abc import Sequence

import numpy as np

from xmodal.evals.boards.ragged import Ragged
from xmodal.evals.boards.relation import Relation


def own_pairs(image_of_caption: np.ndarray, group: np.ndarray) -> dict[str, np.ndarray]:
    """Positives a captioned dataset has by itself.

    Args:
      image_of_caption: int [M], position of every caption's image, -1 where it is not in the
        gallery.
      group: int [M], equal for captions of one image.

    Returns:
      Retrieval task -> int [2, P], (query, gallery) positions.
    """
    caption = np.arange(len(group))
    by_image = Ragged.from_pairs(group, caption, int(group.max()) + 1)
    lengths = by_image.lengths[group]
    query = np.repeat(caption, lengths)
    within = np.arange(len(query)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    other = by_image.values[by_image.offsets[group[query]] + within]
    present = image_of_caption >= 0
    i2t = np.stack([image_of_caption[present], caption[present]])
    return {"i2t": i2t, "t2i": i2t[::-1], "t2t": np.stack([query, other])[:, query != other]}


def rated_pairs(
    modalities: tuple[str, str], left: np.ndarray, right: np.ndarray
) -> dict[str, np.ndarray]:
    """Well rated pairs as positives, in both directions.

    Args:
      modalities: of the left and the right side.
      left: int [P], positions.
      right: int [P], positions.

    Returns:
      Retrieval task -> int [2, P], (query, gallery) positions.
    """
    forward = np.stack([left, right])
    if modalities == ("text", "image"):
        return {"t2i": forward, "i2t": forward[::-1]}
    both = np.concatenate([forward, forward[::-1]], axis=1)
    both = both[:, both[0] != both[1]]  # an item is no positive of itself
    return {"t2t" if modalities == ("text", "text") else "i2i": both}


def plausible_matches(
    queries: np.ndarray, gallery: np.ndarray, zetas: Sequence[int]
) -> tuple[Relation, ...]:
    """Items match if their category vectors differ in at most zeta places.

    An item without a category matches nothing (as in the evaluation of PCME and in the files
    released with ECCV Caption, which leave the 48 such images of the COCO test split out).

    Args:
      queries: uint8 0/1 [Q, C], categories of every query's image.
      gallery: uint8 0/1 [N, C], categories of every gallery item's image.
      zetas: largest Hamming distances.

    Returns:
      One relation for each of `zetas`.
    """
    query_vectors, query_group = _distinct(queries)
    gallery_vectors, gallery_group = _distinct(gallery)
    a, b = query_vectors.astype(np.float32), gallery_vectors.astype(np.float32)
    left, right = a.sum(1)[:, None], b.sum(1)[None, :]
    distance = left + right - 2 * (a @ b.T)  # small integers: exact in float32
    distance[(left == 0) | (right == 0)] = np.inf
    return tuple(Relation(query_group, gallery_group, distance <= zeta) for zeta in zetas)


def _distinct(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows [G, C], and the row [N] of them that every vector is."""
    packed = np.ascontiguousarray(np.packbits(vectors, axis=1))
    keys = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()  # compared as one value
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    return vectors[first], group.ravel().astype(np.int32)

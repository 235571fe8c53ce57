"""Chooses float32 or float64 for scores, by the best items of some queries.

Float32 rounds a score by about 1e-7 of the lengths of its vectors. Where scores differ by less,
as for vectors in groups that are far apart or in almost one direction, float64 ranks them.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Sequence

import jax
import numpy as np

from xmodal.similarity.offset import remove_offset

SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)

# Queries per pair of galleries, fewer for galleries of more than a million vectors.
_QUERIES = 64
_MOST_SCORES = 1 << 24
# Numbers in the items that are compared at a time; in float64, they stay in a processor's cache.
_BLOCK = 1 << 20
# Best items of a query that are compared with each other.
_BEST = 32
# Rounding of a score in float32, relative to the lengths of its vectors, and of its float64.
_ROUNDING = 2 * float(np.finfo(np.float32).eps)
_NOTHING = 64 * float(np.finfo(np.float64).eps)
# For one query of a hundred, two scores of unrelated vectors are this close by chance; not several.
_SHARE, _SEVERAL = 0.1, 3


@contextlib.contextmanager
def in_precision(dtype: np.dtype) -> Iterator[None]:
    """A context in which JAX computes in a type; without it, all numbers become float32."""
    if dtype != DOUBLE:
        yield
        return
    # Not every accelerator has float64.
    with jax.enable_x64(True), jax.default_device(jax.local_devices(backend="cpu")[0]):
        yield


@np.errstate(invalid="ignore")  # Values that are not finite are refused elsewhere.
def choose_precision(
    sides: Sequence[np.ndarray], *, by_distance: bool, unit: bool, offset: np.ndarray | None
) -> np.dtype:
    """Returns float64 if float32 would mix up the best items of queries, else float32.

    Args:
      sides: vectors [N, D] or [N, K, D], of one or several galleries; every one of them is
        compared with every one.
      by_distance: whether the score falls with the distance; else it is an inner product.
      unit: whether vectors are scaled to unit length.
      offset: vector that is subtracted from all, see `offset.find_offset`.
    """
    prepare = functools.partial(_prepare, by_distance=by_distance, unit=unit, offset=offset)
    for items in sides:
        if not len(items):
            continue
        number = max(1, min(_QUERIES, _MOST_SCORES // items[..., 0].size))
        lefts = [prepare(side[:: -(-len(side) // number)]) for side in sides if len(side)]
        found = [np.empty((2, len(left), len(items))) for left in lefts]
        step = max(1, _BLOCK // items[0].size)
        for start in range(0, len(items), step):
            block = prepare(items[start : start + step])
            for left, both in zip(lefts, found, strict=True):
                both[..., start : start + step] = _score(left, block, by_distance)
        while found:
            both = found.pop()
            best = _best(both[0])
            apart = None
            if by_distance:
                near = prepare(items[best.ravel()]).vectors.reshape(*best.shape, -1)
                apart = np.square(np.diff(near, axis=1)).sum(axis=-1)
            values, scale = np.take_along_axis(both, best[None], axis=2)
            if _mixes_up(values, scale, apart):
                return DOUBLE
    return SINGLE


@dataclasses.dataclass(frozen=True)
class _Items:
    """Items in float64.

    Attributes:
      vectors: [N, K, D]; for distances, the mean [N, 1, D] of an item's K.
      lengths: [N], of the longest of them.
    """

    vectors: np.ndarray
    lengths: np.ndarray

    def __len__(self) -> int:
        return len(self.lengths)


def _prepare(
    vectors: np.ndarray, by_distance: bool, unit: bool, offset: np.ndarray | None
) -> _Items:
    vectors = remove_offset(vectors, offset, DOUBLE)
    vectors = vectors[:, None] if vectors.ndim == 2 else vectors
    if by_distance:
        vectors = vectors.mean(axis=1, keepdims=True)
    lengths = np.sqrt(np.einsum("nkd,nkd->nk", vectors, vectors))
    if unit and not by_distance:
        vectors = vectors / np.where(lengths > 0, lengths, 1)[..., None]
        lengths = np.sign(lengths)
    return _Items(vectors, lengths.max(axis=1))


def _score(queries: _Items, items: _Items, by_distance: bool) -> np.ndarray:
    """Scores of queries with items, and their rounding errors in float32, [2, Q, N]."""
    (left, right), width = (len(queries), len(items)), queries.vectors.shape[-1]
    products = queries.vectors.reshape(-1, width) @ items.vectors.reshape(-1, width).T
    scores = products.reshape(left, -1, right, items.vectors.shape[1]).max(axis=(1, 3))
    lengths = queries.lengths, items.lengths
    if not by_distance:
        return np.stack([scores, np.multiply.outer(*lengths)])
    scale = np.add.outer(*map(np.square, lengths))
    return np.stack([2 * scores - scale, scale])


def _best(scores: np.ndarray) -> np.ndarray:
    """Positions of the best items of every row, descending, int [Q, at most 32]."""
    best = np.argpartition(-scores, min(_BEST, scores.shape[1]) - 1)[:, :_BEST]
    order = np.argsort(-np.take_along_axis(scores, best, axis=1))
    return np.take_along_axis(best, order, axis=1)


def _mixes_up(scores: np.ndarray, scale: np.ndarray, apart: np.ndarray | None) -> bool:
    """Whether the best scores of a row [Q, C] differ by less than their rounding, not by chance.

    `apart` [Q, C - 1] are the squared distances between neighbors in a row: items that almost
    coincide are different, but may have equal sums of squares even in float64.
    """
    gaps, scale = -np.diff(scores), np.maximum(scale[:, :-1], scale[:, 1:])
    differ = gaps > _NOTHING * scale
    if apart is not None:
        differ |= (apart > 0) & (apart < _ROUNDING * scale)
    mixed = np.sum(differ & (gaps < _ROUNDING * scale), axis=1)
    return bool(np.any(mixed >= _SEVERAL) or np.mean(mixed > 0) > _SHARE)

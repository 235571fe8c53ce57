"""Candidates for a query from faiss, which compares it with only some of the items.

An inverted file: k-means assigns the items to lists, and a query searches the nearest ones. Items
are compared by one vector with 8 bits per number, their mean vector if they have several, and then
scored again exactly.
"""

import dataclasses
import math
import os
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from data_prep.untrusted.saved_arrays import DAMAGE, load_arrays
from xmodal.api.search.exact import Scorer
from xmodal.base.config import UserError
from xmodal.similarity.vectors import unit_length

_PER_LIST = 40  # Items per list that k-means uses; faiss needs at least 39.
_ITERATIONS = 8
_GROWTH = 1.5  # Growth of the effort between two measurements.
TOP = 10  # Hits that the effort is tuned for.


def _import_faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise UserError(
            "Approximate search needs faiss: `pip install 'xmodal[search]'`, or --method=exact."
        ) from error
    return faiss


def has_faiss() -> bool:
    """Returns whether faiss is installed."""
    try:
        _import_faiss()
    except UserError:
        return False
    return True


_unit_length = jax.jit(unit_length)


def _unit(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(_unit_length(vectors))


# Similarity -> whether faiss's vectors have length 1, and whether it compares distances.
_COMPARED = {
    "dot": (False, False),
    "cosine": (True, False),
    "max_cosine": (True, False),
    "euclidean": (False, True),
    "match_probability": (False, True),
    "order": (False, True),
}


def candidate_vectors(similarity: str, vectors: np.ndarray) -> np.ndarray:
    """Returns the vectors float32 [N, D] that faiss compares, for items [N, D] or [N, K, D]."""
    is_unit, _ = _COMPARED[similarity]
    if vectors.ndim == 3:
        vectors = (_unit(vectors) if is_unit else vectors).mean(axis=1)
    return np.ascontiguousarray(_unit(vectors) if is_unit else vectors, np.float32)


@dataclasses.dataclass(frozen=True)
class Effort:
    """How much of an index a query searches.

    Attributes:
      probes: lists searched, per `TOP` hits.
      candidates: items scored exactly, per hit.
    """

    probes: int = 1
    candidates: int = 2  # With 8 bits, the order of the best ten differs.


class ApproximateSearch:
    """Searches some of the lists for the best items."""

    def __init__(
        self, index: Any, similarity: str, scorer: Scorer, vectors: np.ndarray, effort: Effort
    ) -> None:
        """Takes an index from `build_lists` and the vectors of its items."""
        self._index, self._similarity = index, similarity
        self._scorer, self._vectors = scorer, vectors
        self._effort = effort

    def __call__(self, queries: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns descending scores [Q, top], and items int64 [Q, top].

        `top` is at most the number of items.
        """
        return self._search(queries, top, self._effort)

    def _search(
        self, queries: np.ndarray, top: int, effort: Effort
    ) -> tuple[np.ndarray, np.ndarray]:
        points = candidate_vectors(self._similarity, self._scorer.place(queries))
        items = self._find_candidates(points, top, effort)
        # Sorted by position, so that of equal scores the earlier item comes first.
        items = np.sort(items, axis=1)
        scores = self._scorer.rescore(queries, self._vectors[np.maximum(items, 0)])
        scores = np.where(items < 0, -np.inf, scores)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :top]
        return np.take_along_axis(scores, order, 1), np.take_along_axis(items, order, 1)

    def _find_candidates(self, points: np.ndarray, top: int, effort: Effort) -> np.ndarray:
        """At least `top` items of the nearest lists, int64 [Q, C], with -1 after the last."""
        faiss, lists = _import_faiss(), self._index.nlist
        wanted = min(effort.candidates * top, len(self._vectors))
        probes = effort.probes * math.ceil(top / TOP)
        while True:
            searched = faiss.SearchParametersIVF(nprobe=min(probes, lists))
            _, items = self._index.search(points, wanted, params=searched)
            # Lists differ in size: those nearest to a query may hold only a few items.
            if probes >= lists or ((items >= 0).sum(axis=1) >= top).all():
                return items
            probes *= 2

    def tune(self, queries: np.ndarray, truth: np.ndarray, target: float) -> Effort:
        """Increases the effort until it reaches a recall, and returns the effort.

        Args:
          queries: float32 [Q, ...].
          truth: int64 [Q, top], the best items from exact search.
          target: recall to reach.
        """

        def measure(effort: Effort) -> float:
            return compute_recall(self._search(queries, truth.shape[1], effort)[1], truth)

        effort, recall = self._effort, measure(self._effort)
        while recall < target:
            probes = min(math.ceil(_GROWTH * effort.probes), self._index.nlist)
            candidates = min(math.ceil(_GROWTH * effort.candidates), len(self._vectors))
            more = [Effort(probes, effort.candidates), Effort(effort.probes, candidates)]
            tried = [(measure(each), each) for each in more if each != effort]
            if not tried:
                break
            # Of equals, the first: probes cost less than candidates.
            recall, effort = max(tried, key=lambda each: each[0])
        self._effort = effort
        return effort


def compute_recall(found: np.ndarray, truth: np.ndarray) -> float:
    """Returns the share of true items [Q, top] that are found, in any order."""
    return float(
        np.mean([np.isin(row, known).mean() for known, row in zip(found, truth, strict=True)])
    )


def build_lists(similarity: str, vectors: np.ndarray) -> Any:
    """Returns a faiss index of items float32 [N, D] or [N, K, D].

    Raises:
      UserError: faiss is not installed.
    """
    points = candidate_vectors(similarity, vectors)
    count, width = points.shape
    lists = max(1, min(int(4 * math.sqrt(count)), count // _PER_LIST))
    _, by_distance = _COMPARED[similarity]
    index = _empty_lists(width, lists, by_distance=by_distance)
    index.cp.niter, index.cp.max_points_per_centroid = _ITERATIONS, _PER_LIST
    index.cp.seed, index.cp.spherical = 1234, not by_distance
    index.train(points)
    index.add(points)
    return index


def save_lists(index: Any, path: str | os.PathLike) -> None:
    """Writes the arrays of an index of `build_lists` to an npz file.

    `centers` [L, D] of L lists, `ranges` [2 * D] of the 8-bit codes, `sizes` [L]; of all lists, one
    after another, `items` [N] and their `codes` [N, D]; `by_distance`.
    """
    faiss, lists = _import_faiss(), index.invlists
    sizes = [lists.list_size(number) for number in range(index.nlist)]
    filled = [(number, size) for number, size in enumerate(sizes) if size]
    items = [faiss.rev_swig_ptr(lists.get_ids(number), size) for number, size in filled]
    codes = [faiss.rev_swig_ptr(lists.get_codes(n), size * index.d) for n, size in filled]
    np.savez(
        path,
        centers=index.quantizer.reconstruct_n(0, index.nlist),
        ranges=faiss.vector_to_array(index.sq.trained),
        sizes=np.array(sizes, np.int64),
        items=np.concatenate(items),
        codes=np.concatenate(codes).reshape(-1, index.d),
        by_distance=np.array(index.metric_type == faiss.METRIC_L2),
    )


def read_lists(path: str | os.PathLike, vectors: np.ndarray) -> Any:
    """Returns the index in a file of `save_lists`; faiss gets arrays, and reads no file itself.

    Args:
      path: the file.
      vectors: the items of the index, [N, D] or [N, K, D].

    Raises:
      UserError: faiss is not installed, or the file is damaged or holds other items.
    """
    faiss = _import_faiss()
    try:
        with load_arrays(path) as file:
            arrays = {name: file[name] for name in file.files}
        _check_lists(arrays, len(vectors), vectors.shape[-1])
    except DAMAGE as error:
        raise UserError(
            f"{path} is damaged or truncated, or not of this index: build the index again."
        ) from error
    centers, sizes = arrays["centers"], arrays["sizes"]
    index = _empty_lists(*centers.shape[::-1], by_distance=bool(arrays["by_distance"]))
    index.quantizer.add(centers)
    faiss.copy_array_to_vector(arrays["ranges"], index.sq.trained)
    ends = np.cumsum(sizes)
    for number, (start, end) in enumerate(zip(ends - sizes, ends, strict=True)):
        items, codes = arrays["items"][start:end], arrays["codes"][start:end]
        pointers = faiss.swig_ptr(items), faiss.swig_ptr(codes)
        index.invlists.add_entries(number, len(items), *pointers)
    index.is_trained, index.ntotal = True, len(vectors)
    return index


def _empty_lists(width: int, lists: int, *, by_distance: bool) -> Any:
    """A faiss index of vectors [D] without items, not trained."""
    faiss = _import_faiss()
    coarse = faiss.IndexFlatL2(width) if by_distance else faiss.IndexFlatIP(width)
    metric = faiss.METRIC_L2 if by_distance else faiss.METRIC_INNER_PRODUCT
    # A quarter of the memory to read: several times faster than float32, with the same recall.
    eight_bits = faiss.ScalarQuantizer.QT_8bit
    return faiss.IndexIVFScalarQuantizer(coarse, width, lists, eight_bits, metric)


def _check_lists(arrays: Mapping[str, np.ndarray], count: int, width: int) -> None:
    """Raises an error unless every item is in one list, once."""
    lists = len(arrays["sizes"])
    expected = {
        "centers": (np.float32, (lists, width)),
        "ranges": (np.float32, (2 * width,)),
        "sizes": (np.int64, (lists,)),
        "items": (np.int64, (count,)),
        "codes": (np.uint8, (count, width)),
        "by_distance": (np.bool_, ()),
    }
    for name, (dtype, shape) in expected.items():
        found = arrays[name]
        if (found.dtype, found.shape) != (dtype, shape):
            raise ValueError(f"{name} is {found.dtype} {list(found.shape)}")
    sizes, items = arrays["sizes"], arrays["items"]
    if not lists or sizes.min() < 0 or sizes.max() > count or sizes.sum() != count:
        raise ValueError("sizes of other items")
    if not np.array_equal(np.sort(items), np.arange(count)):
        raise ValueError("items twice, or none of the index")

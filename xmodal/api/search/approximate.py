"""Candidates for a query from faiss, which compares it with only some of the items.

An inverted file: k-means assigns the items to lists, and a query searches the nearest ones. Items
are compared by one vector with 8 bits per number, their mean vector if they have several, and then
scored again exactly.
"""

import dataclasses
import importlib.util
import math
from typing import Any

import jax
import numpy as np
from etils import epath

from xmodal.api.search.exact import Scorer
from xmodal.core.errors import UserError
from xmodal.similarity.vectors import unit_length

_PER_LIST = 40  # Items per list that k-means uses; faiss needs at least 39.
_ITERATIONS = 8
_MOST_CANDIDATES = 64  # Per hit; where more are needed, exact search takes less time and memory.
_NUMBERS = 2**24  # Most numbers in the items that are scored at a time.
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
    return importlib.util.find_spec("faiss") is not None


# Similarities that faiss compares by vectors of length 1, and by distances; others by products.
_OF_UNIT_VECTORS = ("cosine", "max_cosine")
_OF_DISTANCES = ("euclidean", "match_probability", "order")

_unit_length = jax.jit(unit_length)


def candidate_vectors(similarity: str, vectors: np.ndarray) -> np.ndarray:
    """Returns the vectors float32 [N, D] that faiss compares, for items [N, D] or [N, K, D]."""

    def scale(array: np.ndarray) -> np.ndarray:
        return np.asarray(_unit_length(array)) if similarity in _OF_UNIT_VECTORS else array

    if vectors.ndim == 3:
        vectors = scale(vectors).mean(axis=1)
    return np.ascontiguousarray(scale(vectors), np.float32)


@dataclasses.dataclass(frozen=True)
class SearchParameters:
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
        self,
        index: Any,
        similarity: str,
        scorer: Scorer,
        vectors: np.ndarray,
        effort: SearchParameters,
    ) -> None:
        """Takes an index from `build_lists` and the vectors of its items."""
        self._index, self._similarity = index, similarity
        self._scorer, self._vectors = scorer, vectors
        self._effort = effort

    def __call__(self, queries: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns descending scores [Q, top], and items int64 [Q, top].

        `top` is at most the number of items.
        """
        points = candidate_vectors(self._similarity, self._scorer.place(queries))
        items = self._find_candidates(points, top)
        # Sorted by position, so that of equal scores the earlier item comes first.
        items = np.sort(items, axis=1)
        numbers = items.shape[1] * math.prod(self._vectors.shape[1:])
        # A power of two, since every size is compiled.
        size = 1 << max(0, (_NUMBERS // numbers).bit_length() - 1)
        parts = []
        for start in range(0, len(queries), size):
            block = slice(start, start + size)
            candidates = self._vectors[np.maximum(items[block], 0)]
            parts.append(self._scorer.rescore(queries[block], candidates))
        scores = np.concatenate(parts)
        scores = np.where(items < 0, -np.inf, scores)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :top]
        return np.take_along_axis(scores, order, 1), np.take_along_axis(items, order, 1)

    def _find_candidates(self, points: np.ndarray, top: int) -> np.ndarray:
        """At least `top` items of the nearest lists, int64 [Q, C], with -1 after the last."""
        faiss, lists = _import_faiss(), self._index.nlist
        wanted = min(self._effort.candidates * top, len(self._vectors))
        probes = self._effort.probes * math.ceil(top / TOP)
        while True:
            searched = faiss.SearchParametersIVF(nprobe=min(probes, lists))
            _, items = self._index.search(points, wanted, params=searched)
            # Lists differ in size: those nearest to a query may hold only a few items.
            if probes >= lists or ((items >= 0).sum(axis=1) >= top).all():
                return items
            probes *= 2

    def tune(
        self, queries: np.ndarray, truth: np.ndarray, target: float
    ) -> tuple[SearchParameters, float]:
        """Doubles the effort until it reaches a recall; returns the effort and its recall.

        If no effort reaches it, this is the largest.

        Args:
          queries: float32 [Q, ...].
          truth: int64 [Q, top], the best items from exact search.
          target: recall to reach.
        """

        def measure(effort: SearchParameters) -> float:
            self._effort = effort
            return compute_recall(self(queries, truth.shape[1])[1], truth)

        effort = self._effort
        most = SearchParameters(self._index.nlist, min(_MOST_CANDIDATES, len(self._vectors)))
        if (recall := measure(most)) < target:
            return most, recall
        recall = measure(effort)
        while recall < target and effort != most:
            probes = min(2 * effort.probes, most.probes)
            candidates = min(2 * effort.candidates, most.candidates)
            more = [
                SearchParameters(probes, effort.candidates),
                SearchParameters(effort.probes, candidates),
            ]
            # Of equals, the first: probes cost less than candidates.
            tried = [(measure(each), each) for each in more if each != effort]
            recall, effort = max(tried, key=lambda pair: pair[0])
        self._effort = effort
        return effort, recall


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
    faiss, by_distance = _import_faiss(), similarity in _OF_DISTANCES
    coarse = faiss.IndexFlatL2(width) if by_distance else faiss.IndexFlatIP(width)
    metric = faiss.METRIC_L2 if by_distance else faiss.METRIC_INNER_PRODUCT
    # A quarter of the memory to read: several times faster than float32, with the same recall.
    eight_bits = faiss.ScalarQuantizer.QT_8bit
    index = faiss.IndexIVFScalarQuantizer(coarse, width, lists, eight_bits, metric)
    index.cp.niter, index.cp.max_points_per_centroid = _ITERATIONS, _PER_LIST
    index.cp.seed, index.cp.spherical = 1234, not by_distance
    index.train(points)
    index.add(points)
    return index


def save_lists(index: Any, path: epath.Path) -> None:
    """Writes an index of `build_lists` to a file for `faiss.read_index`, local or on a bucket."""
    path.write_bytes(_import_faiss().serialize_index(index).tobytes())


def read_lists(path: epath.Path) -> Any:
    """Returns the index in a file of `save_lists` or `faiss.write_index`."""
    return _import_faiss().deserialize_index(np.frombuffer(path.read_bytes(), np.uint8))

"""Finds the best items of a gallery: by comparing all, by faiss's lists, or by token sets.

A search is a function (queries, top) -> descending scores [Q, top] and rows int64 [Q, top], where
`top` is at most the number of items. Items with equal scores keep their order.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xmodal.api.item_embeddings import ItemEmbeddings, tokens_of
from xmodal.evals.scores.score_blocks import HostItems
from xmodal.similarity import Embedding, Similarity
from xmodal.similarity.vectors import SINGLE, in_precision, remove_offset, unit_length

Search = Callable[[Any, int], tuple[np.ndarray, np.ndarray]]

TOP = 10  # Hits that approximate search is tuned for.
CANDIDATES = 100  # Nearest items whose tokens are compared; more if a query requests more.

_BLOCK = 1 << 16  # Items compared at a time.
_PER_LIST = 40  # Items per list that k-means uses; faiss needs at least 39.
_ITERATIONS = 8
_PER_HIT = 16  # Candidates that are scored exactly.
# Similarities that faiss compares by vectors of length 1, and by distances; others by products.
OF_UNIT_VECTORS = ("cosine", "max_cosine")
_OF_DISTANCES = ("euclidean", "match_probability", "order")

_unit_length = jax.jit(unit_length)


class Scorer:
    """Compares queries with the items of one gallery."""

    def __init__(
        self,
        similarity: Similarity,
        parameters: dict[str, float],
        *,
        items_left: bool = False,
        offset: np.ndarray | None = None,
        dtype: np.dtype = SINGLE,
    ) -> None:
        """Binds a similarity.

        Args:
          similarity: the model's similarity.
          parameters: its learned numbers.
          items_left: whether the items are on the left side if the similarity is not symmetric.
          offset: common part of the items, see `Similarity.find_offset`.
          dtype: precision of the scores, see `Similarity.choose_precision`.
        """
        self._offset, self.dtype, self.name = offset, dtype, similarity.name
        self.prepare, score = similarity.scorer(parameters)
        flips = items_left and not similarity.symmetric
        self.score: Any = (lambda left, right: score(right, left).T) if flips else score

        def score_one(query: jax.Array, items: jax.Array) -> jax.Array:
            return self.score(self.prepare(query), self.prepare(items))[0]

        self._score_one = jax.jit(score_one)

    def rescore(self, query: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Returns the scores [C] of a query [1, ...] with items [C, ...].

        They equal those of `ExactSearch` to the last bit (PCME's log-odds to 1e-6).
        """
        with in_precision(self.dtype):
            return np.asarray(self._score_one(self.place(query), self.place(items)))

    def place(self, vectors: np.ndarray) -> np.ndarray:
        """Returns vectors [..., D] of queries or items without the offset, for `prepare`."""
        return remove_offset(vectors, self._offset, self.dtype)


class ExactSearch:
    """Compares queries, float32 [Q, D] or [Q, K, D], with every item."""

    def __init__(self, scorer: Scorer, vectors: np.ndarray, penalties: np.ndarray) -> None:
        """Prepares the items, float32 [N, D] or [N, K, D], whose scores lose penalties [N]."""
        self._scorer, ends = scorer, range(_BLOCK, len(vectors), _BLOCK)
        with in_precision(scorer.dtype):
            self._blocks = [
                (scorer.prepare(jnp.asarray(scorer.place(block))), jnp.asarray(lost))
                for block, lost in zip(
                    np.split(vectors, ends), np.split(penalties, ends), strict=True
                )
            ]

        def find(queries: Any, block: Any, top: int) -> Any:
            scores = scorer.score(queries, block[0]) - block[1]
            scores = jnp.where(scores == 0, 0.0, scores)  # To top_k, -0.0 is smaller.
            return jax.lax.top_k(scores, min(top, scores.shape[1]))

        self._find = jax.jit(find, static_argnums=2)

    def __call__(self, queries: Any, top: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the best items of all."""
        with in_precision(self._scorer.dtype):
            prepared = self._scorer.prepare(jnp.asarray(self._scorer.place(queries)))
            found = [self._find(prepared, block, top) for block in self._blocks]
        scores, items = (np.concatenate(each, axis=1) for each in zip(*found, strict=True))
        starts = np.repeat(np.arange(len(found)) * _BLOCK, [part.shape[1] for part, _ in found])
        return _best(scores, items + starts, top)


class ApproximateSearch:
    """Finds candidates with faiss, which searches some lists of items, and scores them exactly.

    K-means assigns the items to lists, and a query searches the nearest ones. faiss compares one
    vector per item with 8 bits per number, the mean of an item with several.

    Attributes:
      lists: faiss's index.
      probes: lists searched per `TOP` hits.
    """

    def __init__(
        self,
        scorer: Scorer,
        vectors: np.ndarray,
        penalties: np.ndarray,
        lists: Any = None,
        probes: int = 1,
    ) -> None:
        """Takes items, see `ExactSearch`, and their lists, which are built if None."""
        self._scorer, self._vectors, self.probes = scorer, vectors, probes
        self._penalties = penalties
        self.lists = self._build(self._points(vectors)) if lists is None else lists

    def __call__(self, queries: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the best candidates."""
        # Sorted by position, so that of equal scores the earlier item comes first.
        items = np.sort(self._find_candidates(self._points(queries), top), axis=1)
        scores = [
            self._scorer.rescore(queries[row : row + 1], self._vectors[np.maximum(own, 0)])
            for row, own in enumerate(items)
        ]
        return _best(np.stack(scores) - self._penalties[items], items, top)

    def tune(self, queries: np.ndarray, truth: np.ndarray, target: float) -> float:
        """Sets the fewest lists that reach a recall, or all lists, and returns the recall.

        Args:
          queries: float32 [Q, ...].
          truth: int64 [Q, top], the best items from exact search.
          target: recall to reach.
        """
        for probes in _doubling(1, self.lists.nlist):
            self.probes = probes
            pairs = zip(truth, self(queries, truth.shape[1])[1], strict=True)
            recall = float(np.mean([np.isin(known, found).mean() for known, found in pairs]))
            if recall >= target:
                break
        return recall

    def _points(self, vectors: np.ndarray) -> np.ndarray:
        """The vectors float32 [N, D] that faiss compares."""

        def scale(array: np.ndarray) -> np.ndarray:
            return np.asarray(_unit_length(array)) if is_unit else array

        is_unit, found = self._scorer.name in OF_UNIT_VECTORS, self._scorer.place(vectors)
        if found.ndim == 3:
            found = scale(found).mean(axis=1)
        return np.ascontiguousarray(scale(found), np.float32)

    def _build(self, points: np.ndarray) -> Any:
        import faiss

        count, width = points.shape
        lists = max(1, min(int(4 * math.sqrt(count)), count // _PER_LIST))
        by_distance = self._scorer.name in _OF_DISTANCES
        metric = faiss.METRIC_L2 if by_distance else faiss.METRIC_INNER_PRODUCT
        # A quarter of the memory to read: several times faster than float32, with the same recall.
        index: Any = faiss.index_factory(width, f"IVF{lists},SQ8", metric)
        index.cp.niter, index.cp.max_points_per_centroid = _ITERATIONS, _PER_LIST
        index.cp.seed, index.cp.spherical = 1234, not by_distance
        index.train(points)
        index.add(points)
        return index

    def _find_candidates(self, points: np.ndarray, top: int) -> np.ndarray:
        """At least `top` items of the nearest lists, int64 [Q, C], with -1 after the last."""
        import faiss

        wanted = min(_PER_HIT * top, len(self._vectors))
        # Lists differ in size: those nearest to a query may hold only a few items.
        for number in _doubling(self.probes * math.ceil(top / TOP), self.lists.nlist):
            searched = faiss.SearchParametersIVF(nprobe=number)  # type: ignore[call-arg]
            _, items = self.lists.search(points, wanted, params=searched)
            if ((items >= 0).sum(axis=1) >= top).all():
                break
        return items


def _doubling(least: int, most: int) -> Iterator[int]:
    """Yields `least`, twice and four times as many, and so on, and at last `most`."""
    while least < most:
        yield least
        least *= 2
    yield most


def rerank(
    nearest: Search, similarity: Similarity, parameters: Any, items: HostItems, *, items_left: bool
) -> Search:
    """Returns a search that compares the tokens of a query with those of the nearest items.

    Args:
      nearest: finds items by vectors [Q, D].
      similarity: a similarity with a module.
      parameters: its parameters.
      items: vectors and tokens of all items of a gallery.
      items_left: whether the items are images.
    """
    longest = int(items.tokens.lengths.max())

    @jax.jit
    def score(parameters: Any, query: Embedding, found: Embedding) -> jax.Array:
        sides = (found, query) if items_left else (query, found)
        left, right = (similarity.prepare(side, parameters) for side in sides)
        return similarity.score(left, right, parameters).ravel()

    def search(queries: ItemEmbeddings, top: int) -> tuple[np.ndarray, np.ndarray]:
        tokens = tokens_of(queries)
        given, length = HostItems(queries.vector, tokens), int(tokens.lengths.max())
        _, rows = nearest(queries.vector, min(max(top, CANDIDATES), len(items.vectors)))
        rows = np.sort(rows, axis=1)  # -1 where approximate search finds fewer.
        scores = []
        for number, row in enumerate(rows):
            query = given.block(np.array([number]), length)
            scores.append(score(parameters, query, items.block(np.maximum(row, 0), longest)))
        return _best(np.stack(scores), rows, top)

    return search


def _best(scores: np.ndarray, items: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
    """The best of items, of which -1 is none, [Q, C] -> [Q, top]; of equals, the first ones."""
    scores = np.where(items < 0, -np.inf, scores)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :top]
    return np.take_along_axis(scores, order, 1), np.take_along_axis(items, order, 1)

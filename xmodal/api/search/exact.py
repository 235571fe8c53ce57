"""Finds the best items of a gallery by a model's own similarity, block by block."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xmodal.core.mesh import pad_rows
from xmodal.similarity import Similarity
from xmodal.similarity.vectors import SINGLE, in_precision, remove_offset

_BLOCK = 1 << 16  # Items compared at a time.
_QUERIES = 256


class Scorer:
    """Compares queries with the items of one gallery."""

    def __init__(
        self,
        similarity: Similarity,
        parameters: dict[str, float],
        *,
        items_left: bool,
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
        self._offset, self.dtype = offset, dtype
        self.prepare, score = similarity.scorer(parameters)
        flips = items_left and not similarity.symmetric
        self.score: Any = (lambda left, right: score(right, left).T) if flips else score
        self._pairs = jax.jit(lambda *pairs: jax.lax.map(self._one, pairs))

    def _one(self, pair: tuple[jax.Array, jax.Array]) -> jax.Array:
        query, items = pair
        return self.score(self.prepare(query[None]), self.prepare(items))[0]

    def rescore(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Returns the scores [Q, C] of queries [Q, ...] with C items each, [Q, C, ...].

        Queries are scored one by one, so that scores equal those of `ExactSearch` to the last bit
        (PCME's log-odds to 1e-6).
        """
        with in_precision(self.dtype):
            return np.asarray(self._pairs(self.place(queries), self.place(items)))

    def place(self, vectors: np.ndarray) -> np.ndarray:
        """Returns vectors [..., D] of queries or items without the offset, for `prepare`."""
        return remove_offset(vectors, self._offset, self.dtype)


class ExactSearch:
    """Compares every query with every item; of equal scores the earlier item comes first."""

    def __init__(self, scorer: Scorer, vectors: np.ndarray) -> None:
        """Prepares the items, float32 [N, D] or [N, K, D]."""
        self._scorer, self._count = scorer, len(vectors)
        self._size = min(_BLOCK, len(vectors))
        with in_precision(scorer.dtype):
            self._blocks = [
                scorer.prepare(jnp.asarray(pad_rows(scorer.place(block), self._size)))
                for block in np.split(vectors, range(self._size, len(vectors), self._size))
            ]
        self._merge = jax.jit(
            lambda best, queries, block, *place: merge_best(
                *best, scorer.score(queries, block), *place
            )
        )

    def __call__(self, queries: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the best scores [Q, top], descending, and their items int64 [Q, top].

        Args:
          queries: float32 [Q, D] or [Q, K, D].
          top: at most the number of items.
        """
        with in_precision(self._scorer.dtype):
            parts = [
                self._search(queries[start : start + _QUERIES], top)
                for start in range(0, len(queries), _QUERIES)
            ]
        scores, items = zip(*parts, strict=True)
        return np.concatenate(scores), np.concatenate(items).astype(np.int64)

    def _search(self, queries: np.ndarray, top: int) -> Any:
        prepared = self._scorer.prepare(jnp.asarray(self._scorer.place(queries)))
        shape = len(queries), top
        best: Any = np.full(shape, -np.inf, self._scorer.dtype), np.zeros(shape, np.int32)
        for number, block in enumerate(self._blocks):
            start = number * self._size
            best = self._merge(best, prepared, block, start, self._count - start)
        return best


@jax.jit
def merge_best(
    scores: jax.Array, items: jax.Array, tile: jax.Array, start: jax.Array, count: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Merges the best items so far with those of a tile; of equal scores, the earlier comes first.

    Args:
      scores: the best scores so far [Q, K], descending.
      items: their items, int32 [Q, K].
      tile: scores [Q, N] of later items.
      start: position of the first of these items.
      count: number of columns of the tile that are real.
    """
    top = scores.shape[1]
    tile = jnp.where(tile == 0, 0.0, tile)  # By the bits, as top_k sorts, -0.0 is smaller.
    tile = jnp.where(jnp.arange(tile.shape[1]) < count, tile, -jnp.inf)
    found, places = jax.lax.top_k(tile, min(top, tile.shape[1]))
    # Those so far are on the left: of equals, top_k takes the left one.
    scores, chosen = jax.lax.top_k(jnp.concatenate([scores, found], axis=1), top)
    items = jnp.concatenate([items, start + places.astype(jnp.int32)], axis=1)
    return scores, jnp.take_along_axis(items, chosen, axis=1)

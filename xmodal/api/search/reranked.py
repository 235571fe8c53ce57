"""Search by a similarity over token sets: the nearest vectors, reordered by that similarity."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from xmodal.api.item_embeddings import ItemEmbeddings
from xmodal.evals.scores.ragged_tokens import RaggedTokens
from xmodal.evals.scores.score_blocks import HostItems
from xmodal.similarity import Embedding, Similarity, make_similarity

CANDIDATES = 100  # Nearest items whose tokens are compared; more if a query requests more.

FIRST_STAGE = make_similarity({"name": "cosine"})
"""The similarity of vectors that chooses them."""


class RerankedSearch:
    """Compares the tokens of every query with those of the items nearest to its vector."""

    def __init__(
        self,
        nearest: Callable[[np.ndarray, int], tuple[np.ndarray, np.ndarray]],
        similarity: Similarity,
        parameters: Any,
        items: HostItems,
        *,
        items_left: bool,
    ) -> None:
        """Binds the items of a gallery.

        Args:
          nearest: (vectors [Q, D], top) -> scores and items [Q, top], see `ExactSearch`.
          similarity: a similarity with a module.
          parameters: its parameters.
          items: vectors and tokens of all items.
          items_left: whether the items are images.
        """
        self._nearest, self._items = nearest, items
        self._length = int(items.tokens.lengths.max())
        self._score = functools.partial(_score, similarity, items_left, parameters)

    def __call__(self, queries: ItemEmbeddings, top: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the best scores float32 [Q, top], descending, and their items int64 [Q, top].

        Args:
          queries: Q queries with tokens.
          top: at most the number of items.
        """
        assert isinstance(queries.tokens, RaggedTokens)
        requests = HostItems(queries.vector, queries.tokens)
        longest = int(queries.tokens.lengths.max())
        many = min(max(top, CANDIDATES), len(self._items.vectors))
        _, candidates = self._nearest(queries.vector, many)
        scores = np.empty((len(queries), top), np.float32)
        items = np.empty((len(queries), top), np.int64)
        for number, row in enumerate(candidates):
            # Approximate search may find fewer, -1 after the last.
            real = np.sort(row[row >= 0])
            padded = np.resize(real, many) if len(real) else np.zeros(many, np.int64)
            query = requests.block(np.array([number]), longest)
            found = self._score(query, self._items.block(padded, self._length))
            values = np.asarray(found)[: len(real)]
            best = np.argsort(-values, kind="stable")[:top]
            scores[number], items[number] = -np.inf, -1
            scores[number, : len(best)], items[number, : len(best)] = values[best], real[best]
        return scores, items


@functools.partial(jax.jit, static_argnums=(0, 1))
def _score(
    similarity: Similarity, items_left: bool, parameters: Any, query: Embedding, items: Embedding
) -> jax.Array:
    """Scores [C] of one query with C items."""
    sides = (items, query) if items_left else (query, items)
    left, right = (similarity.prepare(side, parameters) for side in sides)
    return similarity.score(left, right, parameters).ravel()

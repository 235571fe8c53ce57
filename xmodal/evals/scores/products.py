"""Scores of two galleries, tile by tile: a pair has the same score wherever it is computed.

Ranks compare the score of a positive with the scores of the whole gallery, so the same pair must
have the same bits from `tile` and from `pairs`. Every product therefore has one shape
per gallery, made of whole groups of 64 rows: XLA computes leftover rows in a different
summation order. `ranks.compute_ranks` counts every positive against itself and so notices a device
on which this fails.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from xmodal.core.errors import UserError
from xmodal.core.mesh import BATCH_AXIS, to_host
from xmodal.evals.scores.finite import count_not_finite, refuse_not_finite
from xmodal.evals.scores.pair_layout import lay_out
from xmodal.evals.scores.saved_scores import SavedScores
from xmodal.evals.scores.score_blocks import HostItems, compute_score_matrix
from xmodal.evals.scores.score_tiles import GROUP, Scores, choose_rows, complete_rows, one_device
from xmodal.evals.scores.sources import Embeddings
from xmodal.similarity import Similarity, make_similarity
from xmodal.similarity.precision import DOUBLE, SINGLE, in_precision
from xmodal.similarity.scores import TILE_ROWS

Score = Callable[[Any, Any], jax.Array]

# Scores of single pairs come from small products of some queries with their partners. These are the
# sizes on a CPU, where small products have the same bits as large ones, and the number of partners
# at a time, whose vectors stay in its cache.
_CPU_PRODUCT = (TILE_ROWS, GROUP)
_PARTNERS_AT_A_TIME = 512
# Products above this have all 24 bits, as do sums of terms much smaller than the largest.
_SMALLEST_PRODUCT = 2.0**-102


class Gallery:
    """Items prepared for a similarity: complete on the host, in tiles over the devices."""

    def __init__(
        self,
        vectors: np.ndarray,
        prepare: Callable[[jax.Array], Any],
        *,
        block_size: int = 1024,
        mesh: Mesh | None = None,
        name: str = "",
    ) -> None:
        """Prepares and places the items.

        Args:
          vectors: float32 or float64, [N, D] or [N, K, D].
          prepare: [b, ...] -> tree of arrays [b, ...] of this type, row by row.
          block_size: largest number of items per tile.
          mesh: every tile is sharded over its `data` axis; None for one device.
          name: name of the items, for errors.

        Raises:
          UserError: a value is not finite.
        """
        if bad := count_not_finite(vectors):
            raise UserError(
                f"{bad:,} of {len(vectors):,} {name} embeddings are not finite: the model diverged "
                "or the file is damaged."
            )
        self.dtype = vectors.dtype
        if mesh is None or self.dtype == DOUBLE:
            mesh = one_device(self.dtype)
        self.mesh = mesh
        self.size = len(vectors)
        self.rows = choose_rows(self.size, block_size, GROUP * mesh.shape[BATCH_AXIS])
        self.width, self.largest = vectors.shape[-1], 0.0
        starts = range(0, self.size, self.rows)
        self._prepared = None
        for start in starts:
            block = vectors[start : start + self.rows]
            padding = [(0, self.rows - len(block))] + [(0, 0)] * (vectors.ndim - 1)
            with in_precision(self.dtype):
                block = prepare(jnp.asarray(np.pad(block, padding)))
            if self._prepared is None:
                padded = len(starts) * self.rows
                self._prepared = jax.tree.map(
                    lambda x, padded=padded: np.empty((padded, *x.shape[1:]), x.dtype), block
                )
            jax.tree.map(_fill(start), self._prepared, block)
            # The squares of vectors do not count.
            numbers = block["vectors"] if isinstance(block, dict) else block
            self.largest = max(self.largest, _largest(numbers))
        self._tiles = [self._place(self._rows(j), P(BATCH_AXIS)) for j in range(len(starts))]
        self._queries: tuple[int, Any] = -1, None  # The last requested ones.

    def items(self, j: int) -> Any:
        """Tile j, sharded over the devices."""
        return self._tiles[j]

    def queries(self, i: int) -> Any:
        """Tile i, on every device."""
        if self._queries[0] != i:
            self._queries = i, self._place(self._rows(i), P())
        return self._queries[1]

    def take(self, positions: np.ndarray) -> Any:
        """Prepared items at the given positions, on the host."""
        return jax.tree.map(lambda x: x[positions], self._prepared)

    def _rows(self, j: int) -> Any:
        at = slice(j * self.rows, (j + 1) * self.rows)
        return jax.tree.map(lambda x: x[at], self._prepared)

    def _place(self, tree: Any, spec: P) -> Any:
        sharding = NamedSharding(self.mesh, spec)
        with in_precision(self.dtype):
            return jax.tree.map(
                lambda x: jax.make_array_from_callback(x.shape, sharding, lambda at: x[at]), tree
            )


class Products:
    """Scores computed from two galleries of embeddings."""

    def __init__(
        self,
        queries: Gallery,
        items: Gallery,
        score: Score,
    ) -> None:
        """Takes Q queries and N items, the same object within one gallery, and their score."""
        self.shape = (queries.size, items.size)
        self.tile_shape = (queries.rows, items.rows)
        self.mesh, self.dtype = items.mesh, items.dtype
        self._queries, self._items = queries, items
        self._score = score
        self._symmetric: bool | None = None
        self._finite = False
        # Positives are often rated too: already scored pairs, row * N + column, and their scores.
        self._known = np.zeros(0, np.int64), np.zeros(0, self.dtype)

    def tile(self, i: int, j: int) -> jax.Array:
        """See `Scores.tile`; the columns are sharded like the items."""
        with in_precision(self.dtype):
            return _compute(self._score, self.mesh, self._queries.queries(i), self._items.items(j))

    def pairs(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """See `Scores.pairs`."""
        if self.is_symmetric():  # The same from either end.
            rows, columns = np.minimum(rows, columns), np.maximum(rows, columns)
        keys = np.asarray(rows, np.int64) * self.shape[1] + columns
        known, values = self._known
        new = np.setdiff1d(keys, known)
        if len(new):
            known = np.concatenate([known, new])
            values = np.concatenate([values, self._score_pairs(*np.divmod(new, self.shape[1]))])
            order = np.argsort(known)
            self._known = known, values = known[order], values[order]
        return values[np.searchsorted(known, keys)]

    def _score_pairs(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Scores of pairs by ascending row."""
        on_cpu = jax.default_backend() == "cpu" or self.dtype == DOUBLE
        height, width = _CPU_PRODUCT if on_cpu else (max(self.tile_shape),) * 2
        layout = lay_out(rows, columns, height, width)
        step = max(1, _PARTNERS_AT_A_TIME // width)
        found: list[Any] = []
        for start in range(0, len(layout.left), step):
            # All calls have one shape.
            at = np.resize(np.arange(start, min(start + step, len(layout.left))), step)
            left, right = self._queries.take(layout.left[at]), self._items.take(layout.right[at])
            with in_precision(self.dtype):
                found.append(_compute_partners(self._score, left, right, layout.row[at]))
            # The host copies only the next items while the device computes.
            found[:-1] = [np.asarray(scores) for scores in found[:-1]]
        return np.concatenate([np.asarray(scores) for scores in found])[layout.block, layout.column]

    def check_finite(self, asked: str = "") -> None:
        """See `Scores.check_finite`; also rejects products that are lost to rounding."""
        left, right = self._queries.largest, self._items.largest
        if self.dtype == SINGLE and 0 < left * right < _SMALLEST_PRODUCT:
            raise UserError(
                f"numbers up to {max(left, right):.0e} in the embeddings are too small for this "
                "similarity in float32: scores would tie. Multiply all of them by one number, or "
                "use the cosine similarity."
            )
        # No inner product, squared distance or partial sum of them is larger.
        largest = self._items.width * (left + right) ** 2
        if self._finite or largest < float(np.finfo(self.dtype).max):
            return
        blocks = (complete_rows(self, i) for i in range(-(-self.shape[0] // self.tile_shape[0])))
        refuse_not_finite(
            blocks,
            asked,
            f"numbers up to {max(left, right):.0e} in the embeddings are too large for this "
            "similarity in float32. Divide all by one number, or use the cosine similarity.",
        )
        self._finite = True

    def transpose(self) -> "Scores":
        """See `Scores.transpose`; the order of the two sides in a score is kept.

        The rows of its tiles, not the columns, are sharded: they cannot be counted.
        """
        return _Transposed(self)

    def is_symmetric(self) -> bool:
        """Whether scores within one gallery have the same bits from either side.

        Only a tile far from the diagonal is tested; `ranks.compute_ranks` would notice a positive
        for which this does not hold.
        """
        if self._symmetric is None:
            last = -(-self.shape[1] // self.tile_shape[1]) - 1
            self._symmetric = self._queries is self._items and np.array_equal(
                to_host(self.tile(0, last), self.mesh), to_host(self.tile(last, 0), self.mesh).T
            )
        return self._symmetric


class _Transposed:
    """Scores of the items of `base` as queries."""

    def __init__(self, base: Scores) -> None:
        self._base = base
        self.shape, self.tile_shape = base.shape[::-1], base.tile_shape[::-1]
        self.mesh, self.dtype = base.mesh, base.dtype

    def tile(self, i: int, j: int) -> jax.Array:
        """See `Scores.tile`."""
        return self._base.tile(j, i).T

    def pairs(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """See `Scores.pairs`."""
        return self._base.pairs(columns, rows)

    def check_finite(self, asked: str = "") -> None:
        """See `Scores.check_finite`."""
        self._base.check_finite(asked)

    def is_symmetric(self) -> bool:
        """See `Scores.is_symmetric`."""
        return self._base.is_symmetric()

    def transpose(self) -> Scores:
        """See `Scores.transpose`."""
        return self._base


def open_scores(
    embeddings: Embeddings, *, block_size: int = 1024, mesh: Mesh | None = None
) -> dict[tuple[str, str], Scores]:
    """Returns the scores of ("image", "text"), ("text", "text") and ("image", "image").

    Pairs with a side that has no embeddings are missing. Every tile has at most `block_size` items
    and is sharded over the `data` axis of `mesh`.

    Raises:
      UserError: an embedding is not finite.
    """
    named = {"name": embeddings.similarity, **embeddings.options}
    similarity = make_similarity(named, "similarity")
    if similarity.module is not None:
        return _open_blocks(similarity, embeddings, block_size, mesh)
    prepare, score = similarity.scorer(embeddings.parameters)
    vectors = {"image": embeddings.images, "text": embeddings.captions}
    given = {side: rows for side, rows in vectors.items() if rows is not None}
    placed = similarity.place(*given.values())
    galleries = {
        side: Gallery(rows, prepare, block_size=block_size, mesh=mesh, name=side)
        for side, rows in zip(given, placed, strict=True)
    }
    pairs = [("image", "text"), ("text", "text"), ("image", "image")]
    return {
        (left, right): Products(galleries[left], galleries[right], score)
        for left, right in pairs
        if {left, right} <= set(galleries)
    }


def _open_blocks(
    similarity: Similarity, embeddings: Embeddings, block_size: int, mesh: Mesh | None
) -> dict[tuple[str, str], Scores]:
    """Scores of a similarity with a module, which compares images with texts only."""
    vectors = {"image": embeddings.images, "text": embeddings.captions}
    sides = [(vectors[side], embeddings.tokens.get(side)) for side in ("image", "text")]
    if any(found is None for found, _ in sides):
        return {}
    items = [HostItems(found, tokens) for found, tokens in sides if found is not None and tokens]
    if len(items) < len(sides):
        raise UserError(
            f"Similarity {similarity.name!r} compares tokens, but {embeddings.place} has only "
            "vectors; save its embeddings again, or name a similarity of vectors."
        )
    matrix = compute_score_matrix(
        similarity, embeddings.parameters, *items, mesh=mesh or one_device()
    )
    return {("image", "text"): SavedScores(matrix, block_size=block_size, mesh=mesh)}


@functools.partial(jax.jit, static_argnums=(0, 1))
def _compute(score: Score, mesh: Mesh, queries: Any, items: Any) -> jax.Array:
    """Every device scores its own items, see `counting`."""
    specs = P(), P(BATCH_AXIS)
    # A score may scan from a constant, whose type does not vary over the devices.
    spread = jax.shard_map(
        score, mesh=mesh, in_specs=specs, out_specs=P(None, BATCH_AXIS), check_vma=False
    )
    return spread(queries, items)


@functools.partial(jax.jit, static_argnums=0)
def _compute_partners(score: Score, left: Any, right: Any, row: Any) -> jax.Array:
    """[blocks, b] scores of items [blocks, b, ...] with those of [blocks, a, ...] at `row`."""

    def compute(block: Any) -> jax.Array:
        left, right, row = block
        return jnp.take_along_axis(score(left, right), row[None], axis=0)[0]

    return jax.lax.map(compute, (left, right, row))


def _fill(start: int) -> Callable[[np.ndarray, jax.Array], None]:
    def fill(whole: np.ndarray, block: jax.Array) -> None:
        whole[start : start + len(block)] = block

    return fill


def _largest(values: jax.Array) -> float:
    values = np.asarray(values)
    return max(float(values.max()), -float(values.min()))

"""Scores by rows: a block of queries with the whole gallery, of vectors or from a matrix.

Everything that is read from scores (positives, ranks, ties, lists) is read from the same row, so
that nothing depends on how two products round. Devices make scores; NumPy reads them.
"""

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from xmodal.core.errors import UserError
from xmodal.core.mesh import BATCH_AXIS, make_mesh, put, to_host
from xmodal.core.progress import progress
from xmodal.evals.scores.score_blocks import HostItems, compute_score_matrix
from xmodal.evals.scores.sources import Embeddings
from xmodal.similarity import Similarity, make_similarity
from xmodal.similarity.vectors import DOUBLE, in_precision, remove_offset

# Scores of items whose number is a multiple of this do not depend on their places.
_GROUP = 64
_BLOCK = 1280  # Items per product.
_ROWS_BYTES = 1 << 29  # Of a block of rows, unless a single product of them is larger.
_PAIRS = 2048  # Single pairs that are scored at a time.


def memory_budget() -> int:
    """Returns a quarter of the machine's memory, in bytes: the most for a matrix of scores."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4


def one_device(platform: str | None = None) -> Mesh:
    """Returns a mesh of the first device of this process, of a platform such as "cpu"."""
    return make_mesh(jax.local_devices(backend=platform)[:1])


class Scores:
    """Scores of Q queries and N items.

    Attributes:
      shape: (Q, N).
      dtype: type of the scores, float32 or float64.
    """

    shape: tuple[int, int]
    dtype: np.dtype

    def rows(self, queries: np.ndarray) -> np.ndarray:
        """Returns the scores of queries at positions [q] with all items, [q, N]; may be a view."""
        raise NotImplementedError

    def transpose(self) -> "Scores":
        """Returns the scores of the items as queries."""
        raise NotImplementedError

    def pairs(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Returns the scores [P] of single pairs at positions [P]."""
        found = np.empty(len(queries), self.dtype)
        asked, where = np.unique(queries, return_inverse=True)
        order = np.argsort(where, kind="stable")
        for at, rows in self.blocks(asked):
            start, end = np.searchsorted(where[order], [at.start, at.stop])
            some = order[start:end]
            found[some] = rows[where[some] - at.start, items[some]]
        return found

    def find_scored(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Returns which pairs at positions [P] have a score, and not only a rank; bool [P]."""
        del items
        return np.ones(len(queries), bool)

    def rounding(self, queries: np.ndarray) -> np.ndarray | None:
        """Returns by how much scores of queries differ from rounding, [q]; None for exact ones."""
        del queries
        return None

    def hold(self, budget: int) -> "Scores":
        """Returns the scores in memory, if they take at most `budget` bytes; else itself."""
        del budget
        return self

    @property
    def height(self) -> int:
        """Queries in a block of rows."""
        fitting = _ROWS_BYTES // (self.shape[1] * self.dtype.itemsize)
        return min(max(fitting // _GROUP, 1) * _GROUP, 2 * _BLOCK)

    def blocks(self, queries: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Yields parts of `queries`, and the rows of each."""
        for start in range(0, len(queries), self.height):
            at = slice(start, min(start + self.height, len(queries)))
            yield at, self.rows(queries[at])


class MatrixScores(Scores):
    """Scores from a matrix in memory or on disk, of any float type.

    Rows and columns may be those of other items, in another order.
    """

    def __init__(
        self,
        matrix: np.ndarray,
        rows: np.ndarray | None = None,
        columns: np.ndarray | None = None,
        *,
        rounding: Sequence[np.ndarray | None] = (None, None),
    ) -> None:
        """Takes a matrix, and positions in it of the queries [Q] and items [N]; None for all.

        `rounding`: see `Scores`, of the queries and, for its transpose, of the items.
        """
        self._matrix, self._rows, self._columns = matrix, rows, columns
        self._rounding = rounding
        sizes = zip(matrix.shape, (rows, columns), strict=True)
        queries, items = (size if at is None else len(at) for size, at in sizes)
        self.shape, self.dtype = (queries, items), np.result_type(matrix.dtype, np.float32)

    def rows(self, queries: np.ndarray) -> np.ndarray:
        """See `Scores`."""
        at = queries if self._rows is None else self._rows[queries]
        if len(at) and at[-1] - at[0] == len(at) - 1 and np.all(np.diff(at) == 1):
            found = self._matrix[at[0] : at[-1] + 1]
        else:
            found = self._matrix[at]
        found = found if self._columns is None else found[:, self._columns]
        return np.ascontiguousarray(found, self.dtype)

    def pairs(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        """See `Scores`."""
        queries = queries if self._rows is None else self._rows[queries]
        items = items if self._columns is None else self._columns[items]
        return np.asarray(self._matrix[queries, items], self.dtype)

    def transpose(self) -> "MatrixScores":
        """See `Scores`."""
        return MatrixScores(
            self._matrix.T, self._columns, self._rows, rounding=self._rounding[::-1]
        )

    def rounding(self, queries: np.ndarray) -> np.ndarray | None:
        """See `Scores`."""
        return None if self._rounding[0] is None else self._rounding[0][queries]


class Gallery:
    """Items of one side prepared for a similarity, in blocks of one size over the devices."""

    def __init__(self, vectors: np.ndarray, prepare: Callable[[Any], Any], mesh: Mesh) -> None:
        """Prepares vectors, float32 or float64 [N, D] or [N, K, D]."""
        self.size, self.mesh, self.dtype = len(vectors), mesh, vectors.dtype
        group = _GROUP * mesh.shape[BATCH_AXIS]
        number = -(-self.size // max(_BLOCK, group))
        self.height = -(-self.size // (number * group)) * group
        self.number = -(-self.size // self.height)
        parts = []
        for start in range(0, self.size, self.height):
            part = vectors[start : start + self.height]
            padding = [(0, self.height - len(part))] + [(0, 0)] * (vectors.ndim - 1)
            with in_precision(self.dtype):
                parts.append(jax.tree.map(np.asarray, prepare(jnp.asarray(np.pad(part, padding)))))
        self._parts, self._tiles = parts, [self.place(part, P(BATCH_AXIS)) for part in parts]

    def tile(self, number: int) -> Any:
        """Returns a block of items, split over the devices."""
        return self._tiles[number]

    def take(self, positions: np.ndarray) -> Any:
        """Returns items [P, ...] on the host."""
        block, row = np.divmod(positions, self.height)

        def gather(*parts: np.ndarray) -> np.ndarray:
            found = np.empty((len(positions), *parts[0].shape[1:]), parts[0].dtype)
            for number in np.unique(block):
                found[block == number] = parts[number][row[block == number]]
            return found

        return jax.tree.map(gather, *self._parts)

    def queries(self, positions: np.ndarray, height: int) -> Any:
        """Returns items on every device, repeated up to a height."""
        return self.place(self.take(np.resize(positions, height)), P())

    def place(self, tree: Any, spec: P) -> Any:
        """Returns a tree of arrays on the devices."""
        with in_precision(self.dtype):
            return jax.tree.map(lambda x: put(x, NamedSharding(self.mesh, spec)), tree)

    @functools.cached_property
    def lengths(self) -> np.ndarray:
        """Lengths of the prepared vectors, float32 [N]; of several, of the longest."""
        parts = [part["vectors"] if isinstance(part, dict) else part for part in self._parts]
        found = [np.linalg.norm(part, axis=-1) for part in parts]
        return np.concatenate([x if x.ndim == 1 else x.max(axis=1) for x in found])[: self.size]


class VectorScores(Scores):
    """Scores of two galleries of vectors; no row is kept.

    With `flips`, the items are on the left side of a similarity that is not symmetric.
    """

    def __init__(
        self, queries: Gallery, items: Gallery, similarity: Similarity, score: Any, *,
        place: str = "", flips: bool = False,
    ) -> None:  # fmt: skip
        """Takes two galleries, the same object within one; `place` names the model."""
        self._queries, self._items = queries, items
        self._similarity, self._score, self._flips = similarity, score, flips
        self._place = place
        self.shape, self.dtype = (queries.size, items.size), items.dtype

    def rows(self, queries: np.ndarray) -> np.ndarray:
        """See `Scores`."""
        # Few heights, because each is compiled.
        height = _GROUP << max(0, -(-len(queries) // _GROUP) - 1).bit_length()
        if len(queries) <= self.height < height:
            height = self.height
        placed = self._queries.queries(queries, height)
        tiles = [self._compute(placed, number) for number in range(self._items.number)]
        found = np.empty((len(queries), self.shape[1]), self.dtype)
        for number, tile in enumerate(tiles):
            self._copy(tile, found[:, self._columns(number)])
        return found

    def pairs(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        """See `Scores`."""
        found = []
        for start in range(0, len(queries), _PAIRS):
            some = slice(start, start + _PAIRS)
            ends = [np.resize(each[some], _PAIRS) for each in (queries, items)]
            ends = self._queries.take(ends[0]), self._items.take(ends[1])
            with in_precision(self.dtype):
                scores = _score_pairs(self._score, *(ends[::-1] if self._flips else ends))
            found.append(np.asarray(scores)[: len(queries[some])])
        return np.concatenate([np.zeros(0, self.dtype), *found])

    def transpose(self) -> "VectorScores":
        """See `Scores`."""
        flips = not self._similarity.symmetric and not self._flips
        return VectorScores(
            self._items, self._queries, self._similarity, self._score,
            place=self._place, flips=flips,
        )  # fmt: skip

    def rounding(self, queries: np.ndarray) -> np.ndarray | None:
        """See `Scores`; None for float64, and for scores that are no products."""
        if self.dtype == DOUBLE or not self._similarity.of_products:
            return None
        typical = np.sqrt(np.mean(np.square(self._items.lengths)))
        return np.finfo(np.float32).eps * typical * self._queries.lengths[queries]

    def hold(self, budget: int) -> Scores:
        """See `Scores`; of a symmetric similarity within one gallery, half is computed."""
        if self.shape[0] * self.shape[1] * self.dtype.itemsize > budget:
            return self
        halves = self._queries is self._items and self._similarity.symmetric
        matrix = np.empty(self.shape, self.dtype)
        sizes = f"{self.shape[0]:,} x {self.shape[1]:,}"
        with progress(f"Scoring {sizes} pairs", self._queries.number, jointly=True) as advance:
            for i in range(self._queries.number):
                height = self._queries.height
                rows = slice(i * height, min((i + 1) * height, self.shape[0]))
                queries = self._queries.queries(np.arange(rows.start, rows.stop), height)
                numbers = range(i if halves else 0, self._items.number)
                tiles = [self._compute(queries, j) for j in numbers]
                for j, tile in zip(numbers, tiles, strict=True):
                    columns = self._columns(j)
                    found = self._copy(tile, matrix[rows, columns])
                    if halves and i != j:
                        matrix[columns, rows] = found.T
                advance(1)
        both = (self, self.transpose())
        return MatrixScores(matrix, rounding=[x.rounding(np.arange(x.shape[0])) for x in both])

    def _columns(self, number: int) -> slice:
        start = number * self._items.height
        return slice(start, min(start + self._items.height, self.shape[1]))

    def _compute(self, queries: Any, number: int) -> jax.Array:
        with in_precision(self.dtype):
            items = self._items.tile(number)
            return _score_tile(self._score, self._flips, self._items.mesh, queries, items)

    def _copy(self, tile: jax.Array, into: np.ndarray) -> np.ndarray:
        found = to_host(tile, self._items.mesh)[: into.shape[0], : into.shape[1]]
        into[:] = found
        if not (np.isfinite(found.max()) and np.isfinite(found.min())):
            raise UserError(
                f"Scores of {self._place} by {self._similarity.name!r} are not finite: its "
                "embeddings hold numbers that are too large for them. Divide all by one number, "
                "or use the cosine similarity."
            )
        return found


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _score_tile(score: Any, flips: bool, mesh: Mesh, queries: Any, items: Any) -> jax.Array:
    """Scores [q, n]; every device scores its own items, without a collective."""

    def compute(left: Any, right: Any) -> jax.Array:
        return score(right, left).T if flips else score(left, right)

    # A score may scan from a constant, whose type does not vary over the devices.
    spread = jax.shard_map(
        compute, mesh=mesh, in_specs=(P(), P(BATCH_AXIS)), out_specs=P(None, BATCH_AXIS),
        check_vma=False,
    )  # fmt: skip
    return spread(queries, items)


@functools.partial(jax.jit, static_argnums=0)
def _score_pairs(score: Any, left: Any, right: Any) -> jax.Array:
    """Scores of pairs, in products of `_GROUP` pairs: a pair rounds as in its row."""
    blocks = jax.tree.map(lambda x: x.reshape(-1, _GROUP, *x.shape[1:]), (left, right))
    return jax.lax.map(lambda pair: jnp.diagonal(score(*pair)), blocks).ravel()


def open_scores(
    embeddings: Embeddings, *, mesh: Mesh | None = None, precision: str = "float32"
) -> dict[tuple[str, str], Scores]:
    """Returns the scores of ("image", "text"), ("text", "text") and ("image", "image").

    Pairs with a side that has no embeddings are missing. Nothing is computed yet, but for a
    similarity with a module, which compares images with texts only.

    Args:
      embeddings: items, with their similarity.
      mesh: devices over whose `data` axis galleries are split; None for one.
      precision: "float32" or "float64", which CPUs compute.

    Raises:
      UserError: an embedding is not finite.
    """
    named = {"name": embeddings.similarity, **embeddings.options}
    similarity = make_similarity(named, "similarity")
    vectors = {"image": embeddings.images, "text": embeddings.captions}
    given = {side: rows for side, rows in vectors.items() if rows is not None}
    if similarity.module is not None:
        return _open_module(similarity, embeddings, given, mesh)
    for side, rows in given.items():
        if bad := count_not_finite(rows):
            raise UserError(
                f"{bad:,} of {len(rows):,} {side} embeddings of {embeddings.place} are not finite: "
                "the model diverged or the file is damaged."
            )
    mesh = mesh or one_device()
    prepare, score = similarity.scorer(embeddings.parameters)
    dtype = similarity.choose_precision(mesh.devices.flat[0].platform)
    if precision == "float64":
        dtype, mesh = DOUBLE, one_device("cpu")
    offset = similarity.find_offset(*given.values())
    galleries = {
        side: Gallery(remove_offset(rows, offset, dtype), prepare, mesh)
        for side, rows in given.items()
    }
    return {
        (left, right): VectorScores(
            galleries[left], galleries[right], similarity, score, place=embeddings.place
        )
        for left, right in (("image", "text"), ("text", "text"), ("image", "image"))
        if {left, right} <= set(galleries)
    }


def _open_module(
    similarity: Similarity,
    embeddings: Embeddings,
    vectors: Mapping[str, np.ndarray],
    mesh: Mesh | None,
) -> dict[tuple[str, str], Scores]:
    if len(vectors) < 2:
        return {}
    if not set(vectors) <= set(embeddings.tokens):
        raise UserError(
            f"Similarity {similarity.name!r} compares tokens, but {embeddings.place} has only "
            "vectors; save its embeddings again, or name a similarity of vectors."
        )
    items = [HostItems(vectors[side], embeddings.tokens[side]) for side in ("image", "text")]
    matrix = compute_score_matrix(
        similarity, embeddings.parameters, *items, mesh=mesh or one_device()
    )
    return {("image", "text"): MatrixScores(matrix)}


def count_not_finite(values: np.ndarray) -> int:
    """Returns the number of rows with a value that is not finite."""
    # A sum is finite if all its terms are, and needs no Boolean array.
    with np.errstate(invalid="ignore"):
        if np.isfinite(np.sum(values, dtype=np.float64)):
            return 0
    return int(np.sum(~np.isfinite(values).all(axis=tuple(range(1, values.ndim)))))


def equal_scores(queries: int, items: int) -> Scores:
    """Returns scores that do not rank, all of them 0."""
    return MatrixScores(np.broadcast_to(np.float32(0), (queries, items)))


def top_items(rows: np.ndarray, count: int) -> np.ndarray:
    """Returns the best items of each row [q, N], best first, int64 [q, count].

    Of equal scores, the earlier item comes first, as in a stable sort.
    """
    count = min(count, rows.shape[1])
    falling = -rows
    if count > rows.shape[1] // 8:
        return np.argsort(falling, axis=1, kind="stable")[:, :count]
    last = np.partition(falling, count - 1, axis=1)[:, count - 1 : count]
    row, item = np.nonzero(falling <= last)
    order = np.lexsort((falling[row, item], row))  # Keeps the order of equal scores.
    starts = np.searchsorted(row, np.arange(len(rows)))
    return item[order][starts[:, None] + np.arange(count)]

"""Scores of vectors: products of blocks of two galleries, each device with its own items."""

import copy
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from xmodal.core.errors import UserError
from xmodal.core.mesh import BATCH_AXIS, make_mesh, put, to_host
from xmodal.evals.scores import score_rows
from xmodal.evals.scores.score_blocks import HostItems, compute_score_matrix
from xmodal.evals.scores.score_rows import (
    GROUP,
    MatrixScores,
    Scores,
    count_not_finite,
    take_rows,
)
from xmodal.evals.scores.sources import Embeddings
from xmodal.similarity import Similarity
from xmodal.similarity.vectors import DOUBLE, in_precision, remove_offset

_PAIRS = 256  # Single pairs that are scored at a time.


def one_device(platform: str | None = None) -> Mesh:
    """Returns a mesh of the first device of this process, of a platform such as "cpu"."""
    return make_mesh(jax.local_devices(backend=platform)[:1])


class Gallery:
    """Items of one modality prepared for a similarity, in blocks of one size over the devices.

    Attributes:
      size: N.
      height: items of all blocks but the last, which is filled with zeros up to a whole group.
      tiles: the blocks, each split over the devices.
    """

    def __init__(self, vectors: np.ndarray, prepare: Callable[[Any], Any], mesh: Mesh) -> None:
        """Prepares vectors, float32 or float64 [N, D] or [N, K, D]."""
        self.size, self.mesh, self.dtype = len(vectors), mesh, vectors.dtype
        group = GROUP * mesh.size
        self.height = max(score_rows.BLOCK // group, 1) * group
        self.tiles = []
        for start in range(0, self.size, self.height):
            part = vectors[start : start + self.height]
            padding = [(0, -len(part) % group)] + [(0, 0)] * (vectors.ndim - 1)
            with in_precision(self.dtype):
                prepared = prepare(jnp.asarray(np.pad(part, padding)))
            self.tiles.append(self._place(jax.tree.map(np.asarray, prepared), P(BATCH_AXIS)))
        self._parts = [to_host(tile, mesh) for tile in self.tiles]  # On a CPU, the same memory.

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
        return self._place(self.take(np.resize(positions, height)), P())

    def columns(self, number: int) -> slice:
        """Returns the positions of the items of a block."""
        return slice(number * self.height, min((number + 1) * self.height, self.size))

    def block(self, number: int) -> Any:
        """Returns a block of items on every device."""
        return self._place(self._parts[number], P())

    def _place(self, tree: Any, spec: P) -> Any:
        with in_precision(self.dtype):
            return jax.tree.map(lambda x: put(x, NamedSharding(self.mesh, spec)), tree)

    @functools.cached_property
    def lengths(self) -> np.ndarray:
        """Lengths of the prepared vectors, float32 [N]; of several, of the longest."""
        parts = [part["vectors"] if isinstance(part, dict) else part for part in self._parts]
        found = [np.linalg.norm(part, axis=-1) for part in parts]
        return np.concatenate([x if x.ndim == 1 else x.max(axis=1) for x in found])[: self.size]


Tiles = dict[tuple[int, int], np.ndarray]
"""Scores [q, n] of blocks of queries and items, by the numbers of both."""


class VectorScores(Scores):
    """Scores of two galleries of vectors; no row is kept."""

    # Whether the items are on the left side of a similarity that is not symmetric.
    _flips: bool
    # Tiles that blocks of rows keep for the other direction, and those that it keeps for them.
    _kept: Tiles | None = None
    _given: Tiles

    def __init__(
        self,
        queries: Gallery,
        items: Gallery,
        similarity: Similarity,
        score: Any,
        place: str,
    ) -> None:
        """Takes two galleries, the same object within one; `place` names the model."""
        self._queries, self._items = queries, items
        self._similarity, self._score, self._place = similarity, score, place
        self._flips, self._given = False, {}
        self.shape, self.dtype = (queries.size, items.size), items.dtype

    def rows(self, queries: np.ndarray) -> np.ndarray:
        """See `Scores`."""
        return self._fill(queries, np.empty((len(queries), self.shape[1]), self.dtype))

    def _fill(self, queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
        # Few heights, because each is compiled.
        height = GROUP << max(0, -(-len(queries) // GROUP) - 1).bit_length()
        if len(queries) <= self.height < height:
            height = self.height
        numbers = range(len(self._items.tiles))
        for number, tile in self._compute(self._queries.queries(queries, height), numbers):
            columns = self._items.columns(number)
            rows[:, columns] = tile[: len(queries), : columns.stop - columns.start]
        return rows

    def pairs(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        """See `Scores`."""
        found = np.empty(len(queries), self.dtype)
        for start in range(0, len(queries), _PAIRS):
            some = slice(start, start + _PAIRS)
            ends = [np.resize(each[some], _PAIRS) for each in (queries, items)]
            ends = [self._queries.take(ends[0]), self._items.take(ends[1])]
            with in_precision(self.dtype):
                scores = _score_pairs(self._score, *(ends[::-1] if self._flips else ends))
            found[some] = scores[: len(queries[some])]
        return found

    def transpose(self) -> "VectorScores":
        """See `Scores`."""
        turned = copy.copy(self)
        turned._queries, turned._items, turned.shape = self._items, self._queries, self.shape[::-1]
        turned._flips = not self._similarity.symmetric and not self._flips
        if self._kept is not None:
            turned._kept, turned._given = self._given, self._kept
        return turned

    def rounding(self, queries: np.ndarray) -> np.ndarray | None:
        """See `Scores`; None for float64, and for scores that are no products."""
        if self.dtype == DOUBLE or not self._similarity.of_products:
            return None
        typical = np.sqrt(np.mean(np.square(self._items.lengths)))
        return np.finfo(np.float32).eps * typical * self._queries.lengths[queries]

    def hold(self, budget: int) -> "VectorScores":
        """See `Scores`; `blocks` keep what those of the transpose, or later ones, read again."""
        within = self._queries is self._items
        needed = self.shape[0] * self.shape[1] * self.dtype.itemsize // (4 if within else 1)
        if needed > budget or (within and not self._similarity.symmetric):
            return self
        held = copy.copy(self)
        held._given = {}
        held._kept = held._given if within else {}
        return held

    def blocks(self, queries: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """See `Scores`."""
        # One array for all blocks: systems take long to clear fresh memory.
        kept = self._kept
        if kept is None or 2 * len(queries) < self.shape[0]:
            rows = np.empty((min(self.height, len(queries)), self.shape[1]), self.dtype)
            for start in range(0, len(queries), self.height):
                at = slice(start, min(start + self.height, len(queries)))
                yield at, self._fill(queries[at], rows[: at.stop - start])
            return
        rows = np.empty((self._queries.height, self.shape[1]), self.dtype)
        for number in range(len(self._queries.tiles)):
            own = self._queries.columns(number)
            self._fill_block(number, rows[: own.stop - own.start], kept)
            start, end = np.searchsorted(queries, [own.start, own.stop])
            for first in range(start, end, GROUP):
                at = slice(first, min(first + GROUP, end))
                yield at, take_rows(rows, queries[at] - own.start)

    def _fill_block(self, i: int, rows: np.ndarray, kept: Tiles) -> None:
        """Fills the rows of a block of queries, reading the tiles that are given."""
        numbers = range(len(self._items.tiles))
        given = {j: self._given.pop((j, i)) for j in numbers if (j, i) in self._given}
        for j, tile in given.items():
            _transpose(tile, rows[:, self._items.columns(j)])
        left = [j for j in numbers if j not in given]
        for j, tile in self._compute(self._queries.block(i), left):
            columns = self._items.columns(j)
            rows[:, columns] = tile[: len(rows), : columns.stop - columns.start]
            if kept is not self._given or j > i:
                kept[i, j] = tile

    def _compute(self, placed: Any, numbers: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
        """Yields numbers of blocks of items, and their scores [q, n] with queries on the devices.

        The next block is computed while one is read.
        """
        mesh = self._items.mesh

        def launch(number: int) -> jax.Array:
            with in_precision(self.dtype):
                tile = self._items.tiles[number]
                return _score_tile(self._score, self._flips, mesh, placed, tile)

        pairs = itertools.pairwise(itertools.chain(map(launch, numbers), [None]))
        for number, (tile, _) in zip(numbers, pairs, strict=True):
            found = to_host(tile, mesh)
            # One pass; the sum of large finite scores may overflow.
            if not (np.isfinite(found.sum()) or np.isfinite(found).all()):
                raise UserError(
                    f"Scores of {self._place} by {self._similarity.name!r} are not finite: its "
                    "embeddings hold numbers that are too large for them. Divide all by one "
                    "number, or use the cosine similarity."
                )
            yield number, found


def _transpose(tile: np.ndarray, into: np.ndarray) -> None:
    """Writes the transpose of scores [q, n], in parts that stay in a processor's cache."""
    for start in range(0, into.shape[1], 2 * GROUP):
        some = slice(start, min(start + 2 * GROUP, into.shape[1]))
        into[:, some] = tile[some, : len(into)].T


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
    """Scores [P] of item i on the left with item i on the right."""
    return score.similarity.paired(left, right, dict(score.parameters))


def open_scores(
    embeddings: Embeddings, *, mesh: Mesh | None = None, precision: str = "float32"
) -> dict[tuple[str, str], Scores]:
    """Returns the scores of ("image", "text"), ("text", "text") and ("image", "image").

    Pairs with a modality that has no embeddings are missing. Nothing is computed yet, but for a
    similarity with a module, which compares images with texts only.

    Args:
      embeddings: items, with their similarity.
      mesh: devices over whose `data` axis galleries are split; None for one.
      precision: "float32" or "float64", which CPUs compute.

    Raises:
      UserError: an embedding is not finite.
    """
    similarity, given = embeddings.make_similarity(), embeddings.by_modality
    mesh = mesh or one_device()
    if similarity.module is not None:
        return _open_module(similarity, embeddings, mesh)
    for modality, rows in given.items():
        if bad := count_not_finite(rows):
            raise UserError(
                f"{bad:,} of {len(rows):,} {modality} embeddings of {embeddings.place} are not "
                "finite: the model diverged or the file is damaged."
            )
    prepare, score = similarity.scorer(embeddings.parameters)
    dtype = similarity.choose_precision(mesh.devices.flat[0].platform)
    if precision == "float64":
        dtype, mesh = DOUBLE, one_device("cpu")
    offset = similarity.find_offset(*given.values())
    galleries = {
        modality: Gallery(remove_offset(rows, offset, dtype), prepare, mesh)
        for modality, rows in given.items()
    }
    return {
        (left, right): VectorScores(
            galleries[left], galleries[right], similarity, score, embeddings.place
        )
        for left, right in (("image", "text"), ("text", "text"), ("image", "image"))
        if {left, right} <= set(galleries)
    }


def _open_module(
    similarity: Similarity, embeddings: Embeddings, mesh: Mesh
) -> dict[tuple[str, str], Scores]:
    vectors = embeddings.by_modality
    if len(vectors) < 2:
        return {}
    if not set(vectors) <= set(embeddings.tokens):
        raise UserError(
            f"Similarity {similarity.name!r} compares tokens, but {embeddings.place} has only "
            "vectors; save its embeddings again, or name a similarity of vectors."
        )
    items = [
        HostItems(vectors[modality], embeddings.tokens[modality]) for modality in ("image", "text")
    ]
    matrix = compute_score_matrix(similarity, embeddings.parameters, *items, mesh=mesh)
    return {("image", "text"): MatrixScores(matrix)}

"""Scores of vectors: products of blocks of two galleries, each device with its own items."""

import copy
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from xmodal.core.errors import UserError
from xmodal.core.mesh import make_mesh, put, to_host
from xmodal.evals.scores.score_blocks import HostItems, compute_score_matrix
from xmodal.evals.scores.score_rows import (
    GROUP,
    MatrixScores,
    Scores,
    as_slice,
    copy_parts,
    launch_ahead,
)
from xmodal.evals.scores.sources import Embeddings
from xmodal.similarity import Similarity
from xmodal.similarity.vectors import DOUBLE, in_precision

_BLOCK = 1152  # Items and queries per product; a power of two makes transposes slow.
_BAND_BYTES = 1 << 29  # Scores that are computed together, unless a single product is larger.


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
        self.height, self.tiles = max(_BLOCK // group, 1) * group, []
        for part in self.split(vectors):
            padding = [(0, -len(part) % group)] + [(0, 0)] * (vectors.ndim - 1)
            with in_precision(self.dtype):
                prepared = prepare(jnp.asarray(np.pad(part, padding)))
            self.tiles.append(self._place(jax.tree.map(np.asarray, prepared), P(mesh.axis_names)))
        self._parts = [to_host(tile, mesh) for tile in self.tiles]  # On a CPU, the same memory.

    def queries(self, positions: np.ndarray, height: int) -> Any:
        """Returns items on every device, repeated up to a height."""
        places = list(zip(*np.divmod(np.resize(positions, height), self.height), strict=True))

        def gather(*parts: np.ndarray) -> np.ndarray:
            return np.stack([parts[block][row] for block, row in places])

        return self._place(jax.tree.map(gather, *self._parts), P())

    def split(self, items: np.ndarray) -> list[np.ndarray]:
        """Returns the parts of an array [N, ...] that belong to the blocks."""
        return np.split(items, range(self.height, self.size, self.height))

    def _place(self, tree: Any, spec: P) -> Any:
        with in_precision(self.dtype):
            return jax.tree.map(lambda x: put(x, NamedSharding(self.mesh, spec)), tree)

    @functools.cached_property
    def lengths(self) -> np.ndarray:
        """Lengths of the prepared vectors, float32 [N]; of several, of the longest."""
        found = [np.linalg.norm(part, axis=-1).reshape(len(part), -1) for part in self._parts]
        return np.concatenate([lengths.max(axis=1) for lengths in found])[: self.size]


Tiles = dict[int, np.ndarray]
"""Scores [>= q, >= n] of some queries, by the numbers of blocks of items."""


class VectorScores(Scores):
    """Scores of two galleries of vectors; no row is kept."""

    def __init__(
        self, queries: Gallery, items: Gallery, similarity: Similarity, score: Any, place: str
    ) -> None:
        """Takes two galleries, the same object within one; `place` names the model."""
        self._queries, self._items = queries, items
        self._similarity, self._score, self._place = similarity, score, place
        self._flips = False  # Whether the items are on the left side of an asymmetric similarity.
        # If scores are held, tiles [q, n] by the numbers of their blocks: those for the pass that
        # ranks the items, and those that it computed.
        self._kept: dict[tuple[int, int], np.ndarray] | None = None
        self._mirrored: dict[tuple[int, int], np.ndarray] = {}
        self.shape, self.dtype = (queries.size, items.size), items.dtype

    def rows(self, queries: np.ndarray) -> np.ndarray:
        """See `Scores`."""
        rows = np.empty((len(queries), self.shape[1]), self.dtype)
        tiles = self._compute(queries, range(len(self._items.tiles)))
        return self._join(tiles, np.arange(len(queries)), rows)

    def blocks(self, queries: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """See `Scores`."""
        # One array for all blocks: systems take long to clear fresh memory.
        rows = np.empty((self.height, self.shape[1]), self.dtype)
        fitting = _BAND_BYTES // (self.shape[1] * self.dtype.itemsize)
        height = min(max(fitting // GROUP, 1) * GROUP, _BLOCK)
        bands = [queries[start : start + height] for start in range(0, len(queries), height)]
        if self._kept is not None:
            bands = self._queries.split(np.arange(self.shape[0]))
        for number, band in enumerate(bands):
            others = range(len(self._items.tiles))
            known = [other for other in others if (other, number) in self._mirrored]
            tiles = self._compute(band, [other for other in others if other not in known])
            if self._kept is not None:
                self._kept |= {(number, other): tile for other, tile in tiles.items()}
            tiles |= {other: self._mirrored.pop((other, number)).T for other in known}
            self._mirrored.pop((number, number), None)  # Within a gallery, its own transpose.
            first, end = np.searchsorted(queries, [band[0], band[-1] + 1])
            for start in range(first, end, len(rows)):
                at = slice(start, min(start + len(rows), end))
                yield at, self._join(tiles, np.searchsorted(band, queries[at]), rows)

    def _join(self, tiles: Tiles, at: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Copies rows at positions [q] in tiles to the first of `rows` [>= q, N]; returns these."""
        rows, some = rows[: len(at)], as_slice(at)
        for number, tile in tiles.items():
            into = rows[:, number * self._items.height :][:, : self._items.height]
            copy_parts(tile[some, : into.shape[1]], into)
        return rows

    def _compute(self, queries: np.ndarray, numbers: Sequence[int]) -> Tiles:
        """Returns the scores of queries with blocks of items."""
        if not numbers:
            return {}
        mesh, tiles = self._items.mesh, {}
        # Few heights, because each is compiled.
        unit = GROUP << max(0, (len(queries) // GROUP).bit_length() - 4)
        placed = self._queries.queries(queries, -(-len(queries) // unit) * unit)

        def launch(number: int) -> jax.Array:
            with in_precision(self.dtype):
                tile = self._items.tiles[number]
                return _score_tile(self._score, self._flips, mesh, placed, tile)

        for number, tile in zip(numbers, launch_ahead(map(launch, numbers)), strict=True):
            tiles[number] = to_host(tile, mesh)
            _check_finite(tiles[number], self._place, self._similarity)
        return tiles

    def transpose(self) -> "VectorScores":
        """See `Scores`."""
        turned = copy.copy(self)
        turned._queries, turned._items, turned.shape = self._items, self._queries, self.shape[::-1]
        turned._flips = not self._similarity.symmetric and not self._flips
        if self._kept is not None:
            turned._kept, turned._mirrored = self._mirrored, self._kept
        return turned

    def rounding(self, queries: np.ndarray) -> np.ndarray | None:
        """See `Scores`; None for float64, and for scores that are no products."""
        if self.dtype == DOUBLE or not self._similarity.of_products:
            return None
        typical = np.sqrt(np.mean(np.square(self._items.lengths)))
        return np.finfo(np.float32).eps * typical * self._queries.lengths[queries]

    def hold(self, budget: int) -> Scores:
        """See `Scores`; a gallery with itself is computed by halves, a quarter of it at a time."""
        within = self._queries is self._items
        needed = math.prod(self.shape) * self.dtype.itemsize // (4 if within else 1)
        if needed > budget or (within and not self._similarity.symmetric):
            return self
        held = copy.copy(self)
        held._kept = {}
        held._mirrored = held._kept if within else {}
        return held


def _check_finite(scores: np.ndarray, place: str, similarity: Similarity) -> None:
    # One pass; the sum of large finite scores may overflow.
    if not (np.isfinite(scores.sum()) or np.isfinite(scores).all()):
        raise UserError(
            f"Scores of {place} by {similarity.name!r} are not finite: its embeddings hold NaN "
            "(the model diverged) or numbers that are too large. Divide those by one number, or "
            "use the cosine similarity."
        )


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _score_tile(score: Any, flips: bool, mesh: Mesh, queries: Any, items: Any) -> jax.Array:
    """Scores [q, n]; every device scores its own items, without a collective."""

    def compute(left: Any, right: Any) -> jax.Array:
        return score(right, left).T if flips else score(left, right)

    axes = mesh.axis_names
    # A score may scan from a constant, whose type does not vary over the devices.
    spread = jax.shard_map(
        compute, mesh=mesh, in_specs=(P(), P(axes)), out_specs=P(None, axes),
        check_vma=False,
    )  # fmt: skip
    return spread(queries, items)


def open_scores(
    embeddings: Embeddings, *, mesh: Mesh | None = None, precision: str = "float32"
) -> dict[tuple[str, str], Scores]:
    """Returns the scores of ("image", "text"), ("text", "text") and ("image", "image").

    Pairs with a modality that has no embeddings are missing. Nothing is computed yet, but for a
    similarity with a module, which compares images with texts only.

    Args:
      embeddings: items, with their similarity.
      mesh: devices over which galleries are split; None for one.
      precision: "float32" or "float64", which CPUs compute.
    """
    similarity, given = embeddings.make_similarity(), embeddings.by_modality
    place = embeddings.place
    mesh, dtype = mesh or make_mesh(jax.local_devices()[:1]), None
    if similarity.module is not None:
        if len(given) < 2:
            return {}
        items = [HostItems(given[each], embeddings.tokens[each]) for each in ("image", "text")]
        matrix = compute_score_matrix(similarity, embeddings.parameters, *items, mesh=mesh)
        return {("image", "text"): MatrixScores(matrix)}
    prepare, score = similarity.scorer(embeddings.parameters)
    if precision == "float64":
        mesh, dtype = make_mesh(jax.local_devices(backend="cpu")[:1]), DOUBLE
    placed = similarity.place(*given.values(), platform=mesh.devices.flat[0].platform, dtype=dtype)
    galleries = {
        modality: Gallery(vectors, prepare, mesh)
        for modality, vectors in zip(given, placed, strict=True)
    }
    return {
        (left, right): VectorScores(galleries[left], galleries[right], similarity, score, place)
        for left, right in (("image", "text"), ("text", "text"), ("image", "image"))
        if {left, right} <= set(galleries)
    }


def score_captions(
    embeddings: Embeddings, left: np.ndarray, right: np.ndarray, precision: str = "float32"
) -> np.ndarray:
    """Returns the scores [P] of pairs of captions at positions [P], and of no others."""
    similarity, dtype = embeddings.make_similarity(), DOUBLE if precision == "float64" else None
    (vectors,) = similarity.place(embeddings.vectors("text"), dtype=dtype)
    with in_precision(vectors.dtype):
        first, second = (similarity.prepare(vectors[at]) for at in (left, right))
        found = np.asarray(similarity.paired(first, second, embeddings.parameters))
    _check_finite(found, embeddings.place, similarity)
    return found

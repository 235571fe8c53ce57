"""Exact ranks by counting: how many gallery items come before a query's best positive."""

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from xmodal.evals.ragged import Ragged

# XLA's CPU product computes left-over columns with another summation order, so the same pair of
# vectors would score differently in galleries of different lengths. Whole tiles avoid that.
_TILE = 64

# Queries [blocks, B, D], index of the first query [blocks], and per label set the positives as
# flat lists [blocks, F] of rows within the block and gallery columns.
_Blocks = tuple[jax.Array, jax.Array, list[tuple[jax.Array, jax.Array]]]


@dataclasses.dataclass(frozen=True)
class Ranks:
    """Rank of the best positive of every query.

    Attributes:
      rank: int32 [Q], 0-based; -1 where the query has no positive.
      tied: bool [Q], whether a gallery item that is no positive scores exactly like the best
        positive, so that the rank rests on the tie rule.
    """

    rank: np.ndarray
    tied: np.ndarray


def compute_ranks(
    queries: np.ndarray,
    gallery: np.ndarray,
    label_sets: Sequence[Ragged],
    *,
    exclude_self: bool = False,
    block_size: int = 512,
    mesh: Mesh | None = None,
) -> list[Ranks]:
    """Ranks the best positive of every query, for several label sets over one product.

    Scores are float32 dot products. The order is a stable descending sort: of two equal scores
    the smaller gallery index comes first. Blocks of queries meet the whole gallery, and the score
    of the best positive is read from the block's own product: computed apart, it could differ
    from its copies in the gallery in the last bit.

    Args:
      queries: float32 [Q, D].
      gallery: float32 [N, D].
      label_sets: positives of every query by gallery index, each with Q rows.
      exclude_self: the gallery is the queries themselves and query i never meets item i.
      block_size: queries per product; one block's scores take block_size * N * 4 bytes.
      mesh: blocks are spread over its `data` axis; the gallery is on every device.

    Returns:
      One `Ranks` per label set.

    Raises:
      ValueError: shapes disagree, a value is not finite, or a positive does not exist.
    """
    _check(queries, gallery, label_sets, exclude_self)
    devices = mesh.shape["data"] if mesh is not None else 1
    block = _round_up(min(block_size, -(-len(queries) // devices)), 8)
    blocks = _round_up(-(-len(queries) // block), devices)
    tiled_queries = np.zeros((blocks, block, queries.shape[1]), np.float32)
    tiled_queries.reshape(blocks * block, -1)[: len(queries)] = queries
    tiled_gallery = np.zeros((_round_up(len(gallery), _TILE), gallery.shape[1]), np.float32)
    tiled_gallery[: len(gallery)] = gallery
    starts = np.arange(blocks, dtype=np.int32) * block
    tiled_labels = [_tile_labels(labels, blocks, block) for labels in label_sets]

    if mesh is not None:
        over_blocks, everywhere = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
        tiled_queries, starts, tiled_labels = jax.tree.map(
            lambda x: _place(x, over_blocks), (tiled_queries, starts, tiled_labels)
        )
        tiled_gallery = _place(tiled_gallery, everywhere)
    counted = jax.device_get(
        _rank_blocks(
            (tiled_queries, starts, tiled_labels),
            tiled_gallery,
            gallery_size=len(gallery),
            exclude_self=exclude_self,
            mesh=mesh,
        )
    )

    results = []
    for labels, (rank, tied) in zip(label_sets, counted, strict=True):
        has_positive = labels.lengths > 0
        rank = np.where(has_positive, rank.reshape(-1)[: len(queries)], -1).astype(np.int32)
        results.append(Ranks(rank, tied.reshape(-1)[: len(queries)] & has_positive))
    return results


@functools.partial(jax.jit, static_argnames=("gallery_size", "exclude_self", "mesh"))
def _rank_blocks(
    blocks: _Blocks, gallery: jax.Array, *, gallery_size: int, exclude_self: bool, mesh: Mesh | None
) -> list[tuple[jax.Array, jax.Array]]:
    """Ranks every block: (rank, tied) per label set, each [blocks, B]."""

    def rank_blocks(blocks: _Blocks, gallery: jax.Array) -> list[tuple[jax.Array, jax.Array]]:
        # One block after another: only one block of scores is alive at any time.
        return jax.lax.map(
            lambda block: _rank_block(*block, gallery, gallery_size, exclude_self), blocks
        )

    if mesh is None:
        return rank_blocks(blocks, gallery)
    spread = jax.shard_map(
        rank_blocks, mesh=mesh, in_specs=(P("data"), P()), out_specs=P("data"), check_vma=False
    )
    # Every process of a multi-host run reads all the ranks.
    return jax.lax.with_sharding_constraint(spread(blocks, gallery), NamedSharding(mesh, P()))


def _rank_block(
    queries: jax.Array,
    start: jax.Array,
    label_sets: list[tuple[jax.Array, jax.Array]],
    gallery: jax.Array,
    gallery_size: int,
    exclude_self: bool,
) -> list[tuple[jax.Array, jax.Array]]:
    """Ranks B queries [B, D] against the whole gallery [N, D]: (rank, tied), each [B]."""
    size, padded = queries.shape[0], gallery.shape[0]
    scores = jax.lax.dot_general(
        queries, gallery, (((1,), (1,)), ((), ())), precision=jax.lax.Precision.HIGHEST
    )
    column = jnp.arange(padded, dtype=jnp.int32)[None]
    competes = column < gallery_size
    if exclude_self:
        competes &= column != (start + jnp.arange(size, dtype=jnp.int32))[:, None]
    scores = jnp.where(competes, scores, -jnp.inf)  # [B, N]

    results = []
    for rows, columns in label_sets:  # flat lists of the block's positives; padding has row B
        values = scores.at[rows, columns].get(mode="clip")
        best = jax.ops.segment_max(values, rows, size + 1)
        is_best = values == best[rows]
        first = jax.ops.segment_min(jnp.where(is_best, columns, padded), rows, size + 1)
        best_positives = jax.ops.segment_sum(is_best.astype(jnp.int32), rows, size + 1)[:size]
        best, first = best[:size, None], first[:size, None]
        equal = scores == best
        ahead = (scores > best) | (equal & (column < first))
        results.append(
            (
                jnp.sum(ahead, axis=1, dtype=jnp.int32),
                jnp.sum(equal, axis=1, dtype=jnp.int32) > best_positives,
            )
        )
    return results


def _tile_labels(labels: Ragged, blocks: int, block: int) -> tuple[np.ndarray, np.ndarray]:
    """Positives as [blocks, F] flat lists of (row within the block, gallery column)."""
    edges = np.minimum(np.arange(blocks + 1) * block, len(labels.lengths))
    bounds = labels.offsets[edges]
    width = max(1, int(np.diff(bounds).max()))
    rows = np.full((blocks, width), block, np.int32)
    columns = np.zeros((blocks, width), np.int32)
    for i in range(blocks):
        count = bounds[i + 1] - bounds[i]
        lengths = labels.lengths[edges[i] : edges[i + 1]]
        rows[i, :count] = np.repeat(np.arange(len(lengths)), lengths)
        columns[i, :count] = labels.values[bounds[i] : bounds[i + 1]]
    return rows, columns


def _place(array: np.ndarray, sharding: NamedSharding) -> jax.Array:
    return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _check(
    queries: np.ndarray, gallery: np.ndarray, label_sets: Sequence[Ragged], exclude_self: bool
) -> None:
    if queries.ndim != 2 or gallery.ndim != 2 or queries.shape[1] != gallery.shape[1]:
        raise ValueError(
            f"Queries {queries.shape} and gallery {gallery.shape} must be [Q, D] and [N, D]."
        )
    if exclude_self and len(queries) != len(gallery):
        raise ValueError(
            f"exclude_self needs one list of items, got {len(queries)} queries and a gallery "
            f"of {len(gallery)}."
        )
    for name, vectors in (("query", queries), ("gallery", gallery)):
        bad = ~np.isfinite(vectors).all(axis=1)
        if bad.any():
            raise ValueError(
                f"{bad.sum()} of {len(bad)} {name} vectors are not finite, the first at position "
                f"{bad.argmax()}: the model diverged or the embeddings are damaged."
            )
    for labels in label_sets:
        if len(labels.lengths) != len(queries):
            raise ValueError(f"{len(labels.lengths)} rows of labels for {len(queries)} queries.")
        if len(labels.values) and not 0 <= labels.values.min() <= labels.values.max() < len(
            gallery
        ):
            raise ValueError(
                f"Positives span {labels.values.min()}..{labels.values.max()}, "
                f"outside the gallery of {len(gallery)} items."
            )
        if exclude_self:
            rows = np.repeat(np.arange(len(labels.lengths)), labels.lengths)
            if (rows == labels.values).any():
                raise ValueError(
                    "A query is listed as its own positive; remove it from the labels."
                )

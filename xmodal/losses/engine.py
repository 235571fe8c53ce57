"""Reduces the B x B logits of a batch to one number per item, in both directions.

An in-batch loss needs, for each item, some reduction over its negatives: a log-sum-exp (softmax), a
maximum (hardest negative), a sum of hinges. A `Term` defines such a reduction once; `reduce_logits`
applies it to rows and columns of the logits in one of three ways with the same value and gradient:

- `dense` holds the whole matrix (the reference);
- `chunked` iterates over tiles of rows and columns, whose logits are recomputed in the backward
  pass;
- `ring` does so on every device for its own rows, while the columns travel from device to device:
  no device ever holds the embeddings of the whole batch.

`auto:512` uses `dense` if its scores need at most 512 MB of a device, else `ring` on several
devices and `chunked` on one, with tiles that fit. The similarity names the memory of a pair.

The arrays are logically global: under `jit` with batch-sharded inputs, gradients reach every
embedding of every device.
"""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from xmodal.core.config import lookup
from xmodal.losses.terms import BlockItems, Job, State, Term, reduce_block
from xmodal.losses.tiled import reduce_tiles
from xmodal.similarity import Prepared

_WHERE = "config.tasks.*.loss.options.engine, which may also be auto:512, megabytes per device"

# A float32 score and its gradient: tiles of products are small whatever the budget.
_PRODUCT_BYTES = 8.0

Folded = dict[str, tuple[jax.Array, jax.Array]]


def reduce_logits(
    left: Prepared,
    right: Prepared,
    logits: Callable[[Prepared, Prepared, Any], jax.Array],
    *,
    params: Any = None,
    left_ids: jax.Array,
    right_ids: jax.Array,
    left_positive: jax.Array,
    right_positive: jax.Array,
    terms: Mapping[str, Term],
    engine: str = "dense",
    chunk_size: int = 1024,
    mesh: Mesh | None = None,
    pair_bytes: float = _PRODUCT_BYTES,
) -> Folded:
    """Reduces the values of each item's negatives.

    Args:
      left: prepared items, a tree of float32 arrays [B, ...].
      right: prepared items [M, ...]; the ring engine needs M = B.
      logits: (items of `left`, items of `right`, params) -> float32 [L, R].
      params: arrays that `logits` needs and that get a gradient; `logits` must not close over any.
      left_ids: int32 [B]; items i and j are negatives if left_ids[i] != right_ids[j]. Partners
        have equal ids, so positives are never reduced.
      right_ids: int32 [M].
      left_positive: float32 [B], logit of each left item with its partner.
      right_positive: float32 [M].
      terms: reductions by name.
      engine: `dense`, `chunked`, `ring` or `auto:MEGABYTES`, see `plan`.
      chunk_size: largest number of rows and columns in a tile; on several devices, only of
        columns. Need not divide anything.
      mesh: device mesh, whose devices share the batch evenly; None for one device.
      pair_bytes: memory that `logits` and its gradient need per pair; 8 for a product.

    Returns:
      name -> (result [B] of each left item, result [M] of each right item), float32.
    """
    sizes = left_ids.shape[0], right_ids.shape[0]
    devices = 1 if mesh is None else mesh.size
    engine, chunk_size = plan(engine, chunk_size, *sizes, devices=devices, pair_bytes=pair_bytes)
    run = lookup(_WHERE, engine, ENGINES)
    rows = BlockItems(left, left_positive, left_ids, jnp.ones(left_ids.shape, bool))
    columns = BlockItems(right, right_positive, right_ids, jnp.ones(right_ids.shape, bool))
    job = Job(logits, terms, chunk_size)
    row_states, column_states = run(job, rows, columns, params, mesh)
    return {
        name: (term.reducer.finish(row_states[name]), term.reducer.finish(column_states[name]))
        for name, term in terms.items()
    }


def plan(
    engine: str,
    chunk_size: int,
    rows: int,
    columns: int,
    *,
    devices: int,
    pair_bytes: float = _PRODUCT_BYTES,
) -> tuple[str, int]:
    """Returns the engine and the chunk size that fit a memory budget.

    Args:
      engine: `auto:MEGABYTES` per device for the scores and their gradient; the name of an engine
        is returned unchanged, with the given chunk size.
      chunk_size: see `reduce_logits`.
      rows: items on the left.
      columns: items on the right.
      devices: devices that share the rows. On several, a tile has all rows of a device.
      pair_bytes: see `reduce_logits`.
    """
    name, _, budget = engine.partition(":")
    if name != "auto" or not budget.isdecimal():
        return engine, chunk_size
    pairs = int(int(budget) * 1e6 / pair_bytes)
    if rows * columns <= pairs * devices:
        return "dense", chunk_size
    if pair_bytes > _PRODUCT_BYTES:
        fitting = math.isqrt(pairs) if devices == 1 else pairs // -(-rows // devices)
        chunk_size = max(1, min(chunk_size, fitting))
    return "ring" if devices > 1 and rows == columns else "chunked", chunk_size


def _dense(
    job: Job, rows: BlockItems, columns: BlockItems, params: Any, mesh: Mesh | None
) -> tuple[State, State]:
    del mesh
    return reduce_block(job, rows, columns, params)


ENGINES: dict[str, Callable[..., tuple[State, State]]] = {
    "dense": _dense,
    "chunked": functools.partial(reduce_tiles, is_ring=False),
    "ring": functools.partial(reduce_tiles, is_ring=True),
}

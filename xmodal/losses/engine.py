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

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from xmodal.core.config import lookup
from xmodal.losses.terms import BlockItems, Job, Term, reduce_block
from xmodal.losses.tiled import reduce_tiles
from xmodal.similarity import Prepared

ENGINES = ("dense", "chunked", "ring")
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
    ids: jax.Array,
    positives: jax.Array,
    terms: Mapping[str, Term],
    engine: str = "dense",
    chunk_size: int = 1024,
    mesh: Mesh | None = None,
    pair_bytes: float = _PRODUCT_BYTES,
) -> Folded:
    """Reduces the values of each item's negatives.

    Args:
      left: prepared items, a tree of float32 arrays [B, ...]; item i is the partner of item i of
        `right`.
      right: prepared items [B, ...].
      logits: (items of `left`, items of `right`, params) -> float32 [L, R].
      params: arrays that `logits` needs and that get a gradient; `logits` must not close over any.
      ids: int32 [B]; items i and j of the two sides are negatives if ids[i] != ids[j]. So positives
        are never reduced.
      positives: float32 [B], logit of each item with its partner.
      terms: reductions by name.
      engine: `dense`, `chunked`, `ring` or `auto:MEGABYTES`, see `plan`.
      chunk_size: largest number of rows and columns in a tile; on several devices, only of
        columns. Need not divide anything.
      mesh: device mesh, whose devices share the batch evenly; None for one device.
      pair_bytes: memory that `logits` and its gradient need per pair; 8 for a product.

    Returns:
      name -> (result [B] of each left item, result [B] of each right item), float32.
    """
    devices = 1 if mesh is None else mesh.size
    engine, chunk_size = plan(engine, chunk_size, ids.shape[0], devices, pair_bytes)
    lookup(_WHERE, engine, dict.fromkeys(ENGINES))
    real = jnp.ones(ids.shape, bool)
    rows, columns = (BlockItems(side, positives, ids, real) for side in (left, right))
    job = Job(logits, terms, chunk_size)
    if engine == "dense":
        states = reduce_block(job, rows, columns, params)
    else:
        states = reduce_tiles(job, rows, columns, params, mesh, is_ring=engine == "ring")
    return {
        name: (term.reducer.finish(states[0][name]), term.reducer.finish(states[1][name]))
        for name, term in terms.items()
    }


def plan(
    engine: str, chunk_size: int, size: int, devices: int, pair_bytes: float = _PRODUCT_BYTES
) -> tuple[str, int]:
    """Returns the engine and the chunk size that fit a memory budget.

    Args:
      engine: `auto:MEGABYTES` per device for the scores and their gradient; the name of an engine
        is returned unchanged, with the given chunk size.
      chunk_size: see `reduce_logits`.
      size: items of each side.
      devices: devices that share the rows. On several, a tile has all rows of a device.
      pair_bytes: see `reduce_logits`.
    """
    name, _, budget = engine.partition(":")
    if name != "auto" or not budget.isdecimal():
        return engine, chunk_size
    pairs = int(int(budget) * 1e6 / pair_bytes)
    if size**2 <= pairs * devices:
        return "dense", chunk_size
    if pair_bytes > _PRODUCT_BYTES:
        fitting = math.isqrt(pairs) if devices == 1 else pairs // -(-size // devices)
        chunk_size = max(1, min(chunk_size, fitting))
    return "ring" if devices > 1 else "chunked", chunk_size

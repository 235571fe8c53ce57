"""Folds the B x B score matrix of a batch into one number per query, in both directions.

Every in-batch loss needs, for each item, some reduction over its negatives: a log-sum-exp
(softmax), a maximum (hardest negative), a sum of hinges. A `Reducer` names such a reduction once;
`fold` applies it to rows and columns of the scores, either with the whole matrix in memory
(`dense`, the reference) or over blocks of columns whose scores are recomputed in the backward
pass (`chunked`).

The arrays are logically global: under `jit` with a batch-sharded `left` and `right` each device
scores its own rows against all columns, and gradients reach every embedding of every device.
"""

import dataclasses
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp

from xmodal.config import lookup

# Stands for "not a negative". Finite, so that a row without any negative has a zero gradient.
MASKED = -1e30


@dataclasses.dataclass(frozen=True)
class Reducer:
    """A reduction over scores that can be done block by block.

    Attributes:
      reduce: ([N, M] scores with `MASKED` where a pair does not count, axis) -> reduced vector.
      merge: joins the results of two blocks of the same query.
      identity: result of an empty block.
    """

    reduce: Callable[[jax.Array, int], jax.Array]
    merge: Callable[[jax.Array, jax.Array], jax.Array]
    identity: float


LOG_SUM_EXP = Reducer(
    reduce=lambda scores, axis: jax.nn.logsumexp(scores, axis=axis),
    merge=jnp.logaddexp,
    identity=MASKED,
)
MAXIMUM = Reducer(
    reduce=lambda scores, axis: jnp.max(scores, axis=axis), merge=jnp.maximum, identity=MASKED
)

Folded = dict[str, tuple[jax.Array, jax.Array]]


def fold(
    left: jax.Array,
    right: jax.Array,
    groups: jax.Array,
    reducers: Mapping[str, Reducer],
    *,
    engine: str = "dense",
    chunk_size: int = 1024,
) -> Folded:
    """Reduces each item's scores with its negatives.

    Args:
      left: [B, D] float32, row i paired with row i of `right`.
      right: [B, D] float32.
      groups: [B] int32; items of one group (the captions of one image) are never negatives of each
        other. The pair itself is such a pair, so positives are never folded in.
      reducers: reductions by name.
      engine: `dense` or `chunked`.
      chunk_size: columns per block of the chunked engine; B need not be a multiple.

    Returns:
      name -> (row result [B] of each left item, column result [B] of each right item), float32.

    Raises:
      UserError: unknown engine.
    """
    run = lookup("config.tasks.*.options.engine", engine, ENGINES)
    return run(left, right, groups, dict(reducers), chunk_size)


def positive_scores(left: jax.Array, right: jax.Array) -> jax.Array:
    """Scores [B] float32 of the matched pairs of [B, D] `left` and `right`."""
    return jnp.sum(left * right, axis=-1)


def _negative_scores(
    left: jax.Array, right: jax.Array, left_groups: jax.Array, right_groups: jax.Array
) -> jax.Array:
    # [N, D] x [M, D] -> [N, M]; float32 throughout, also where the default product is bfloat16.
    scores = jnp.einsum("nd,md->nm", left, right, precision=jax.lax.Precision.HIGHEST)
    return jnp.where(left_groups[:, None] != right_groups[None, :], scores, MASKED)


def _dense(
    left: jax.Array,
    right: jax.Array,
    groups: jax.Array,
    reducers: dict[str, Reducer],
    chunk_size: int,
) -> Folded:
    del chunk_size
    scores = _negative_scores(left, right, groups, groups)
    return {name: (r.reduce(scores, 1), r.reduce(scores, 0)) for name, r in reducers.items()}


def _chunked(
    left: jax.Array,
    right: jax.Array,
    groups: jax.Array,
    reducers: dict[str, Reducer],
    chunk_size: int,
) -> Folded:
    size = right.shape[0]
    chunk = min(chunk_size, size)
    padding = -size % chunk
    # `valid` keeps padded columns, whose group number means nothing, out of every row.
    columns = jnp.pad(right, ((0, padding), (0, 0))).reshape(-1, chunk, right.shape[1])
    column_groups = jnp.pad(groups, (0, padding)).reshape(-1, chunk)
    valid = (jnp.arange(size + padding) < size).reshape(-1, chunk)

    @jax.checkpoint
    def block(
        rows: dict[str, jax.Array], column: tuple[jax.Array, jax.Array, jax.Array]
    ) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
        vectors, block_groups, block_valid = column
        scores = _negative_scores(left, vectors, groups, block_groups)
        scores = jnp.where(block_valid[None, :], scores, MASKED)
        merged = {n: r.merge(rows[n], r.reduce(scores, 1)) for n, r in reducers.items()}
        return merged, {n: r.reduce(scores, 0) for n, r in reducers.items()}

    empty = {name: jnp.full_like(left[:, 0], r.identity) for name, r in reducers.items()}
    rows, blocks = jax.lax.scan(block, empty, (columns, column_groups, valid))
    return {name: (rows[name], blocks[name].reshape(-1)[:size]) for name in reducers}


ENGINES = {"dense": _dense, "chunked": _chunked}

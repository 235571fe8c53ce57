"""Reductions over the negatives of each item, block by block."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from xmodal.similarity import Prepared

# The value of a pair that does not count; finite, so that a row without negatives has a zero
# gradient.
MASKED = -1e30

# Largest relative difference between the logits of equal items in different products.
_ROUNDING = 2.0**-18

State = Any  # Arrays [N] with a reduction's state for each item.


def tie_with(positives: jax.Array) -> jax.Array:
    """Returns the lowest logits that count as equal to the positives.

    A copy of a partner ties with it in every engine: the logits of pairs and of all against all
    come from different products, which round differently.
    """
    size = jnp.maximum(jnp.abs(positives), 1.0)
    return positives - _ROUNDING * jax.lax.stop_gradient(size)


@dataclasses.dataclass(frozen=True)
class Reducer:
    """A reduction of values, block by block.

    Attributes:
      start: ([N, M] values, `identity` where a pair does not count; axis) -> state.
      merge: joins the states of the same items over N blocks, [N, ...].
      finish: state -> result [N].
      identity: the value of a pair that does not count.
    """

    start: Callable[[jax.Array, int], State]
    merge: Callable[[State], State]
    finish: Callable[[State], jax.Array]
    identity: float


@dataclasses.dataclass(frozen=True)
class Term:
    """One reduction over the negatives of each item.

    Attributes:
      value: (logits [N, M], positives) -> values [N, M], elementwise. `positives` are the logits
        of each item with its partner, [N, 1] for rows and [1, M] for columns.
      reducer: `LOG_SUM_EXP`, `MAXIMUM` or `SUM`.
    """

    value: Callable[[jax.Array, jax.Array], jax.Array]
    reducer: Reducer


def _start_maximum(values: jax.Array, axis: int) -> State:
    # Tied values share the gradient equally, even across blocks: hence their sum and count are kept
    # with the maximum, which has no gradient of its own.
    largest = jnp.max(jax.lax.stop_gradient(values), axis=axis)
    tied = values == jnp.expand_dims(largest, axis)
    total = jnp.sum(jnp.where(tied, values, 0.0), axis=axis)
    return largest, total, jnp.sum(tied, axis=axis, dtype=jnp.float32)


def _merge_maxima(states: State) -> State:
    largest = jnp.max(states[0], axis=0)
    total, count = (jnp.sum(jnp.where(states[0] == largest, x, 0.0), axis=0) for x in states[1:])
    return largest, total, count


def _finish_maximum(state: State) -> jax.Array:
    largest, total, count = state
    mean = total / jnp.maximum(count, 1.0)  # A NaN equals nothing, not even itself.
    return largest + (mean - jax.lax.stop_gradient(mean))


LOG_SUM_EXP = Reducer(
    start=lambda values, axis: jax.nn.logsumexp(values, axis=axis),
    merge=lambda states: jax.nn.logsumexp(states, axis=0),
    finish=lambda state: state,
    identity=MASKED,
)
MAXIMUM = Reducer(
    start=_start_maximum, merge=_merge_maxima, finish=_finish_maximum, identity=MASKED
)
SUM = Reducer(
    start=lambda values, axis: jnp.sum(values, axis=axis),
    merge=lambda states: jnp.sum(states, axis=0),
    finish=lambda state: state,
    identity=0.0,
)

# Counts the negatives that do not score below the positive, including NaN.
NOT_BELOW = Term(
    lambda logits, positives: (~(logits < tie_with(positives))).astype(jnp.float32), SUM
)
HARDEST = Term(lambda logits, _: logits, MAXIMUM)
"""The highest logit."""

# The parts of `BlockItems` with a gradient: embeddings and positives.
Weights = tuple[Prepared, jax.Array]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class BlockItems:
    """Items of one side.

    Attributes:
      prepared: embeddings, a tree of float32 arrays [N, ...].
      positives: float32 [N], the logit of each item with its partner.
      ids: int32 [N], equal if two items are not negatives.
      real: bool [N]; the others only fill up a block.
    """

    prepared: Prepared
    positives: jax.Array
    ids: jax.Array
    real: jax.Array

    @property
    def weights(self) -> Weights:
        """The parts that have a gradient."""
        return self.prepared, self.positives

    def replace(self, weights: Weights) -> "BlockItems":
        """Returns the same items with other weights."""
        return BlockItems(*weights, ids=self.ids, real=self.real)


@dataclasses.dataclass(frozen=True)
class Job:
    """How every block is reduced.

    Attributes:
      logits: (prepared rows, prepared columns, params) -> float32 [N, M].
      terms: reductions by name.
      chunk_size: most rows and columns of a tile; columns of a block of the ring.
    """

    logits: Callable[[Prepared, Prepared, Any], jax.Array]
    terms: Mapping[str, Term]
    chunk_size: int


def reduce_block(
    job: Job, rows: BlockItems, columns: BlockItems, params: Any
) -> tuple[State, State]:
    """Returns name -> state of each row, and name -> state of each column, of one block."""
    logits = job.logits(rows.prepared, columns.prepared, params)
    negative = rows.ids[:, None] != columns.ids[None, :]
    negative &= rows.real[:, None] & columns.real[None, :]
    row_states: State = {}
    column_states: State = {}
    for name, term in job.terms.items():
        for states, positives, axis in (
            (row_states, rows.positives[:, None], 1),
            (column_states, columns.positives[None, :], 0),
        ):
            values = term.value(logits, positives)
            values = jnp.where(negative, values, term.reducer.identity)
            states[name] = term.reducer.start(values, axis)
    return row_states, column_states


def merge(job: Job, states: State) -> State:
    """Merges the states of the same items over N blocks, [N, ...], into [...]."""
    return {name: term.reducer.merge(states[name]) for name, term in job.terms.items()}

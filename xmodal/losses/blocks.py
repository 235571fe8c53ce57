"""One block of logits, reduced to the states of its rows and columns."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from xmodal.losses.terms import State, Term
from xmodal.similarity import Prepared

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

"""Scores by tile: the interface that ranking needs from embeddings and score matrices."""

from typing import Protocol

import jax
import numpy as np
from jax.sharding import Mesh

from xmodal.core.mesh import make_mesh, to_host
from xmodal.similarity.precision import DOUBLE, SINGLE, in_precision

# Tiles have whole groups of rows, see `products`.
GROUP = 64
# Two counts of one tile share an int32, half each; see `counting`.
_MOST_ROWS = 1 << 14


class Scores(Protocol):
    """Scores of Q queries and N items: float32, or float64 for which float32 would make ties.

    Attributes:
      shape: (Q, N).
      tile_shape: (B, M), shape of every tile; the last ones are padded.
      mesh: devices over which the columns of every tile are sharded.
      dtype: float32 or float64; tiles of the latter are made and used under `in_precision`.
    """

    dtype: np.dtype
    shape: tuple[int, int]
    tile_shape: tuple[int, int]
    mesh: Mesh

    def is_symmetric(self) -> bool:
        """Whether scores within one gallery are known to be the same from either end."""

    def tile(self, i: int, j: int) -> jax.Array:
        """Scores [B, M] of queries iB.. and items jM..; scores of padding are arbitrary."""

    def pairs(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Scores [P] of single pairs, with the bits they have in their tiles."""

    def check_finite(self, asked: str = "") -> None:
        """Raises a `UserError` if a score is not finite; `asked` names the numbers that need it."""

    def transpose(self) -> "Scores":
        """The scores of the items as queries."""


def complete_rows(scores: Scores, i: int) -> np.ndarray:
    """Returns the scores of the queries of row i of tiles with all items, [b, N], on the host."""
    (queries, items), (rows, columns) = scores.shape, scores.tile_shape
    with in_precision(scores.dtype):
        tiles = [to_host(scores.tile(i, j), scores.mesh) for j in range(-(-items // columns))]
    return np.concatenate(tiles, axis=1)[: queries - i * rows, :items]


def one_device(dtype: np.dtype = SINGLE) -> Mesh:
    """Returns a mesh of the first device of this process that has a type of scores."""
    # Not every accelerator has float64.
    backend = "cpu" if dtype == DOUBLE else None
    return make_mesh(jax.local_devices(backend=backend)[:1])


def choose_rows(size: int, block_size: int, group: int) -> int:
    """Returns the rows per tile: whole groups, at most `block_size` if possible, little padding.

    Args:
      size: total number of rows.
      block_size: largest number of rows per tile.
      group: rows that stay together, `GROUP` per device over which they are sharded.
    """
    most = max(1, min(block_size, _MOST_ROWS) // group)
    choices = range(-(-3 * most // 4), most + 1)
    needed = -(-size // group)
    if needed <= most:
        return needed * group
    return group * min(choices, key=lambda groups: (_round_up(needed, groups), -groups))


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple

"""Scores from a file: a matrix that another model computed.

It is ranked in float32, unless that would change or tie scores: then in float64, on the CPU.
"""

from collections.abc import Iterator

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from xmodal.core.mesh import BATCH_AXIS
from xmodal.evals.scores.finite import refuse_not_finite
from xmodal.evals.scores.galleries import ReorderedMatrix
from xmodal.evals.scores.score_tiles import GROUP, Scores, choose_rows, one_device

_ROWS = 256


class SavedScores:
    """A precomputed score matrix, such as that of a cross-encoder."""

    def __init__(
        self,
        matrix: np.ndarray | ReorderedMatrix,
        *,
        block_size: int = 1024,
        mesh: Mesh | None = None,
        dtype: np.dtype | None = None,
    ) -> None:
        """Wraps a matrix [Q, N] of any float type, in memory or mapped from a file.

        Tiles have at most `block_size` queries and items; their columns are sharded over the `data`
        axis of `mesh`. `dtype` is the type to rank in, if it is known.
        """
        self._matrix, self._block_size = matrix, block_size
        self.dtype = dtype or _choose_dtype(matrix)
        if self.dtype == np.float64:
            mesh = one_device(self.dtype)
        self.mesh = mesh = mesh or one_device()
        group = GROUP * mesh.shape[BATCH_AXIS]
        queries, items = self.shape = matrix.shape[0], matrix.shape[1]
        self.tile_shape = (
            choose_rows(queries, block_size, group),
            choose_rows(items, block_size, group),
        )
        self._finite = False

    def tile(self, i: int, j: int) -> jax.Array:
        """See `Scores.tile`."""
        rows, columns = self.tile_shape
        block = self._matrix[i * rows : (i + 1) * rows, j * columns : (j + 1) * columns]
        tile = np.zeros(self.tile_shape, self.dtype)
        tile[: block.shape[0], : block.shape[1]] = _flush(block, self.dtype)
        sharding = NamedSharding(self.mesh, P(None, BATCH_AXIS))
        return jax.make_array_from_callback(tile.shape, sharding, lambda at: tile[at])

    def pairs(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """See `Scores.pairs`."""
        return _flush(self._matrix[rows, columns], self.dtype)

    def check_finite(self, asked: str = "") -> None:
        """See `Scores.check_finite`."""
        if self._finite:
            return
        refuse_not_finite(
            _blocks(self._matrix), asked, "the model diverged or the file is damaged."
        )
        self._finite = True

    def is_symmetric(self) -> bool:
        """See `Scores.is_symmetric`."""
        return False

    def transpose(self) -> Scores:
        """See `Scores.transpose`."""
        return SavedScores(
            self._matrix.T, block_size=self._block_size, mesh=self.mesh, dtype=self.dtype
        )


def _choose_dtype(matrix: np.ndarray | ReorderedMatrix) -> np.dtype:
    """Float32 if it holds every score, else float64."""
    for block in _blocks(matrix):
        with np.errstate(over="ignore"):
            rounded = _flush(block, np.dtype(np.float32))
        if np.any((rounded != block) & ~np.isnan(block)):
            return np.dtype(np.float64)
    return np.dtype(np.float32)


def _blocks(matrix: np.ndarray | ReorderedMatrix) -> Iterator[np.ndarray]:
    return (matrix[at : at + _ROWS, :] for at in range(0, matrix.shape[0], _ROWS))


def _flush(scores: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Scores with a single zero, also for -0.0 and numbers that XLA flushes to zero.

    A sort by the bits, such as top_k, would distinguish them.
    """
    scores = np.array(scores, dtype)
    scores[np.abs(scores) < np.finfo(dtype).tiny] = 0.0
    return scores

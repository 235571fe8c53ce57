"""Scores from a file: a matrix that another model computed."""

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from xmodal.base.mesh import BATCH_AXIS
from xmodal.evals.inputs.galleries import ReorderedMatrix
from xmodal.evals.ranking.finite import refuse_not_finite
from xmodal.evals.ranking.score_tiles import GROUP, Scores, choose_rows, one_device


class SavedScores:
    """A precomputed score matrix, such as that of a cross-encoder."""

    def __init__(
        self,
        matrix: np.ndarray | ReorderedMatrix,
        *,
        block_size: int = 1024,
        mesh: Mesh | None = None,
    ) -> None:
        """Wraps a matrix [Q, N] of any float type, in memory or mapped from a file.

        Tiles have at most `block_size` queries and items; their columns are sharded over the `data`
        axis of `mesh`.
        """
        self.mesh = mesh = mesh or one_device()
        group = GROUP * mesh.shape[BATCH_AXIS]
        queries, items = self.shape = matrix.shape[0], matrix.shape[1]
        self.tile_shape = (
            choose_rows(queries, block_size, group),
            choose_rows(items, block_size, group),
        )
        self._matrix, self._block_size = matrix, block_size
        self._finite = False

    def tile(self, i: int, j: int) -> jax.Array:
        """See `Scores.tile`."""
        rows, columns = self.tile_shape
        block = self._matrix[i * rows : (i + 1) * rows, j * columns : (j + 1) * columns]
        tile = np.zeros(self.tile_shape, np.float32)
        tile[: block.shape[0], : block.shape[1]] = _flush(block)
        sharding = NamedSharding(self.mesh, P(None, BATCH_AXIS))
        return jax.make_array_from_callback(tile.shape, sharding, lambda at: tile[at])

    def pairs(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """See `Scores.pairs`."""
        return _flush(self._matrix[rows, columns])

    def check_finite(self, asked: str = "") -> None:
        """See `Scores.check_finite`."""
        if self._finite:
            return
        rows = self.tile_shape[0]
        blocks = (self._matrix[at : at + rows, :] for at in range(0, self.shape[0], rows))
        refuse_not_finite(blocks, asked, "the model diverged or the file is damaged.")
        self._finite = True

    def is_symmetric(self) -> bool:
        """See `Scores.is_symmetric`."""
        return False

    def transpose(self) -> Scores:
        """See `Scores.transpose`."""
        return SavedScores(self._matrix.T, block_size=self._block_size, mesh=self.mesh)


def _flush(scores: np.ndarray) -> np.ndarray:
    """Float32 with a single zero, also for -0.0 and numbers that XLA flushes to zero.

    A sort by the bits, such as top_k, would distinguish them.
    """
    scores = np.array(scores, np.float32)
    scores[np.abs(scores) < np.finfo(np.float32).tiny] = 0.0
    return scores

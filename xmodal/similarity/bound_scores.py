"""Functions of a similarity for ranking that can be static arguments of jitted functions."""

import dataclasses
import functools
from typing import TYPE_CHECKING

import jax

from xmodal.similarity.scores import TILE
from xmodal.similarity.tiles import join, split
from xmodal.similarity.vectors import Prepared

if TYPE_CHECKING:
    from xmodal.similarity.similarity import Similarity


@dataclasses.dataclass(frozen=True)
class Prepare:
    """`Similarity.prepare`, with the same bits in blocks of any size."""

    similarity: "Similarity"

    def __call__(self, vectors: jax.Array) -> Prepared:
        """Prepares vectors [N, D] or [N, K, D]."""
        return _prepare_tiles(self.similarity, vectors)


@dataclasses.dataclass(frozen=True)
class Score:
    """`Similarity.score` with its parameters bound."""

    similarity: "Similarity"
    parameters: tuple[tuple[str, float], ...]

    def __call__(self, left: Prepared, right: Prepared) -> jax.Array:
        """Returns the scores [L, R] of prepared items."""
        return self.similarity.score(left, right, dict(self.parameters))


@functools.partial(jax.jit, static_argnums=0)
def _prepare_tiles(similarity: "Similarity", vectors: jax.Array) -> Prepared:
    """Returns `similarity.prepare(vectors)`, computed alike for blocks of any size.

    The order in which XLA sums over a vector depends on the shape of the whole array: every tile
    has the same one.
    """
    jax.eval_shape(similarity.prepare, vectors)  # Refuses shapes before they are tiled.
    size = vectors.shape[0]
    tiles = split(vectors, TILE)
    return join(jax.lax.map(similarity.prepare, tiles), size)

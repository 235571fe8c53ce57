"""Scores that cost more than a product: computed once, in blocks, by all devices.

Images and captions are cut into blocks whose size follows the cost of a pair. Every device scores
one block at a time; its shape does not depend on the number of devices, nor do its scores. The
matrix is a `ScoreFile`: every benchmark and direction of a process reads it, and an evaluation that
was killed resumes at the first unfinished block.
"""

import dataclasses
import functools
import math
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from xmodal.core import mesh as mesh_lib
from xmodal.core.progress import progress
from xmodal.evals.scores.ragged_tokens import RaggedTokens
from xmodal.evals.scores.score_files import ScoreFile, hash_arrays
from xmodal.similarity import Embedding, Similarity
from xmodal.similarity.tiles import choose_size, join, split

# Limit of one block; a killed evaluation repeats at most one block of each device.
_BLOCK_FLOPS = 2e11
# A block is scored in tiles, so that the values between two products stay in a processor's cache.
_TILE_BYTES = 2**25
# Captions are padded to multiples of the first number, so that few shapes are compiled; of the
# second, where scoring takes so long that less padding saves more.
_LENGTHS = (8, 2)
_MANY_PAIRS = 2**22


@dataclasses.dataclass(frozen=True)
class HostItems:
    """All items of one modality on the host.

    Attributes:
      vectors: float32 [N, D].
      tokens: their tokens.
    """

    vectors: np.ndarray
    tokens: RaggedTokens

    def block(self, positions: np.ndarray, length: int) -> Embedding:
        """Returns the items at some positions, with tokens padded to a length."""
        tokens, mask = self.tokens[positions].pad(length)
        vectors: Any = np.asarray(self.vectors[positions], np.float32)
        return Embedding(vectors, extras={"tokens": tokens, "mask": mask})


class _Block(NamedTuple):
    """Pairs that are scored together; positions may repeat to fill the shape.

    Attributes:
      rows: int [a], positions of images.
      columns: int [b], positions of captions.
      length: length to which the captions are padded.
    """

    rows: np.ndarray
    columns: np.ndarray
    length: int


def compute_score_matrix(
    similarity: Similarity,
    params: Any,
    images: HostItems,
    captions: HostItems,
    *,
    mesh: Mesh,
    folder: str | os.PathLike | None = None,
) -> np.ndarray:
    """Returns the scores of all pairs, float32 [N, M], mapped from a file.

    Args:
      similarity: a similarity with a module.
      params: its parameters.
      images: N items of the left side.
      captions: M items of the right side.
      mesh: devices that share the blocks; all processes must call this.
      folder: parent of the file's folder; None for the user's cache folder.
    """
    regions = int(images.tokens.lengths.max())
    blocks = list(_plan(similarity, params, images, captions, regions))
    settings = similarity.name, similarity.options, _BLOCK_FLOPS, _TILE_BYTES, _LENGTHS, _MANY_PAIRS
    items = [(each.vectors, each.tokens.values, each.tokens.lengths) for each in (images, captions)]
    key = hash_arrays(repr(settings), (), (items, params))
    shape = len(images.vectors), len(captions.vectors)
    file = ScoreFile(key, shape, (len(blocks),), mesh, folder)
    rounds = list(_rounds(blocks, file.finished, mesh.size))
    with progress(f"Scoring {math.prod(shape):,} pairs", len(rounds), jointly=True) as advance:
        for numbers in rounds:
            chosen = [blocks[number] for number in numbers]
            left = _stack([images.block(block.rows, regions) for block in chosen], mesh)
            right = _stack([captions.block(x.columns, x.length) for x in chosen], mesh)
            found = mesh_lib.to_host(_score_blocks(similarity, mesh, params, left, right), mesh)
            for block, scores in zip(chosen, found, strict=True):
                file.scores[block.rows[:, None], block.columns] = scores
            file.finish(numbers)
            advance(1)
    file.complete()
    return file.scores


def _plan(
    similarity: Similarity, params: Any, images: HostItems, captions: HostItems, regions: int
) -> Iterator[_Block]:
    """All pairs in blocks, those of one shape together; a function of the items alone."""
    pairs = len(images.vectors) * len(captions.vectors)
    step = _LENGTHS[pairs >= _MANY_PAIRS]
    padded = -(-np.maximum(captions.tokens.lengths, 1) // step) * step
    for length in np.unique(padded):
        columns = np.flatnonzero(padded == length)
        prepare = functools.partial(similarity.prepare, params=params)
        left = jax.eval_shape(prepare, images.block(np.arange(1), regions))
        right = jax.eval_shape(prepare, captions.block(columns[:1], int(length)))
        most = max(1, int(_BLOCK_FLOPS / similarity.cost(left, right).flops))
        height = _even(len(images.vectors), math.isqrt(most))
        width = _even(len(columns), most // height)
        for start in range(0, len(columns), width):
            for first in range(0, len(images.vectors), height):
                yield _Block(
                    np.minimum(np.arange(first, first + height), len(images.vectors) - 1),
                    columns[np.minimum(np.arange(start, start + width), len(columns) - 1)],
                    int(length),
                )


def _even(items: int, most: int) -> int:
    """Size of blocks of at most `most` items, of which the last is filled as far as possible."""
    return -(-items // -(-items // max(1, most)))


def _rounds(blocks: Sequence[_Block], done: np.ndarray, devices: int) -> Iterator[list[int]]:
    """Numbers of unfinished blocks of one shape, one for every device; they may repeat."""
    for length in dict.fromkeys(block.length for block in blocks):
        left = [n for n, block in enumerate(blocks) if block.length == length and not done[n]]
        for start in range(0, len(left), devices):
            yield np.resize(left[start : start + devices], devices).tolist()


def _stack(blocks: Sequence[Embedding], mesh: Mesh) -> Embedding:
    """Items [devices, a, ...], one block on every device."""
    sharding = mesh_lib.batch_sharded(mesh)
    return jax.tree.map(lambda *parts: mesh_lib.put(np.stack(parts), sharding), *blocks)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _score_blocks(
    similarity: Similarity, mesh: Mesh, params: Any, left: Embedding, right: Embedding
) -> jax.Array:
    def score(params: Any, *sides: Embedding) -> jax.Array:
        first, second = (
            similarity.prepare(jax.tree.map(lambda x: x[0], side), params) for side in sides
        )
        return _score_tiles(similarity, params, first, second)[None]

    split = P(mesh.axis_names)
    spread = jax.shard_map(
        score, mesh=mesh, in_specs=(P(), split, split), out_specs=split, check_vma=False
    )
    return spread(params, left, right)


def _score_tiles(similarity: Similarity, params: Any, left: Any, right: Any) -> jax.Array:
    """Scores [a, b] of prepared items, in tiles of about as many rows as columns.

    Products of a tile are then neither many small ones nor too large for a processor's cache.
    """
    rows, columns = (jax.tree.leaves(side)[0].shape[0] for side in (left, right))
    pairs = max(1, int(_TILE_BYTES / similarity.cost(left, right).bytes))
    if pairs >= rows * columns:
        return similarity.score(left, right, params)
    height = choose_size(rows, math.isqrt(pairs))
    column_tiles = split(right, choose_size(columns, pairs // height))

    def score_rows(some: Any) -> jax.Array:
        scores = jax.lax.map(lambda tile: similarity.score(some, tile, params).T, column_tiles)
        return join(scores, columns).T

    return join(jax.lax.map(score_rows, split(left, height)), rows)

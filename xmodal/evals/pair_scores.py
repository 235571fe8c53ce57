"""Scores of pairs of a split's items by a pair scorer, each computed once, on all devices.

Both sides are encoded once, by the towers. What depends on one item alone is computed once, too:
for texts, before anything is scored; for images, in blocks, whose pairs are scored while their
arrays, such as keys and values of every layer, are on the device.

Scores of large galleries are in a file of the user's cache folder with a list of finished pairs,
see `ranking.score_files`: an evaluation that was killed scores at most one block of images again.
Those of several processes are in memory.
"""

import contextlib
import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from xmodal.base import mesh as mesh_lib
from xmodal.base.progress import progress
from xmodal.evals.ranking.score_files import (
    FINISHED,
    MATRIX,
    hash_arrays,
    keep_at_exit,
    open_array,
    remove_at_exit,
    score_folder,
)
from xmodal.evals.ranking.score_tiles import one_device

_TEXTS_PER_IMAGE = 8  # In a block; an image with more texts is scored in several blocks.
# Texts are padded to a multiple of this. Smaller ones fill fewer of an image's places in a block.
_LENGTHS = 8
_IMAGE_LENGTHS = 4  # Images, to one of so many lengths that some of them have.
_MOST_IMAGES = 64  # Per device and block.
# Of a device that does not say how much it has, such as a CPU; its cache should hold a block.
_UNKNOWN_MEMORY = 1 << 28
_SHARE = 8  # A block takes this part of a device's memory.
_SAVED_PAIRS = 1 << 22  # Scores of galleries with fewer pairs are computed again after a kill.


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Tokens:
    """The tokens of a side's items, on the host or, as arguments of functions, on devices.

    Attributes:
      tokens: [N, T, W].
      mask: bool [N, T], True for real tokens, which come first.
      extras: further arrays [N, ...] by name, see `models.features.OF_PAIRS`.
    """

    tokens: Any
    mask: Any
    extras: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @classmethod
    def join(cls, parts: Sequence[tuple[np.ndarray, "Tokens"]]) -> "Tokens":
        """Returns the tokens of parts (rows [R], tokens of R items) of a side."""
        count = sum(len(rows) for rows, _ in parts)
        longest = max(part.mask.shape[1] for _, part in parts)
        first = parts[0][1]
        tokens = np.zeros((count, longest, first.tokens.shape[-1]), first.tokens.dtype)
        mask = np.zeros((count, longest), bool)
        extras = {
            name: np.zeros((count, *array.shape[1:]), array.dtype)
            for name, array in first.extras.items()
        }
        for rows, part in parts:
            length = part.mask.shape[1]
            tokens[rows, :length], mask[rows, :length] = part.tokens, part.mask
            for name, array in part.extras.items():
                extras[name][rows] = array
        return cls(tokens, mask, extras)

    def take(self, rows: np.ndarray, length: int) -> "Tokens":
        """Returns the items at `rows`, cut to `length` tokens."""
        extras = {name: array[rows] for name, array in self.extras.items()}
        return Tokens(self.tokens[rows, :length], self.mask[rows, :length], extras)


@dataclasses.dataclass(frozen=True)
class PairFunctions:
    """The functions of a pair scorer; all are pure.

    Attributes:
      definition: names the score: "log_odds of matching_head".
      prepare: (side, params, N items) -> tree of arrays, items first.
      score: (params, prepared images [I, ...], prepared texts [I, J, ...]) -> float32 [I, J].
      pair_bytes: (tokens of an image, tokens of a text) -> bytes needed to score a pair.
      settings: everything but the parameters that determines the scores; "" if they are not kept.
      bind: parameters of the whole model -> `params` of the other functions.
    """

    definition: str
    prepare: Callable[[str, Any, Tokens], Any]
    score: Callable[[Any, Any, Any], jax.Array]
    pair_bytes: Callable[[int, int], int]
    settings: str = ""
    bind: Callable[[Any], Any] = lambda params: params


class PairProgram:
    """The compiled functions of a pair scorer, for any weights."""

    def __init__(self, functions: PairFunctions, mesh: Mesh | None) -> None:
        """Prepares the functions for the devices of a mesh; None for one device."""
        self.functions, self.mesh = functions, mesh or one_device()
        # Rows stay where they are computed: there is no collective.
        self.sharding = mesh_lib.batch_sharded(self.mesh)
        self.prepare = jax.jit(functions.prepare, static_argnums=0, out_shardings=self.sharding)
        self.score = jax.jit(functions.score, out_shardings=self.sharding)
        self.bind = jax.jit(functions.bind)

    def put(self, tree: Any) -> Any:
        """Puts arrays that every process has on the devices, split by their first axis."""
        return jax.tree.map(lambda array: mesh_lib.put(array, self.sharding), tree)

    def images_per_device(self, params: Any, images: Tokens, text_tokens: int) -> int:
        """Returns how many images of a block fit on a device with a block of their pairs."""
        one = jax.tree.map(lambda x: jax.ShapeDtypeStruct((1, *x.shape[1:]), x.dtype), images)
        prepare = functools.partial(self.functions.prepare, "image")
        prepared = jax.eval_shape(prepare, params, one)
        size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(prepared))
        size += _TEXTS_PER_IMAGE * self.functions.pair_bytes(images.mask.shape[1], text_tokens)
        device = next(d for d in self.mesh.devices.flat if d.process_index == jax.process_index())
        memory = (device.memory_stats() or {}).get("bytes_limit", _UNKNOWN_MEMORY)
        most = min(max(memory // _SHARE // size, 1), _MOST_IMAGES)
        # A power of two is the same on hosts whose memory differs slightly.
        return min(1 << int(most).bit_length() - 1, -(-len(images.mask) // self.mesh.size))


class PairScores:
    """Scores of pairs of N images and M captions, each computed once, on first request.

    All processes must request the same pairs.

    Attributes:
      definition: names the score.
    """

    def __init__(self, program: PairProgram, params: Any, images: Tokens, captions: Tokens) -> None:
        """Takes a program, its parameters, and the tokens of both sides."""
        self.definition = program.functions.definition
        self._program, self._params, self._images = program, params, images
        self._lengths = _padded_lengths(captions)
        self._image_lengths = _common_lengths(images)
        self._captions = captions
        self._texts: dict[int, Any] = {}
        # Place of a caption among those of its length.
        self._place = np.zeros(len(self._lengths), np.int64)
        for length in np.unique(self._lengths):
            at = np.flatnonzero(self._lengths == length)
            self._place[at] = np.arange(len(at))
        self._key: tuple[pathlib.Path, str] | None = None
        self._opened = functools.cache(self._open)
        self._bound = functools.cache(lambda: program.bind(params))

    def _open(self) -> tuple[np.ndarray, np.ndarray]:
        """The scores [N, M], and which of them are finished; in files, or in memory."""
        shape = len(self._images.mask), len(self._captions.mask)
        settings, mesh = self._program.functions.settings, self._program.mesh
        few = shape[0] * shape[1] < _SAVED_PAIRS
        if few or not settings or mesh_lib.process_count(mesh) > 1:
            return np.zeros(shape, np.float32), np.zeros(shape, bool)
        arrays = jax.tree.leaves((self._images, self._captions))
        root, key = score_folder(), hash_arrays(settings, arrays, self._params)
        self._key = root, key
        place = root / key / "pairs"
        return (
            open_array(place / MATRIX, shape, np.float32),
            open_array(place / FINISHED, shape, np.bool_),
        )

    def _finish(self, images: np.ndarray, captions: np.ndarray) -> None:
        """Lists pairs [P] as finished; their scores are on the disk before."""
        scores, finished = self._opened()
        if isinstance(scores, np.memmap):
            scores.flush()
        finished[images, captions] = True
        if isinstance(finished, np.memmap):
            finished.flush()
        if self._key is not None:
            with contextlib.suppress(FileNotFoundError):
                os.utime(self._key[0] / self._key[1])  # Says that this evaluation is alive.

    def pairs(self, images: np.ndarray, captions: np.ndarray) -> np.ndarray:
        """Returns the scores [P], float32, of pairs at positions [P]."""
        scores, finished = self._opened()
        fresh = ~finished[images, captions]
        if fresh.any():
            keys = np.unique(images[fresh].astype(np.int64) * len(self._lengths) + captions[fresh])
            if self._key is not None:
                keep_at_exit(*self._key)  # It may be killed now.
            self._compute(*np.divmod(keys, len(self._lengths)))
        if self._key is not None:
            remove_at_exit(*self._key)
        return np.asarray(scores[images, captions])

    def take(self, images: np.ndarray, captions: np.ndarray) -> "TakenPairs":
        """Returns the scores of the items at these positions."""
        return TakenPairs(self, images, captions)

    def _compute(self, images: np.ndarray, captions: np.ndarray) -> None:
        """Scores distinct pairs, image by image; images with many texts come first."""
        program, tokens = self._program, self._images
        for length in np.unique(self._lengths[captions]):
            if int(length) not in self._texts:
                self._texts[int(length)] = self._prepare_texts(int(length))
        size = program.mesh.size * program.images_per_device(
            self._bound(), tokens, self._captions.mask.shape[1]
        )
        names, counts = np.unique(images, return_counts=True)
        names = names[np.argsort(-counts, kind="stable")]
        unread: tuple[jax.Array, Any] | None = None
        with progress(f"Scoring {len(images):,} pairs", len(images), jointly=True) as advance:
            for block in self._image_blocks(names, size):
                padded = np.pad(block, (0, size - len(block)), mode="edge")
                longest = self._image_lengths[block[0]]
                placed = program.put(tokens.take(padded, longest))
                prepared = program.prepare("image", self._bound(), placed)
                own = np.isin(images, block)
                for length, slots, places, at in self._blocks(
                    block, images[own], captions[own], size
                ):
                    texts = jax.tree.map(lambda x, p=places: x[p], self._texts[length])
                    found = program.score(self._bound(), prepared, program.put(texts))
                    # Reading results one block late keeps the devices busy.
                    self._keep(unread)
                    unread = found, (slots, at)
                    advance(len(at[0]))
                self._keep(unread)
                unread = None
                self._finish(images[own], captions[own])

    def _image_blocks(self, names: np.ndarray, size: int) -> Iterator[np.ndarray]:
        """Yields at most `size` images of one padded length at a time."""
        lengths = self._image_lengths[names]
        for length in np.unique(lengths):
            own = names[lengths == length]
            yield from (own[start : start + size] for start in range(0, len(own), size))

    def _blocks(
        self, block: np.ndarray, images: np.ndarray, captions: np.ndarray, size: int
    ) -> Iterator[tuple[int, Any, np.ndarray, tuple[np.ndarray, np.ndarray]]]:
        """Yields (text length, places [P] in a block, texts of the block [I, J], pairs [P])."""
        slot_of = dict(zip(block.tolist(), range(len(block)), strict=True))
        slots = np.array([slot_of[image] for image in images.tolist()])
        for length in np.unique(self._lengths[captions]):
            at = np.flatnonzero(self._lengths[captions] == length)
            at = at[np.argsort(slots[at], kind="stable")]
            starts = np.searchsorted(slots[at], slots[at])
            number = np.arange(len(at)) - starts  # Of a pair among those of its image.
            for call in range(int(number.max()) // _TEXTS_PER_IMAGE + 1):
                now = number // _TEXTS_PER_IMAGE == call
                where = slots[at][now], number[now] % _TEXTS_PER_IMAGE
                pair = images[at][now], captions[at][now]
                places = np.zeros((size, _TEXTS_PER_IMAGE), np.int64)
                places[where] = self._place[pair[1]]
                yield int(length), where, places, pair

    def _keep(self, unread: tuple[jax.Array, Any] | None) -> None:
        if unread is not None:
            found, (slots, at) = unread
            self._opened()[0][at] = mesh_lib.to_host(found, self._program.mesh)[slots]

    def _prepare_texts(self, length: int) -> Any:
        """What depends on the texts of a length alone, on the host."""
        program = self._program
        at = np.flatnonzero(self._lengths == length)
        size = program.mesh.size * _MOST_IMAGES
        parts: list[Any] = []
        for start in range(0, len(at), size):
            rows = at[start : start + size]
            padded = np.pad(rows, (0, size - len(rows)), mode="edge")
            placed = program.put(self._captions.take(padded, length))
            found = program.prepare("text", self._bound(), placed)
            found = mesh_lib.to_host(found, program.mesh)
            parts.append(found)
        return jax.tree.map(lambda *arrays: np.concatenate(arrays)[: len(at)], *parts)


class TakenPairs:
    """The scores of some items of `PairScores`, in another order."""

    def __init__(self, whole: PairScores, images: np.ndarray, captions: np.ndarray) -> None:
        """Takes positions [N] and [M] in the whole."""
        self.definition = whole.definition
        self._whole, self._images, self._captions = whole, images, captions

    def pairs(self, images: np.ndarray, captions: np.ndarray) -> np.ndarray:
        """See `PairScores`."""
        return self._whole.pairs(self._images[images], self._captions[captions])

    def take(self, images: np.ndarray, captions: np.ndarray) -> "TakenPairs":
        """See `PairScores`."""
        return TakenPairs(self._whole, self._images[images], self._captions[captions])


def _padded_lengths(captions: Tokens) -> np.ndarray:
    """Tokens of every caption, rounded up, so that few shapes are compiled; int [M]."""
    lengths = np.maximum(captions.mask.sum(axis=1), 1)
    return np.minimum(-(-lengths // _LENGTHS) * _LENGTHS, captions.mask.shape[1])


def _common_lengths(images: Tokens) -> np.ndarray:
    """Tokens of every image, rounded up to the next of a few lengths that are common; int [N]."""
    lengths = np.maximum(images.mask.sum(axis=1), 1)
    shares = np.arange(1, _IMAGE_LENGTHS + 1) / _IMAGE_LENGTHS
    common = np.unique(np.quantile(lengths, shares, method="higher"))
    return common[np.searchsorted(common, lengths)]

"""Scores of pairs of a split's items by a pair scorer, each computed once, on all devices.

Both sides are encoded once, by the towers. What depends on one item alone is computed once, too:
for texts, before anything is scored; for images, in blocks, whose pairs are scored while their
arrays, such as keys and values of every layer, are on the device.

Scores of large galleries are in a file of the user's cache folder with a list of finished pairs,
see `ranking.score_files`: an evaluation that was killed scores at most one block of images again.
Each of several processes has a file of its own, and scores again what any of them lacks.
"""

import contextlib
import dataclasses
import functools
import math
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from xmodal.base import mesh as mesh_lib
from xmodal.base.progress import progress
from xmodal.evals.ranking.score_files import (
    FINISHED,
    MATRIX,
    finished_everywhere,
    hash_arrays,
    keep_at_exit,
    open_array,
    remove_at_exit,
    score_folder,
)
from xmodal.evals.ranking.score_tiles import one_device

_TEXTS_PER_IMAGE = 8  # At most, in a block; an image with more is scored in several blocks.
# Texts are padded to a multiple of this, so that few shapes are compiled. Many pairs repay more
# shapes: even numbers of so many leading binary digits, 2, 4, ..., 16, 20, 24, 28, 32, 40, ...
_LENGTHS, _DIGITS = 8, 3
_MANY_PAIRS = 1 << 22
_IMAGE_LENGTHS = 4  # Images, to one of so many lengths that some of them have.
_MOST_IMAGES = 64  # Per device and block.
# Of a device that does not say how much it has, such as a CPU; its cache should hold a block.
_UNKNOWN_MEMORY = 160 << 20
_SHARE = 8  # A block takes this part of a device's memory.
_SAVED_PAIRS = 1 << 22  # Scores of galleries with fewer pairs are computed again after a kill.


Slots = tuple[np.ndarray, np.ndarray]  # Rows and columns [P] of places in a block [I, J].


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
      prepare: (side, params, N items) -> tree of arrays, items first. Zeros after the arrays of a
        text that is padded to fewer tokens must act as its padding does.
      score: (params, prepared images [I, ...], prepared texts [I, J, ...]) -> float32 [I, J].
      pair_bytes: (tokens of an image, tokens of a text) -> bytes needed to score a pair.
      settings: everything but the parameters that determines the scores; "" if they are not kept.
      bind: parameters of the whole model -> `params` of the other functions; called once.
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

    def put(self, tree: Any) -> Any:
        """Puts arrays that every process has on the devices, split by their first axis."""
        return jax.tree.map(lambda array: mesh_lib.put(array, self.sharding), tree)

    def block_shape(self, params: Any, images: Tokens, captions: Tokens) -> tuple[int, int]:
        """Returns the numbers of images per device of a block, and of texts per image.

        Both are powers of two, so that galleries of any size share few compiled shapes.
        """
        one = jax.tree.map(lambda x: jax.ShapeDtypeStruct((1, *x.shape[1:]), x.dtype), images)
        prepare = functools.partial(self.functions.prepare, "image")
        prepared = jax.eval_shape(prepare, params, one)
        size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(prepared))
        pair = self.functions.pair_bytes(images.mask.shape[1], captions.mask.shape[1])
        device = next(d for d in self.mesh.devices.flat if d.process_index == jax.process_index())
        memory = (device.memory_stats() or {}).get("bytes_limit", _UNKNOWN_MEMORY) // _SHARE
        most_texts = min(_TEXTS_PER_IMAGE, _next_power_of_two(len(captions.mask)))
        texts = _power_of_two(min(memory // pair, most_texts))
        most = _power_of_two(min(memory // (size + texts * pair), _MOST_IMAGES))
        return min(most, self.share(len(images.mask))), texts

    def share(self, items: int) -> int:
        """Returns the next power of two of a device's part of some items."""
        return _next_power_of_two(-(-items // self.mesh.size))


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
        self._lengths = _padded_lengths(captions, len(images.mask) * len(captions.mask))
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
        self._bound = functools.cache(
            lambda: jax.tree.map(jnp.asarray, program.functions.bind(params))
        )

    def _open(self) -> tuple[np.ndarray, np.ndarray]:
        """The scores [N, M], and which of them are finished; in files, or in memory."""
        shape = len(self._images.mask), len(self._captions.mask)
        settings, mesh = self._program.functions.settings, self._program.mesh
        if not settings or math.prod(shape) < _SAVED_PAIRS:
            return np.zeros(shape, np.float32), np.zeros(shape, bool)
        arrays = jax.tree.leaves((self._images, self._captions))
        params = mesh_lib.to_host(self._bound(), mesh)
        root, key = score_folder(), hash_arrays(settings, arrays, params)
        self._key = root, key
        place = root / key / f"process-{jax.process_index()}"
        scores = open_array(place / MATRIX, shape, np.float32)
        finished = open_array(place / FINISHED, shape, np.bool_)
        finished &= finished_everywhere(finished, mesh)
        return scores, finished

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
        per_device, texts_per_image = program.block_shape(self._bound(), tokens, self._captions)
        size = program.mesh.size * per_device
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
                for slots, at in _blocks(
                    block, images[own], captions[own], self._lengths, texts_per_image
                ):
                    texts = self._gather(slots, at[1], (size, texts_per_image))
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

    def _gather(self, slots: Slots, captions: np.ndarray, shape: tuple[int, int]) -> Any:
        """Prepared captions [P] at slots of a block [I, J], with zeros behind the shorter ones."""
        lengths = self._lengths[captions]
        longest = self._texts[int(lengths.max())]
        block = jax.tree.map(lambda x: np.zeros((*shape, *x.shape[1:]), x.dtype), longest)
        for length in np.unique(lengths):
            own = lengths == length
            at = slots[0][own], slots[1][own]
            places = self._place[captions[own]]

            def fill(into: np.ndarray, texts: np.ndarray, at: Slots = at, p: Any = places) -> None:
                place: Any = (*at, *(slice(size) for size in texts.shape[1:]))
                into[place] = texts[p]

            jax.tree.map(fill, block, self._texts[int(length)])
        return block

    def _keep(self, unread: tuple[jax.Array, Any] | None) -> None:
        if unread is not None:
            found, (slots, at) = unread
            self._opened()[0][at] = mesh_lib.to_host(found, self._program.mesh)[slots]

    def _prepare_texts(self, length: int) -> Any:
        """The prepared texts of a length, on the host."""
        program = self._program
        at = np.flatnonzero(self._lengths == length)
        size = program.mesh.size * min(program.share(len(at)), _MOST_IMAGES)
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


def _blocks(
    block: np.ndarray, images: np.ndarray, captions: np.ndarray, lengths: np.ndarray, texts: int
) -> Iterator[tuple[Slots, tuple[np.ndarray, np.ndarray]]]:
    """Yields the slots of pairs [P] in a block of images, and the pairs.

    Every image has its longest captions first, so that captions of a block are about as long, and
    only an image's last places are empty.
    """
    slots = np.argsort(block)[np.searchsorted(np.sort(block), images)]
    order = np.lexsort((captions, -lengths[captions], slots))
    slots, images, captions = slots[order], images[order], captions[order]
    number = np.arange(len(slots)) - np.searchsorted(slots, slots)  # Among those of its image.
    for call in range(int(number.max()) // texts + 1):
        now = number // texts == call
        yield (slots[now], number[now] % texts), (images[now], captions[now])


def _power_of_two(most: int) -> int:
    """The largest power of two up to `most`, at least 1: hosts' memories may differ slightly."""
    return 1 << max(int(most), 1).bit_length() - 1


def _next_power_of_two(least: int) -> int:
    """The smallest one from `least` on."""
    return 1 << max(least - 1, 0).bit_length()


def _padded_lengths(captions: Tokens, pairs: int) -> np.ndarray:
    """Tokens of every caption, rounded up, so that few shapes are compiled; int [M]."""
    lengths = np.maximum(captions.mask.sum(axis=1), 1)
    steps: Any = _LENGTHS
    if pairs >= _MANY_PAIRS:
        digits = np.frexp(lengths - 0.5)[1]
        steps = 1 << np.maximum(digits - _DIGITS, 1)
    return np.minimum(-(-lengths // steps) * steps, captions.mask.shape[1])


def _common_lengths(images: Tokens) -> np.ndarray:
    """Tokens of every image, rounded up to the next of a few lengths that are common; int [N]."""
    lengths = np.maximum(images.mask.sum(axis=1), 1)
    shares = np.arange(1, _IMAGE_LENGTHS + 1) / _IMAGE_LENGTHS
    common = np.unique(np.quantile(lengths, shares, method="higher"))
    return common[np.searchsorted(common, lengths)]

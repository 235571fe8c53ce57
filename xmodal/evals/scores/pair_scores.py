"""Scores of pairs of a split's items by a cross-encoder, each computed once, on all devices.

Both modalities are encoded once, by the towers. What depends on one item alone is computed once,
too: for texts, before anything is scored; for images, in blocks, whose pairs are scored while their
arrays, such as keys and values of every layer, are on the device.

Scores of large galleries are in a file of the user's cache folder with a list of finished pairs,
see `scores.score_files`: an evaluation that was killed scores at most one block of images again.
Each of several processes has a file of its own, and scores again what any of them lacks.
"""

import copy
import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from xmodal.core import mesh as mesh_lib
from xmodal.core.progress import progress
from xmodal.evals.scores.score_files import ScoreFile, hash_arrays
from xmodal.evals.scores.score_rows import launch_ahead

_TEXTS_PER_IMAGE = 16  # At most, in a call; an image with more is scored in several calls.
# Texts are padded to a multiple of this, so that few shapes are compiled. Many pairs repay more
# shapes: even numbers with this many leading binary digits, 2, 4, ..., 16, 20, 24, 28, 32, 40, ...
_LENGTHS, _DIGITS = 8, 3
_MANY_PAIRS = 1 << 22
_IMAGE_LENGTHS = 4  # Images are padded to one of this many lengths, which some of them have.
_MOST_IMAGES = 64  # Per device and block.
# For a device that does not report its memory, such as a CPU, whose cache should hold a block.
_UNKNOWN_MEMORY = 320 << 20
_SHARE = 16  # A block takes this part of a device's memory.
_SAVED_PAIRS = 1 << 22  # Scores of galleries with fewer pairs are computed again after a kill.


Slots = tuple[np.ndarray, np.ndarray]  # Rows and columns [P] of places in a block [I, J].
Call = tuple[int, Slots, np.ndarray]  # See `_calls`.


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Tokens:
    """The tokens of a modality's items, on the host or, as arguments of functions, on devices.

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
        """Returns the tokens of parts (rows [R], tokens of R items) of a modality."""
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
    """The functions of a cross-encoder; all are pure.

    Attributes:
      definition: names the score: "log_odds of matching_head".
      prepare: (modality, params, N items) -> tree of arrays, items first. Zeros after the arrays of
        a text that is padded to fewer tokens must act as its padding does.
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
    """The compiled functions of a cross-encoder, for any weights."""

    def __init__(self, functions: PairFunctions, mesh: Mesh | None) -> None:
        """Prepares the functions for the devices of a mesh; None for one device."""
        self.functions, self.mesh = functions, mesh or mesh_lib.make_mesh(jax.local_devices()[:1])
        # Rows stay where they are computed: there is no collective.
        self.sharding = mesh_lib.batch_sharded(self.mesh)
        self.prepare = jax.jit(functions.prepare, static_argnums=0, out_shardings=self.sharding)
        self.score = jax.jit(functions.score, out_shardings=self.sharding)

    def put(self, tree: Any) -> Any:
        """Puts arrays that every process has on the devices, split by their first axis."""
        return jax.tree.map(lambda array: mesh_lib.put(array, self.sharding), tree)

    def block_shape(
        self, params: Any, images: Tokens, lengths: np.ndarray, texts: int
    ) -> tuple[int, np.ndarray]:
        """Returns the numbers of images per device of a block, and of texts per image of a call.

        All are powers of two, so that galleries of any size share few compiled shapes.

        Args:
          params: see `PairFunctions`.
          images: the images.
          lengths: tokens of M texts.
          texts: texts that an image has on average.

        Returns:
          The first number, and the second, int [M], of calls whose longest text is that one.
        """
        one = jax.tree.map(lambda x: jax.ShapeDtypeStruct((1, *x.shape[1:]), x.dtype), images)
        prepare = functools.partial(self.functions.prepare, "image")
        prepared = jax.eval_shape(prepare, params, one)
        size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(prepared))
        different, of_text = np.unique(lengths, return_inverse=True)
        tokens = images.mask.shape[1]
        pair = np.array([self.functions.pair_bytes(tokens, int(length)) for length in different])
        device = next(d for d in self.mesh.devices.flat if d.process_index == jax.process_index())
        memory = (device.memory_stats() or {}).get("bytes_limit", _UNKNOWN_MEMORY) // _SHARE
        most_texts = min(_TEXTS_PER_IMAGE, _next_power_of_two(texts))
        fitting = np.array([_power_of_two(min(memory // each, most_texts)) for each in pair])
        most = _power_of_two(min(memory // (size + (fitting * pair).max()), _MOST_IMAGES))
        return min(most, self.share(len(images.mask))), fitting[of_text]

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
        """Takes a program, its parameters, and the tokens of both modalities."""
        self.definition = program.functions.definition
        self._program, self._images, self._captions = program, images, captions
        self._lengths = _padded_lengths(captions, len(images.mask) * len(captions.mask))
        self._image_lengths = _common_lengths(images)
        self._by_length = np.argsort(-self._lengths, kind="stable")
        self._texts: dict[int, Any] = {}
        # Place of a caption among those of its length.
        order = np.argsort(self._lengths, kind="stable")
        self._place = np.empty(len(order), np.int64)
        self._place[order] = np.arange(len(order)) - np.searchsorted(
            self._lengths[order], self._lengths[order]
        )
        self._at = np.arange(len(images.mask)), np.arange(len(captions.mask))
        self._bound = functools.cache(
            lambda: jax.tree.map(jnp.asarray, program.functions.bind(params))
        )
        self._opened = functools.cache(self._open)

    def _open(self) -> ScoreFile:
        """The scores [N, M], and which of them are finished; in memory if there are few."""
        shape, key = (len(self._images.mask), len(self._captions.mask)), ""
        settings, mesh = self._program.functions.settings, self._program.mesh
        if settings and math.prod(shape) >= _SAVED_PAIRS:
            arrays = jax.tree.leaves((self._images, self._captions))
            key = hash_arrays(settings, arrays, mesh_lib.to_host(self._bound(), mesh))
        return ScoreFile(key, shape, shape, mesh)

    def pairs(self, images: np.ndarray, captions: np.ndarray) -> np.ndarray:
        """Returns the scores [P], float32, of pairs at positions [P]."""
        images, captions = self._at[0][images], self._at[1][captions]
        file = self._opened()
        finished = file.finished
        if not finished[images, captions].all():
            wanted = np.zeros(finished.shape, bool)
            wanted[images, captions] = True
            # The average of an image, even after a kill: other shapes could round differently.
            texts = math.ceil(np.count_nonzero(wanted) / np.count_nonzero(wanted.any(axis=1)))
            wanted[finished] = False
            self._compute(wanted, texts)
        file.complete()
        return np.asarray(file.scores[images, captions])

    def take(self, images: np.ndarray | None, captions: np.ndarray | None) -> "PairScores":
        """Returns the scores of the items at these positions, which share all that is computed.

        None for all.
        """
        taken, (rows, columns) = copy.copy(self), self._at
        taken._at = (
            rows if images is None else rows[images],
            columns if captions is None else columns[captions],
        )
        return taken

    def _compute(self, wanted: np.ndarray, texts: int) -> None:
        """Scores pairs, bool [N, M], image by image; images with many texts come first.

        `texts`: see `PairProgram.block_shape`.
        """
        program, tokens = self._program, self._images
        for length in np.unique(self._lengths[wanted.any(axis=0)]):
            if int(length) not in self._texts:
                self._texts[int(length)] = self._prepare_texts(int(length))
        counts = np.count_nonzero(wanted, axis=1)
        names = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
        total = int(counts.sum())
        per_device, places = program.block_shape(self._bound(), tokens, self._lengths, texts)
        size = program.mesh.size * per_device
        with progress(f"Scoring {total:,} pairs", total, jointly=True) as advance:
            for block in self._image_blocks(names, size):
                padded = mesh_lib.pad_rows(block, size)
                placed = program.put(tokens.take(padded, self._image_lengths[block[0]]))
                prepared, own = program.prepare("image", self._bound(), placed), wanted[block]

                def launch(call: Call, to: Any = prepared) -> tuple[jax.Array, Slots, np.ndarray]:
                    width, slots, captions = call
                    read = program.put(self._gather(slots, captions, (size, width)))
                    return program.score(self._bound(), to, read), slots, captions

                calls = _calls(own, self._by_length, places)
                for found, slots, captions in launch_ahead(map(launch, calls)):
                    scores = mesh_lib.to_host(found, program.mesh)[slots]
                    self._opened().scores[block[slots[0]], captions] = scores
                    advance(len(captions))
                self._opened().finish(block, own)

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

    def _prepare_texts(self, length: int) -> Any:
        """The prepared texts of a length, on the host."""
        program = self._program
        at = np.flatnonzero(self._lengths == length)
        size = program.mesh.size * min(program.share(len(at)), _MOST_IMAGES)
        parts = []
        for start in range(0, len(at), size):
            padded = mesh_lib.pad_rows(at[start : start + size], size)
            placed = program.put(self._captions.take(padded, length))
            found = program.prepare("text", self._bound(), placed)
            parts.append(mesh_lib.to_host(found, program.mesh))
        return jax.tree.map(lambda *arrays: np.concatenate(arrays)[: len(at)], *parts)


def _calls(wanted: np.ndarray, by_length: np.ndarray, places: np.ndarray) -> Iterator[Call]:
    """Yields texts per image of a call, slots [P] of images and texts, and captions [P] in them.

    Every image has its longest captions first, so that captions of a call are about as long, and
    only an image's last places are empty.

    Args:
      wanted: pairs of the images with all captions, bool [I, M].
      by_length: captions, longest first, int [M].
      places: texts per image of a call whose longest caption is that one, int [M].
    """
    captions = by_length[np.nonzero(wanted[:, by_length])[1]]  # Image by image.
    counts = np.count_nonzero(wanted, axis=1)[:, None]
    starts = np.cumsum(counts)[:, None] - counts
    first = 0
    while first < counts.max():
        texts = int(places[captions[(starts + first)[first < counts]]].min())
        number = first + np.arange(texts)  # Among those of an image.
        rows, columns = np.nonzero(number < counts)
        yield texts, (rows, columns), captions[(starts + number)[rows, columns]]
        first += texts


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

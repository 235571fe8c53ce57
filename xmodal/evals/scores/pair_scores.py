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
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from xmodal.core import mesh as mesh_lib
from xmodal.core.progress import progress
from xmodal.evals.scores.ragged_tokens import RaggedTokens
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

Tokens = tuple[Any, Any, Mapping[str, Any]]
"""Tokens [N, T, W] of items, their mask, bool [N, T], real ones first, and further arrays."""


@dataclasses.dataclass(frozen=True)
class PairFunctions:
    """The functions of a cross-encoder; all are pure.

    Attributes:
      definition: names the score: "log_odds of matching_head".
      prepare: (modality, params, `Tokens` of N items) -> tree of arrays, items first. Zeros after
        the arrays of a text that is padded to fewer tokens must act as its padding does.
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

    def share(self, items: int) -> int:
        """Returns the next power of two of a device's part of some items."""
        return _next_power_of_two(-(-items // self.mesh.size))


class PairScores:
    """Scores of pairs of N images and M captions, each computed once, on first request.

    All processes must request the same pairs.

    Attributes:
      definition: names the score.
    """

    def __init__(
        self, program: PairProgram, params: Any, images: RaggedTokens, captions: RaggedTokens
    ) -> None:
        """Takes a program, its parameters, and the tokens of both modalities."""
        self.definition = program.functions.definition
        self._program, self._tokens = program, {"image": images, "text": captions}
        self._shape = len(images.lengths), len(captions.lengths)
        self._lengths = _padded_lengths(captions, math.prod(self._shape))
        self._image_lengths = _common_lengths(images)
        self._by_length = np.argsort(-self._lengths, kind="stable")
        self._texts: dict[int, Any] = {}
        # Place of a caption among those of its length.
        self._place = np.zeros(self._shape[1], np.int64)
        self._at = [np.arange(size) for size in self._shape]
        self._bound = functools.cache(
            lambda: jax.tree.map(jnp.asarray, program.functions.bind(params))
        )
        self._opened = functools.cache(self._open)

    def _open(self) -> ScoreFile:
        """The scores [N, M], and which of them are finished; in memory if there are few."""
        settings, mesh, key = self._program.functions.settings, self._program.mesh, ""
        if settings and math.prod(self._shape) >= _SAVED_PAIRS:
            items = self._tokens.values()
            arrays = [x for i in items for x in (i.values, i.lengths, *i.extras.values())]
            key = hash_arrays(settings, arrays, mesh_lib.to_host(self._bound(), mesh))
        return ScoreFile(key, self._shape, self._shape, mesh)

    def pairs(self, images: np.ndarray, captions: np.ndarray) -> np.ndarray:
        """Returns the scores [P], float32, of pairs at positions [P]."""
        images, captions = self._at[0][images], self._at[1][captions]
        file = self._opened()
        if not file.finished[images, captions].all():
            wanted = np.zeros(self._shape, bool)
            wanted[images, captions] = True
            # The average of an image, even after a kill: other shapes could round differently.
            texts = math.ceil(np.count_nonzero(wanted) / np.count_nonzero(wanted.any(axis=1)))
            wanted[file.finished] = False
            self._compute(wanted, texts)
        file.complete()
        return np.asarray(file.scores[images, captions])

    def take(self, images: np.ndarray | None, captions: np.ndarray | None) -> "PairScores":
        """Returns the scores of the items at these positions, which share all that is computed.

        None for all.
        """
        taken, given = copy.copy(self), zip(self._at, (images, captions), strict=True)
        taken._at = [own if at is None else own[at] for own, at in given]
        return taken

    def _compute(self, wanted: np.ndarray, texts: int) -> None:
        """Scores pairs, bool [N, M], image by image; images with many texts come first.

        `texts`: number of texts that an image has on average.
        """
        program, file = self._program, self._opened()
        for length in np.unique(self._lengths[wanted.any(axis=0)]).tolist():
            if length not in self._texts:
                self._texts[length] = self._prepare_texts(length)
        counts = np.count_nonzero(wanted, axis=1)
        names = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
        total = int(counts.sum())
        per_device, places = self._block_shape(texts)
        size = program.mesh.size * per_device
        with progress(f"Scoring {total:,} pairs", total, jointly=True) as advance:
            for block in self._image_blocks(names, size):
                prepared = self._prepare("image", block, size, self._image_lengths[block[0]])
                own = wanted[block]

                def launch(call: Call, to: Any = prepared) -> tuple[jax.Array, Slots, np.ndarray]:
                    width, slots, captions = call
                    read = program.put(self._gather(slots, captions, (size, width)))
                    return program.score(self._bound(), to, read), slots, captions

                calls = _calls(own, self._by_length, places)
                for found, slots, captions in launch_ahead(map(launch, calls)):
                    scores = mesh_lib.to_host(found, program.mesh)[slots]
                    file.scores[block[slots[0]], captions] = scores
                    advance(len(captions))
                file.finish(block, own)

    def _block_shape(self, texts: int) -> tuple[int, np.ndarray]:
        """The numbers of images per device of a block, and of texts per image of a call.

        The second number, int [M], is for calls whose longest text is that one. All are powers of
        two, so that galleries of any size share few compiled shapes.
        """
        program, images = self._program, self._tokens["image"]
        one = images[np.arange(1)]
        given = self._bound(), (*one.pad(images.longest), one.extras)
        prepare = functools.partial(program.functions.prepare, "image")
        leaves = jax.tree.leaves(jax.eval_shape(prepare, *given))
        size = sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
        different, of_text = np.unique(self._lengths, return_inverse=True)
        cost = program.functions.pair_bytes
        pair = np.array([cost(images.longest, int(length)) for length in different])
        device = next(
            d for d in program.mesh.devices.flat if d.process_index == jax.process_index()
        )
        memory = (device.memory_stats() or {}).get("bytes_limit", _UNKNOWN_MEMORY) // _SHARE
        most_texts = min(_TEXTS_PER_IMAGE, _next_power_of_two(texts))
        fitting = np.array([_power_of_two(min(memory // each, most_texts)) for each in pair])
        most = _power_of_two(min(memory // (size + (fitting * pair).max()), _MOST_IMAGES))
        return min(most, program.share(self._shape[0])), fitting[of_text]

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
        for length in np.unique(lengths).tolist():
            own = lengths == length
            at, places = (slots[0][own], slots[1][own]), self._place[captions[own]]
            leaves = map(jax.tree.leaves, (block, self._texts[length]))
            for into, texts in zip(*leaves, strict=True):
                into[(*at, *map(slice, texts.shape[1:]))] = texts[places]
        return block

    def _prepare_texts(self, length: int) -> Any:
        """The prepared texts of a length, on the host."""
        program, at = self._program, np.flatnonzero(self._lengths == length)
        self._place[at] = np.arange(len(at))
        size, parts = program.mesh.size * min(program.share(len(at)), _MOST_IMAGES), []
        for start in range(0, len(at), size):
            found = self._prepare("text", at[start : start + size], size, length)
            parts.append(mesh_lib.to_host(found, program.mesh))
        return jax.tree.map(lambda *arrays: np.concatenate(arrays)[: len(at)], *parts)

    def _prepare(self, modality: str, rows: np.ndarray, size: int, length: int) -> Any:
        """Prepared items at `rows`, padded to `length` tokens and repeated up to `size`."""
        items, program = self._tokens[modality][mesh_lib.pad_rows(rows, size)], self._program
        placed = program.put((*items.pad(length), items.extras))
        return program.prepare(modality, self._bound(), placed)


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


def _padded_lengths(captions: RaggedTokens, pairs: int) -> np.ndarray:
    """Tokens of every caption, rounded up, so that few shapes are compiled; int [M]."""
    lengths, steps = np.maximum(captions.lengths, 1), np.array(_LENGTHS)
    if pairs >= _MANY_PAIRS:
        steps = 1 << np.maximum(np.frexp(lengths - 0.5)[1] - _DIGITS, 1)
    return np.minimum(-(-lengths // steps) * steps, captions.longest)


def _common_lengths(images: RaggedTokens) -> np.ndarray:
    """Tokens of every image, rounded up to the next of a few lengths that are common; int [N]."""
    lengths = np.maximum(images.lengths, 1)
    shares = np.arange(1, _IMAGE_LENGTHS + 1) / _IMAGE_LENGTHS
    common = np.unique(np.quantile(lengths, shares, method="higher"))
    return common[np.searchsorted(common, lengths)]

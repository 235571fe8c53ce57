"""Positive pairs by gallery position: two ways to store them, and how labels define them."""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np


@dataclasses.dataclass(frozen=True)
class Ragged:
    """Row i holds `values[offsets[i]:offsets[i + 1]]` (compressed sparse rows).

    Attributes:
      offsets: int64 [Q + 1], starts at 0, never decreases.
      values: int32 [P], not negative; ascending and distinct within a row when built by
        `from_pairs`.
    """

    offsets: np.ndarray
    values: np.ndarray

    @classmethod
    def from_pairs(cls, rows: np.ndarray, values: np.ndarray, num_rows: int) -> "Ragged":
        """Groups (row, value) pairs by row; duplicate pairs are kept once.

        Args:
          rows: integers [P] in 0..num_rows-1, in any order.
          values: integers [P], not negative.
          num_rows: Q; rows without a pair are empty.
        """
        stride = int(values.max()) + 1 if len(values) else 1
        keys = np.unique(np.asarray(rows, np.int64) * stride + values)
        counts = np.bincount(keys // stride, minlength=num_rows)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(offsets, (keys % stride).astype(np.int32))

    @functools.cached_property
    def lengths(self) -> np.ndarray:
        """int64 [Q], number of values in every row."""
        return np.diff(self.offsets)

    def contains(self, rows: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Whether items are in their rows, bool; `rows` and `items` broadcast; -1 is in no row."""
        return self.find(rows, items) >= 0

    def find(self, rows: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Returns the positions of items of rows in `values`, int64; -1 for items of other rows.

        `rows` and `items` broadcast. The values of every row must ascend.
        """
        keys, stride = self._keys
        items = np.asarray(items)
        # One key per pair; an item beyond the stride would give the key of another row's pair.
        wanted = np.asarray(rows, np.int64) * stride + items
        at = np.searchsorted(keys[:-1], wanted)
        return np.where((keys[at] == wanted) & (items >= 0) & (items < stride), at, -1)

    def expand(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the position in `rows` of every value of these rows, and the value; int [V]."""
        lengths = self.lengths[rows]
        at = np.repeat(np.arange(len(rows)), lengths)
        within = np.arange(len(at)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return at, self.values[self.offsets[rows[at]] + within]

    @functools.cached_property
    def _keys(self) -> tuple[np.ndarray, int]:
        """Ascending keys row * stride + value, ending with one that is not a pair; the stride."""
        stride = int(self.values.max(initial=0)) + 1
        keys = np.repeat(np.arange(len(self.lengths)), self.lengths) * stride + self.values
        return np.concatenate([np.sort(keys), [-1]]), stride


@dataclasses.dataclass(frozen=True)
class Relation:
    """Item n is a positive of query q if their groups are related.

    Plausible matches relate 11.8 million image-caption pairs, but only through the images' category
    vectors, of which there are about two thousand.

    Attributes:
      query_group: int32 [Q].
      gallery_group: int32 [N].
      related: bool [G, H], by group of the query and group of the gallery item.
    """

    query_group: np.ndarray
    gallery_group: np.ndarray
    related: np.ndarray

    @functools.cached_property
    def lengths(self) -> np.ndarray:
        """int64 [Q], number of positives of every query."""
        sizes = np.bincount(self.gallery_group, minlength=self.related.shape[1])
        # float32 counts exactly up to 2 ** 24 items, and its products are fast.
        counts = self.related.astype(np.float32) @ sizes.astype(np.float32)
        return counts.astype(np.int64)[self.query_group]

    def contains(self, rows: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Whether items are positives of their queries, see `Ragged.contains`."""
        items = np.asarray(items)
        groups = self.query_group[rows], self.gallery_group[items]
        return self.related[groups] & (items >= 0)


def own_pairs(
    image_of_caption: np.ndarray, group: np.ndarray, text: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Returns the positives that follow from a captioned dataset's own pairs.

    A text is a positive of every image that has it, and of the other texts of these images. A
    caption with only copies of its text beside it is no query for captions.

    Args:
      image_of_caption: int [M], position of every caption's image; -1 if it is not in the gallery.
      group: int [M], equal for captions of one image.
      text: int [M], equal for captions that are one text; None if each is a text of its own.

    Returns:
      Direction -> int [2, P], (query, gallery) positions.
    """
    caption = np.arange(len(group))
    text = caption if text is None else text
    texts, images = int(text.max()) + 1, int(group.max()) + 1
    images_of, captions_of = (Ragged.from_pairs(text, each, texts) for each in (group, caption))
    position = np.empty(images, np.int64)
    position[group] = image_of_caption
    at, shown = images_of.expand(text)
    i2t = np.stack([position[shown], at])
    i2t = i2t[:, i2t[0] >= 0]
    at, other = Ragged.from_pairs(group, text, images).expand(images_of.values)
    beside = Ragged.from_pairs(np.repeat(np.arange(texts), images_of.lengths)[at], other, texts)
    asking, other = beside.expand(text)
    at, found = captions_of.expand(other)
    t2t = np.stack([asking[at], found])
    t2t = t2t[:, (t2t[0] != t2t[1]) & (beside.lengths[text[t2t[0]]] > 1)]
    return {"i2t": i2t, "t2i": i2t[::-1], "t2t": t2t}


def plausible_matches(
    queries: np.ndarray,
    gallery: np.ndarray,
    zetas: Sequence[int],
    folds: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[Relation, ...]:
    """Returns a relation for each largest Hamming distance in `zetas`.

    Items match if their category vectors differ in at most zeta places. An item without a category
    matches nothing (as in PCME's evaluation and in the files released with ECCV Caption, which
    leave out the 48 such images of the COCO test split).

    Args:
      queries: uint8 0/1 [Q, C], categories of every query's image.
      gallery: uint8 0/1 [N, C], categories of every gallery item's image.
      zetas: distances in ascending order.
      folds: int [Q] and int [N] from 0 to 255, folds of queries and gallery items: items of
        different folds do not match. None for a single fold.
    """
    if folds is None:
        folds = np.zeros(len(queries), np.uint8), np.zeros(len(gallery), np.uint8)
    query_vectors, query_folds, query_group = _distinct(queries, folds[0])
    gallery_vectors, gallery_folds, gallery_group = _distinct(gallery, folds[1])
    a, b = query_vectors.astype(np.float32), gallery_vectors.astype(np.float32)
    left, right = a.sum(1)[:, None], b.sum(1)[None, :]
    distance = left + right - 2 * (a @ b.T)  # Small integers are exact in float32.
    distance[(left == 0) | (right == 0)] = np.inf
    distance[query_folds[:, None] != gallery_folds] = np.inf
    return tuple(Relation(query_group, gallery_group, distance <= zeta) for zeta in zetas)


def _distinct(vectors: np.ndarray, folds: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distinct rows [G, C] of every fold, their folds [G], and the index [N] among them."""
    packed = np.column_stack([np.packbits(vectors, axis=1), folds.astype(np.uint8)])
    keys = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()  # Compared as single values.
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    return vectors[first], folds[first], group.ravel().astype(np.int32)

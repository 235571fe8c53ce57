"""Captions grouped by image and indexed by position, for every step of the scheme."""

import dataclasses
import functools

import numpy as np


@dataclasses.dataclass(frozen=True)
class Groups:
    """The images of a split, each with the group of its captions.

    Items are identified by position: image n is `image_ids[n]`, and its captions are `sizes[n]`
    neighboring entries of `caption_ids`, which has those of image 0 first.

    Attributes:
      image_ids: int64 [N].
      caption_ids: int64 [M].
      sizes: int64 [N], number of captions of every image, at least 1.
    """

    image_ids: np.ndarray
    caption_ids: np.ndarray
    sizes: np.ndarray

    def __len__(self) -> int:
        return len(self.image_ids)

    @functools.cached_property
    def starts(self) -> np.ndarray:
        """Position of the first caption of every image, int64 [N]."""
        return np.cumsum(self.sizes) - self.sizes

    @functools.cached_property
    def owners(self) -> np.ndarray:
        """The image of every caption, int64 [M]."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @functools.cached_property
    def places(self) -> np.ndarray:
        """The position of every caption in its group, int64 [M]."""
        return np.arange(len(self.owners)) - self.starts[self.owners]

    def find(self, kind: str, ids: np.ndarray) -> np.ndarray:
        """Positions of ids, int64 in the same shape; -1 for ids of another split.

        Args:
          kind: "caption" or "image".
          ids: integers.
        """
        return positions(self.caption_ids if kind == "caption" else self.image_ids, ids)

    def draw(self, images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A caption of each image, drawn uniformly, in the same shape."""
        return self.starts[images] + rng.integers(self.sizes[images])

    def means(self, vectors: np.ndarray) -> np.ndarray:
        """The mean of the caption vectors of every image, [M, D] -> [N, D]."""
        sums = np.add.reduceat(vectors, self.starts, axis=0)
        return sums / self.sizes[:, None].astype(vectors.dtype)

    def take(self, images: np.ndarray) -> "Groups":
        """Returns the groups of only these images.

        Args:
          images: bool [N].
        """
        kept = images[self.owners]
        return Groups(self.image_ids[images], self.caption_ids[kept], self.sizes[images])


def positions(known: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Positions of ids among the known ones, int64 in the same shape; -1 for unknown ids."""
    order = np.argsort(known)
    place = np.searchsorted(known, ids, sorter=order)
    found = order[np.minimum(place, len(known) - 1)]
    return np.where(known[found] == ids, found, -1)


def number_groups(images: int, captions: int) -> Groups:
    """Groups of equal size whose ids are positions: the captions of image i are C i to C i + C - 1.

    Args:
      images: number N of images.
      captions: number C of captions per image.
    """
    return Groups(
        np.arange(images), np.arange(images * captions), np.full(images, captions, np.int64)
    )


def make_groups(caption_ids: np.ndarray, caption_image_ids: np.ndarray) -> Groups:
    """Groups captions by image; both are sorted by id, regardless of the order of the arguments.

    Args:
      caption_ids: int [M], all different.
      caption_image_ids: int [M], the image of each.
    """
    image_ids, sizes = np.unique(caption_image_ids, return_counts=True)
    order = np.lexsort((caption_ids, caption_image_ids))
    return Groups(image_ids.astype(np.int64), caption_ids[order].astype(np.int64), sizes)

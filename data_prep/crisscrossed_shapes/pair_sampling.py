"""Plain encoders for the sampling scheme of Crisscrossed Captions, and its caption-image pairs.

The scheme itself is `data_prep.sampling.scheme`. Images and captions are given by position; the
captions of image i are 5 i to 5 i + 4.
"""

import itertools
from collections.abc import Sequence

import numpy as np

from data_prep.crisscrossed_shapes.captions import DESCRIBERS

INTRASIM_PER_IMAGE = 4  # caption-image pairs found through ratings; 3.9 and 4.0 in the release


def word_vectors(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Two plain encoders that replace the paper's sentence encoder and word-vector average.

    Args:
      texts: N captions.

    Returns:
      float32 [N, V] of TF-IDF weights and float32 [N, V] of word counts, V words.
    """
    words = [text.lower().replace(",", " ").replace(".", " ").split() for text in texts]
    columns = {word: k for k, word in enumerate(sorted({word for text in words for word in text}))}
    counts = np.zeros((len(texts), len(columns)), np.float32)
    for row, text in zip(counts, words, strict=True):
        for word in text:
            row[columns[word]] += 1
    frequency = (counts > 0).mean(axis=0)
    return counts * -np.log(frequency), counts


def coarse_pixels(images: np.ndarray, cells: int = 8) -> np.ndarray:
    """A plain image encoder: mean colors of a coarse grid, minus the mean over all images.

    Args:
      images: uint8 [N, H, W, 3]; H and W are multiples of `cells`.
      cells: grid cells along each side.

    Returns:
      float32 [N, cells * cells * 3].
    """
    number, height, width, _ = images.shape
    grid = images.reshape(number, cells, height // cells, cells, width // cells, 3)
    means = grid.mean(axis=(2, 4), dtype=np.float32).reshape(number, -1)
    return means - means.mean(axis=0)


def cross_pairs(
    pairs_of_images: np.ndarray,
    image_scores: np.ndarray,
    pairs_of_captions: np.ndarray,
    caption_scores: np.ndarray,
    number: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Caption-image pairs (c2i_intrasim) made from rated pairs, starting with the best rated.

    Version 1 of this dataset uses this; `data_prep.sampling.scheme` is closer to the released
    pairs. Image pairs and caption pairs alternate. An image pair yields one image and a random
    caption of the other; a caption pair yields one caption and the image of the other; the
    direction is random.

    Args:
      pairs_of_images: int [P, 2] with `image_scores` [P].
      image_scores: ratings of the image pairs.
      pairs_of_captions: int [Q, 2] of captions of different images.
      caption_scores: ratings of the caption pairs, [Q].
      number: number of pairs to return; fewer if the sources run out.
      rng: draws captions and directions.

    Returns:
      int [number, 2] as (caption, image), without repetition.
    """
    by_images = rng.permuted(pairs_of_images[np.argsort(-image_scores, kind="stable")], axis=1)
    drawn = by_images[:, 0] * DESCRIBERS + rng.integers(DESCRIBERS, size=len(by_images))
    by_captions = rng.permuted(
        pairs_of_captions[np.argsort(-caption_scores, kind="stable")], axis=1
    )
    sources = (
        np.stack([drawn, by_images[:, 1]], axis=1),
        np.stack([by_captions[:, 0], by_captions[:, 1] // DESCRIBERS], axis=1),
    )
    turns = itertools.chain.from_iterable(itertools.zip_longest(*map(np.ndarray.tolist, sources)))
    unique = dict.fromkeys(tuple(pair) for pair in turns if pair)
    return np.array(list(unique)[:number])

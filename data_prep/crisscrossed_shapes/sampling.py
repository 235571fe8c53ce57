"""Which pairs are rated: the sampling scheme of Crisscrossed Captions (section 3 of its paper).

Pairs within a modality are picked through the other modality, so that they are neither random nor
chosen by what will be measured. Images and captions are given by position; the captions of image
i are 5 i to 5 i + 4.
"""

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from data_prep.crisscrossed_shapes.captions import DESCRIBERS

NEIGHBOURS = 5  # per image or caption group and encoder
INTRASIM_PER_IMAGE = 4  # caption-image pairs found through ratings; 3.9 and 4.0 in the release


def word_vectors(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Two plain encoders in the place of the paper's sentence encoder and word-vector average.

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
    """A plain image encoder: mean colours of a coarse grid, less the mean over all images.

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


def nearest(vectors: np.ndarray) -> np.ndarray:
    """The most similar other items by cosine, int [N, NEIGHBOURS]."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    similarity = unit @ unit.T
    np.fill_diagonal(similarity, -np.inf)
    return np.argsort(-similarity, axis=1, kind="stable")[:, :NEIGHBOURS]


def image_pairs(group_vectors: Iterable[np.ndarray]) -> np.ndarray:
    """Image pairs (i2i_csim) picked through their captions, int [P, 2].

    Args:
      group_vectors: for every caption encoder the mean vectors of the caption groups, [N, D].

    Returns:
      Every image with its nearest by either encoder; without repetition in the same order.
    """
    pairs = [
        (image, int(other))
        for vectors in group_vectors
        for image, row in enumerate(nearest(vectors))
        for other in row
    ]
    return np.array(list(dict.fromkeys(pairs)))


def caption_pairs(image_vectors: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Caption pairs (c2c_isim) picked through their images, int [P, 2].

    Args:
      image_vectors: [N, D].
      rng: draws one caption from each of the two groups, anew for every pair.

    Returns:
      One pair for every two images of which either is among the other's nearest.
    """
    groups = {
        tuple(sorted((image, int(other)))): (image, int(other))
        for image, row in enumerate(nearest(image_vectors))
        for other in row
    }
    pairs = np.array(list(groups.values()))
    return pairs * DESCRIBERS + rng.integers(DESCRIBERS, size=pairs.shape)


def cocaption_cycles(images: int, rng: np.random.Generator) -> np.ndarray:
    """Pairs within each caption group (c2c_cocaption): a cycle in random order, int [5 N, 2]."""
    order = rng.permuted(np.tile(np.arange(DESCRIBERS), (images, 1)), axis=1)
    first = order + np.arange(images)[:, None] * DESCRIBERS
    return np.stack([first, np.roll(first, -1, axis=1)], axis=-1).reshape(-1, 2)


def original_pairs(images: int) -> np.ndarray:
    """Every caption with its own image (c2i_original), int [5 N, 2] as (caption, image)."""
    captions = np.arange(images * DESCRIBERS)
    return np.stack([captions, captions // DESCRIBERS], axis=1)


def cross_pairs(
    pairs_of_images: np.ndarray,
    image_scores: np.ndarray,
    pairs_of_captions: np.ndarray,
    caption_scores: np.ndarray,
    number: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Caption-image pairs (c2i_intrasim) out of rated pairs, the best rated first.

    Image pairs and caption pairs take turns. An image pair gives one image and a random caption of
    the other; a caption pair one caption and the image of the other; which way round is random.

    Args:
      pairs_of_images: int [P, 2] with `image_scores` [P].
      image_scores: ratings of the image pairs.
      pairs_of_captions: int [Q, 2] of captions of different images.
      caption_scores: ratings of the caption pairs, [Q].
      number: how many pairs are wanted; fewer if the sources run out.
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

"""Which pairs are rated: the sampling scheme of Crisscrossed Captions (section 3 of its paper).

Pairs within a modality are chosen through the other modality, so that they are neither random nor
chosen by the quantity to be measured. All items are given by their position in `Groups`.
"""

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from data_prep.sampling.groups import Groups

# Pairs that every image takes from the rated pairs of one kind; the released files hold 3.9
# (validation) and 4.0 (test) caption-image pairs per image from two kinds.
PER_SOURCE = 2


def image_pairs(neighbors: Iterable[np.ndarray]) -> np.ndarray:
    """Image pairs (i2i_csim) chosen through their captions.

    Args:
      neighbors: for every caption encoder, the nearest other groups of every group, int [N, K].

    Returns:
      int [P, 2]: every image with its nearest neighbors by any encoder, as (image, neighbor); no
      ordered pair is repeated, but both orders may occur.
    """
    return np.array(list(dict.fromkeys(_edges(neighbors))))


def joined_images(neighbors: Iterable[np.ndarray]) -> np.ndarray:
    """Pairs of images whose captions will be compared (c2c_isim).

    Args:
      neighbors: for every image encoder, the nearest other images of every image, int [N, K].

    Returns:
      int [P, 2], each pair of images once if either is among the other's nearest.
    """
    return np.array(list({tuple(sorted(edge)): edge for edge in _edges(neighbors)}.values()))


def captions_in_turn(images: np.ndarray, groups: Groups) -> np.ndarray:
    """One caption for each image of a pair, chosen as in the released pairs (c2c_isim).

    The k-th pair with the same first image takes the k-th caption of both images, and starts over
    after the last caption. The paper calls this a random draw, but all 38,054 released pairs follow
    this rule, with the captions of an image in the order of their ids; a draw (`Groups.draw`) would
    have used 19,636 different captions in the test split (standard deviation 48) and not the 20,818
    in the files.

    Args:
      images: int [P, 2].
      groups: groups of the captions.

    Returns:
      int [P, 2].
    """
    order = np.argsort(images[:, 0], kind="stable")
    first = images[order, 0]
    turn = np.empty(len(images), np.int64)
    turn[order] = np.arange(len(images)) - np.searchsorted(first, first)
    return groups.starts[images] + turn[:, None] % groups.sizes[images]


def _edges(neighbors: Iterable[np.ndarray]) -> Iterable[tuple[int, int]]:
    for matrix in neighbors:
        for item, row in enumerate(matrix.tolist()):
            for other in row:
                yield item, other


def cocaption_cycles(groups: Groups, rng: np.random.Generator) -> np.ndarray:
    """Pairs within each caption group (c2c_cocaption): a cycle in random order.

    Returns:
      int [P, 2]. Every caption is first once and second once; a single caption has no pair, and two
      captions give one pair.
    """
    pairs = []
    for size in np.unique(groups.sizes[groups.sizes > 1]).tolist():
        starts = groups.starts[groups.sizes == size]
        order = rng.permuted(np.tile(np.arange(size), (len(starts), 1)), axis=1)
        first = order + starts[:, None]
        cycle = np.stack([first, np.roll(first, -1, axis=1)], axis=-1)
        pairs.append(cycle[:, : 1 if size == 2 else size].reshape(-1, 2))
    return np.concatenate(pairs) if pairs else np.zeros((0, 2), np.int64)


def original_pairs(groups: Groups) -> np.ndarray:
    """Every caption with its own image (c2i_original), int [M, 2] as (caption, image)."""
    return np.stack([np.arange(len(groups.caption_ids)), groups.owners], axis=1)


def cross_pairs(
    sources: Sequence[tuple[np.ndarray, np.ndarray]],
    groups: Groups,
    rng: np.random.Generator,
    per_source: int = PER_SOURCE,
) -> np.ndarray:
    """Caption-image pairs (c2i_intrasim) made from rated pairs of images.

    Every image takes its best rated pairs from each source. A pair (j, k) gives a random caption of
    k with image j; pairs taken before are skipped. The paper does not describe this, but the
    released pairs show it: in the test split every image is in at least 3 of them (4 except for
    two), 11,612 of the 11,616 that come from one row of one source have the caption of that
    row's second item and the image of its first, the rated caption itself is used as often as
    expected by chance (20 %), and of caption pairs that are the single best rated one of an image,
    on the scale's integers, 99.5 % are used. A threshold on all pairs would leave images without
    any.

    Args:
      sources: rated pairs, first those of captions: images int [P, 2] and ratings [P].
      groups: groups of the captions.
      rng: draws captions.
      per_source: number of pairs that an image takes from one source; fewer if it runs out.

    Returns:
      int [Q, 2] as (caption, image), without repetition.
    """
    taken: dict[tuple[int, int], None] = {}
    for pairs, scores in sources:
        # Each row twice, once for each end.
        row = np.tile(np.arange(len(pairs)), 2)
        image = pairs.T.ravel()
        order = np.lexsort((row, -scores[row], image))
        candidates = zip(
            image[order].tolist(),
            groups.draw(pairs[row[order], 1], rng).tolist(),
            pairs[row[order], 0].tolist(),
            strict=True,
        )
        for _, own in itertools.groupby(candidates, key=lambda candidate: candidate[0]):
            fresh = (pair for _, *pair in own if tuple(pair) not in taken)
            taken.update(dict.fromkeys(map(tuple, itertools.islice(fresh, per_source))))
    return np.array(list(taken), np.int64).reshape(-1, 2)

"""Five simulated raters and the pairs that they rate, as in Crisscrossed Captions."""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from data_prep.crisscrossed_shapes import graph_similarity
from data_prep.crisscrossed_shapes.captions import DESCRIBERS, SceneCaption
from data_prep.crisscrossed_shapes.scene_graph import Scene, full_content
from data_prep.sampling import scheme
from data_prep.sampling.groups import number_groups
from data_prep.sampling.nearest_neighbors import nearest

RATERS = 5
INTRASIM_PER_IMAGE = 4  # caption-image pairs found through ratings; 3.9 and 4.0 in the release
_STEP = 0.1  # step of the raters' slider

# Spread of a rater's ratings of one pair and of the raters' biases: caption pairs are the hardest
# to rate and caption-image pairs the easiest (figure 2 of the paper's appendix).
_NOISE = {"sts": 0.7, "sis": 0.5, "sits": 0.35}
_LEANING = {"sts": 0.3, "sis": 0.2, "sits": 0.1}

# Ratings are 5 x similarity ** power.
_POWER = {"sts": 0.6, "sis": 0.8, "sits": 1.3}


@dataclasses.dataclass(frozen=True)
class SimulatedRatings:
    """Pairs of one rating from one sampling method.

    Attributes:
      rating: `sts` (caption, caption), `sis` (image, image) or `sits` (caption, image).
      method: sampling method.
      pairs: int [P, 2], positions of captions and images in the split.
      rater_scores: float32 [P, 5], 0 to 5.
    """

    rating: str
    method: str
    pairs: np.ndarray
    rater_scores: np.ndarray

    @property
    def scores(self) -> np.ndarray:
        """Mean over raters, float32 [P]."""
        return self.rater_scores.mean(axis=1)


def rate(similarities: np.ndarray, rating: str, rng: np.random.Generator) -> np.ndarray:
    """Five raters' ratings of similarities from 0 to 1, float32 [P, 5] in steps of a tenth.

    The first rater is the strictest and the last the most lenient; each also makes an independent
    error on every pair, and all ratings are clipped to the scale.
    """
    meant = 5 * similarities[:, None] ** _POWER[rating]
    leaning = _LEANING[rating] * np.linspace(-1, 1, RATERS)
    noise = rng.normal(scale=_NOISE[rating], size=(len(similarities), RATERS))
    said = np.clip(meant + leaning + noise, 0, 5)
    return (np.round(said / _STEP) * _STEP).astype(np.float32)


def rate_split(
    scenes: Sequence[Scene],
    captions: Sequence[Sequence[SceneCaption]],
    images: np.ndarray,
    rng: np.random.Generator,
) -> Iterator[SimulatedRatings]:
    """Samples and rates the pairs of one split.

    Args:
      scenes: N scenes.
      captions: the five captions of each scene.
      images: uint8 [N, H, W, 3], the scenes as rendered.
      rng: source of every draw.
    """
    flat = [caption for group in captions for caption in group]
    said = graph_similarity.encode([caption.content for caption in flat])
    shown = graph_similarity.encode([full_content(scene) for scene in scenes])

    def rated(rating: str, method: str, pairs: np.ndarray) -> SimulatedRatings:
        left, right = pairs.T
        if rating == "sts":
            similar = graph_similarity.resemblance(said[left], said[right])
        elif rating == "sis":
            similar = graph_similarity.resemblance(shown[left], shown[right])
        else:
            similar = graph_similarity.fit(said[left], shown[right])
        return SimulatedRatings(rating, method, pairs, rate(similar, rating, rng))

    groups = number_groups(len(scenes), DESCRIBERS)
    through_captions = [
        nearest(groups.means(vectors))
        for vectors in word_vectors([caption.text for caption in flat])
    ]
    through_images = [nearest(coarse_pixels(images))]
    i2i = rated("sis", "i2i_csim", scheme.image_pairs(through_captions))
    joined = scheme.joined_images(through_images)
    isim = rated("sts", "c2c_isim", groups.draw(joined, rng))
    cycles = scheme.cocaption_cycles(groups, rng)
    cross = cross_pairs(i2i, isim, INTRASIM_PER_IMAGE * len(scenes), rng)
    yield rated("sts", "c2c_cocaption", cycles)
    yield isim
    yield i2i
    yield rated("sits", "c2i_intrasim", cross)
    yield rated("sits", "c2i_original", scheme.original_pairs(groups))


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
    images: SimulatedRatings, captions: SimulatedRatings, number: int, rng: np.random.Generator
) -> np.ndarray:
    """Caption-image pairs (c2i_intrasim) made from rated pairs, starting with the best rated.

    Version 1 of this dataset uses this; `data_prep.sampling.scheme` is closer to the released
    pairs. Image pairs and caption pairs alternate. An image pair yields one image and a random
    caption of the other; a caption pair yields one caption and the image of the other; the
    direction is random.

    Args:
      images: rated pairs of images.
      captions: rated pairs of captions of different images.
      number: number of pairs to return; fewer if the sources run out.
      rng: draws captions and directions.

    Returns:
      int [number, 2] as (caption, image), without repetition.
    """
    by_images = rng.permuted(images.pairs[np.argsort(-images.scores, kind="stable")], axis=1)
    drawn = by_images[:, 0] * DESCRIBERS + rng.integers(DESCRIBERS, size=len(by_images))
    by_captions = rng.permuted(captions.pairs[np.argsort(-captions.scores, kind="stable")], axis=1)
    sources = (
        np.stack([drawn, by_images[:, 1]], axis=1),
        np.stack([by_captions[:, 0], by_captions[:, 1] // DESCRIBERS], axis=1),
    )
    turns = itertools.chain.from_iterable(itertools.zip_longest(*map(np.ndarray.tolist, sources)))
    unique = dict.fromkeys(tuple(pair) for pair in turns if pair)
    return np.array(list(unique)[:number])

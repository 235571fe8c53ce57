"""Samples pairs from embeddings or ratings, and finds the positions of pairs that were read."""

from collections.abc import Mapping, Sequence

import numpy as np

from data_prep.cxc.rating_files import KINDS, file_name
from data_prep.sampling import scheme
from data_prep.sampling.groups import Groups
from data_prep.sampling.nearest_neighbors import NEIGHBORS, nearest
from xmodal.apps.analysis.ratings.rated_pairs import RatedPairs, format_rows
from xmodal.core.errors import UnexpectedFilesError

# Sampling method -> rating, in the order of the scheme.
METHODS = {
    "c2c_isim": "sts",
    "c2c_cocaption": "sts",
    "i2i_csim": "sis",
    "c2i_intrasim": "sits",
    "c2i_original": "sits",
}
# Digits of cosines: in float64, the sixteenth digit is noise that differs between machines.
_DECIMALS = 12


def sample_within(
    groups: Groups,
    image_vectors: Sequence[np.ndarray],
    group_vectors: Sequence[np.ndarray],
    *,
    seed: int,
    neighbors: int = NEIGHBORS,
    drawn: bool = False,
) -> dict[str, np.ndarray]:
    """Pairs within a modality, to be rated first.

    Args:
      groups: groups of N images.
      image_vectors: [N, D] of every image encoder; if empty, there are no pairs of captions of
        different images.
      group_vectors: [N, D] of every caption encoder; if empty, there are no pairs of images.
      seed: seed of the draws; leaving out one kind of pairs does not change the others.
      neighbors: number of neighbors from every encoder.
      drawn: whether to draw the captions of `c2c_isim` at random instead of in turn.

    Returns:
      Sampling method -> int [P, 2] by position.
    """
    pairs = {}
    if image_vectors:
        images = scheme.joined_images(nearest(v, neighbors, _DECIMALS) for v in image_vectors)
        pairs["c2c_isim"] = (
            groups.draw(images, np.random.default_rng((seed, 0)))
            if drawn
            else scheme.captions_in_turn(images, groups)
        )
    pairs["c2c_cocaption"] = scheme.cocaption_cycles(groups, np.random.default_rng((seed, 1)))
    if group_vectors:
        pairs["i2i_csim"] = scheme.image_pairs(
            nearest(v, neighbors, _DECIMALS) for v in group_vectors
        )
    return pairs


def sample_across(
    groups: Groups, rated: Mapping[str, RatedPairs], *, seed: int, per_source: int
) -> dict[str, np.ndarray]:
    """Caption-image pairs, made from rated pairs within the modalities.

    Args:
      groups: groups of the captions.
      rated: rating -> rated pairs; `sts` or `sis`, or both.
      seed: seed of the draws.
      per_source: number of pairs that every image takes from each kind of ratings.

    Returns:
      Sampling method -> int [P, 2] by position.
    """
    sources = []
    if "sts" in rated:
        isim = rated["sts"].by_method().get("c2c_isim")
        if isim is not None:
            captions = locate(rated["sts"], groups)[isim]
            sources.append((groups.owners[captions], rated["sts"].scores[isim]))
    if "sis" in rated:
        sources.append((locate(rated["sis"], groups), rated["sis"].scores))
    if not sources:
        raise UnexpectedFilesError(
            "there are no ratings to use: caption-image pairs come from rated pairs of images "
            "(sis) and of captions of different images (sts, c2c_isim)"
        )
    rng = np.random.default_rng((seed, 2))
    return {
        "c2i_intrasim": scheme.cross_pairs(sources, groups, rng, per_source),
        "c2i_original": scheme.original_pairs(groups),
    }


def locate(pairs: RatedPairs, groups: Groups) -> np.ndarray:
    """Returns the positions in the groups of a split of pairs read from files, int64 [P, 2]."""
    kinds = KINDS[pairs.rating]
    ids = np.stack([pairs.left_ids, pairs.right_ids], axis=1)
    found = np.stack([groups.find(k, i) for k, i in zip(kinds, ids.T, strict=True)], axis=1)
    lost = (found < 0).any(axis=1)
    if lost.any():
        row = lost.argmax()
        side = int(found[row, 0] >= 0)
        raise UnexpectedFilesError(
            f"{lost.sum():,} of the {len(ids):,} {pairs.rating} pairs name items that are not of "
            f"this split, the first is {kinds[side]} {ids[row, side]}; is it another split?"
        )
    return found


def located_by_method(rated: Mapping[str, RatedPairs], groups: Groups) -> dict[str, np.ndarray]:
    """Returns sampling method -> its pairs by position, int [P, 2], for pairs read from files."""
    found: dict[str, np.ndarray] = {}
    for pairs in rated.values():
        located = locate(pairs, groups)
        found |= {method: located[rows] for method, rows in pairs.by_method().items()}
    return found


def file_contents(split: str, groups: Groups, sampled: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Files of pairs to be rated, one per rating.

    Args:
      split: split of the groups.
      groups: groups of the captions.
      sampled: sampling method -> int [P, 2] by position.

    Returns:
      File name -> content.
    """
    ids = {"caption": groups.caption_ids, "image": groups.image_ids}
    by_rating: dict[str, list[tuple[np.ndarray, str]]] = {}
    for method, pairs in sampled.items():
        kinds = KINDS[METHODS[method]]
        named = np.stack([ids[k][side] for k, side in zip(kinds, pairs.T, strict=True)], axis=1)
        by_rating.setdefault(METHODS[method], []).append((named, method))
    return {
        file_name(rating, split): format_rows(
            rating,
            np.concatenate([named for named, _ in parts]),
            np.repeat([method for _, method in parts], [len(named) for named, _ in parts]),
        )
        for rating, parts in by_rating.items()
    }

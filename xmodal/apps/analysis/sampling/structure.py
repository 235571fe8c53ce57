"""Checks sampled or released pairs for the structure that the sampling scheme fixes."""

import collections
from collections.abc import Iterator, Mapping

import numpy as np

from data_prep.sampling.groups import Groups
from xmodal.apps.analysis.sampling.facts import Fact, at_least, count

# Standard deviations of the number of drawn captions beyond which chance is excluded.
_DEVIATIONS = 5


def check_structure(
    pairs: Mapping[str, np.ndarray],
    groups: Groups,
    *,
    neighbors: int,
    drawn: bool = False,
    positive: np.ndarray | None = None,
) -> list[Fact]:
    """Counts the quantities that the scheme fixes.

    Args:
      pairs: sampling method -> int [P, 2], captions and images by position; methods that are not
        in the scheme are ignored.
      groups: groups of the captions.
      neighbors: number of neighbors that each encoder gives an item.
      drawn: whether the captions of `c2c_isim` are drawn at random instead of in turn.
      positive: (caption, image) pairs that are rated as matching, int [Q, 2], if known.

    Returns:
      Facts, in the order in which the scheme makes the pairs.
    """
    least = min(neighbors, len(groups) - 1)
    facts: list[Fact] = []
    if (cycles := pairs.get("c2c_cocaption")) is not None:
        facts += _check_cycles(cycles, groups)
    if (isim := pairs.get("c2c_isim")) is not None:
        facts += _check_caption_pairs(isim, groups, least, drawn)
    if (csim := pairs.get("i2i_csim")) is not None:
        facts += _check_image_pairs(csim, least)
    if (original := pairs.get("c2i_original")) is not None:
        facts += _check_original(original, groups)
    if (cross := pairs.get("c2i_intrasim")) is not None:
        facts += _check_cross(cross, isim, csim, groups)
    if positive is not None and original is not None:
        union = len(np.unique(np.concatenate([positive, original]), axis=0))
        facts.append(count("c2i_original", "original or rated as matching", union))
    return facts


def unordered(pairs: np.ndarray) -> np.ndarray:
    """The unordered pairs, each once, int [Q, 2]."""
    return np.unique(np.sort(pairs, axis=1), axis=0)


def _repeated(method: str, pairs: np.ndarray) -> Fact:
    repeated = len(pairs) - len(np.unique(pairs, axis=0))
    return count(method, "repeated in the same order", repeated, 0)


def _check_cycles(pairs: np.ndarray, groups: Groups) -> Iterator[Fact]:
    method = "c2c_cocaption"
    in_cycles = groups.sizes > 2
    captions = int(groups.sizes[in_cycles].sum())
    yield count(method, "pairs", len(pairs), captions + int(np.sum(groups.sizes == 2)))
    owners = groups.owners[pairs]
    yield count(method, "pairs across images", int(np.sum(owners[:, 0] != owners[:, 1])), 0)
    number = len(groups.caption_ids)
    once = [np.bincount(side, minlength=number) == 1 for side in pairs.T]
    members = in_cycles[groups.owners]
    both = int(np.sum(once[0] & once[1] & members))
    yield count(method, "captions once first and once second", both, captions)
    yield count(
        method, "images whose captions form one cycle", _cycles(pairs, groups), int(in_cycles.sum())
    )


def _cycles(pairs: np.ndarray, groups: Groups) -> int:
    """Images with more than two captions, all connected by one cycle."""
    successors = dict(pairs.tolist())
    starts, sizes = groups.starts.tolist(), groups.sizes.tolist()
    return sum(
        _is_cycle(successors, range(start, start + size))
        for start, size in zip(starts, sizes, strict=True)
        if size > 2
    )


def _is_cycle(successors: Mapping[int, int], members: range) -> bool:
    walk, here = [], members[0]
    for _ in members:
        walk.append(here)
        here = successors.get(here, -1)
    return here == members[0] and sorted(walk) == list(members)


def _check_caption_pairs(
    pairs: np.ndarray, groups: Groups, least: int, drawn: bool
) -> Iterator[Fact]:
    method = "c2c_isim"
    images = groups.owners[pairs]
    yield at_least(method, "pairs", len(pairs), -(-len(groups) * least // 2))
    yield count(method, "pairs within one image", int(np.sum(images[:, 0] == images[:, 1])), 0)
    joined = unordered(images)
    yield count(method, "images joined twice, in any order", len(pairs) - len(joined), 0)
    degrees = np.bincount(joined.ravel(), minlength=len(groups))
    yield at_least(method, "pairs of an image, fewest", int(degrees.min()), least)
    yield count(method, "pairs of an image, most", int(degrees.max()))
    yield from (_check_draw if drawn else _check_turns)(pairs, images, groups)


def _check_turns(pairs: np.ndarray, images: np.ndarray, groups: Groups) -> Iterator[Fact]:
    """Checks that captions take turns over the pairs of the first image."""
    method = "c2c_isim"
    places, sizes = groups.places, groups.sizes[groups.owners]
    same = int(np.sum(places[pairs[:, 0]] == places[pairs[:, 1]]))
    equal_groups = groups.sizes.min() == groups.sizes.max()
    quantity = "captions at the same place of their groups"
    yield count(method, quantity, same, len(pairs) if equal_groups else None)
    first = np.bincount(images[:, 0], minlength=len(groups))
    turns = np.maximum(0, -((places - first[groups.owners]) // sizes))
    wrong = np.bincount(pairs[:, 0], minlength=len(turns)) != turns
    yield count(
        method,
        "first images whose captions take turns",
        int(np.sum(first > 0)) - len(np.unique(groups.owners[wrong])),
        int(np.sum(first > 0)),
    )
    yield count(method, "captions used", len(np.unique(pairs)))


def _check_draw(pairs: np.ndarray, images: np.ndarray, groups: Groups) -> Iterator[Fact]:
    """Checks that captions are drawn at random, independently for every pair."""
    found = len(np.unique(pairs))
    draws = np.bincount(images.ravel(), minlength=len(groups))
    mean, deviation = _drawn_captions(groups.sizes, draws)
    yield Fact(
        "c2c_isim",
        "captions used, drawn for every pair",
        f"{found:,}",
        f"{mean:,.0f} ± {_DEVIATIONS * deviation:,.0f}",
        bool(abs(found - mean) <= _DEVIATIONS * deviation + 0.5),
    )


def _drawn_captions(sizes: np.ndarray, draws: np.ndarray) -> tuple[float, float]:
    """Mean and deviation of the number of captions drawn if draws from a group are uniform."""
    missed = (1 - 1 / sizes) ** draws
    both_missed = np.maximum(1 - 2 / sizes, 0) ** draws
    variance = sizes * missed * (1 - missed) + sizes * (sizes - 1) * (both_missed - missed**2)
    return float(np.sum(sizes * (1 - missed))), float(np.sqrt(max(variance.sum(), 0)))


def _check_image_pairs(pairs: np.ndarray, least: int) -> Iterator[Fact]:
    method = "i2i_csim"
    joined = unordered(pairs)
    yield count(method, "pairs", len(pairs))
    yield count(method, "images with themselves", int(np.sum(pairs[:, 0] == pairs[:, 1])), 0)
    yield _repeated(method, pairs)
    yield count(method, "different pairs, in any order", len(joined))
    yield count(method, "pairs in both orders", len(pairs) - len(joined))
    degrees = np.bincount(joined.ravel())
    yield at_least(method, "pairs of an image, fewest", int(degrees[degrees > 0].min()), least)
    yield count(method, "pairs of an image, most", int(degrees.max()))


def _check_original(pairs: np.ndarray, groups: Groups) -> Iterator[Fact]:
    method = "c2i_original"
    captions = len(groups.caption_ids)
    yield count(method, "pairs", len(pairs), captions)
    own = groups.owners[pairs[:, 0]] == pairs[:, 1]
    found = len(np.unique(pairs[own, 0]))
    yield count(method, "captions with their own image", found, captions)


def _check_cross(
    pairs: np.ndarray, isim: np.ndarray | None, csim: np.ndarray | None, groups: Groups
) -> Iterator[Fact]:
    method = "c2i_intrasim"
    images = np.stack([groups.owners[pairs[:, 0]], pairs[:, 1]], axis=1)
    yield count(method, "pairs", len(pairs))
    yield _repeated(method, pairs)
    yield count(
        method, "captions with their own image", int(np.sum(images[:, 0] == images[:, 1])), 0
    )
    taking_part = np.bincount(images.ravel(), minlength=len(groups))
    yield count(method, "images without any", int(np.sum(taking_part == 0)), 0)
    yield count(method, "pairs of an image on either side, most", int(taking_part.max()))
    yield count(method, "captions used", len(np.unique(pairs[:, 0])))
    if isim is not None and csim is not None:
        yield from _check_sources(images, groups.owners[isim], csim)


def _check_sources(images: np.ndarray, isim: np.ndarray, csim: np.ndarray) -> Iterator[Fact]:
    """Counts the sources of cross pairs; all three are pairs of images."""
    method = "c2i_intrasim"
    by_captions, by_images = (set(map(tuple, unordered(pairs).tolist())) for pairs in (isim, csim))
    sources = collections.Counter(
        (pair in by_captions, pair in by_images)
        for pair in map(tuple, np.sort(images, axis=1).tolist())
    )
    yield count(method, "from caption pairs only", sources[True, False])
    yield count(method, "from image pairs only", sources[False, True])
    yield count(method, "from both", sources[True, True])
    yield count(method, "from neither", sources[False, False], 0)
    rows = collections.Counter(map(tuple, np.concatenate([isim, csim]).tolist()))
    forward = backward = 0
    for caption_of, image in images.tolist():
        if rows[caption_of, image] + rows[image, caption_of] == 1:
            forward += rows[image, caption_of]
            backward += rows[caption_of, image]
    yield count(method, "caption of a row's second item, image of its first", forward)
    yield count(method, "reversed", backward)

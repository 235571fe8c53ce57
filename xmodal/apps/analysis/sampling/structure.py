"""Checks sampled or released pairs for the structure that the sampling scheme fixes."""

import collections
import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from data_prep.sampling.groups import Groups
from xmodal.core.text_table import align_columns


@dataclasses.dataclass(frozen=True)
class Fact:
    """A count.

    Attributes:
      method: sampling method.
      quantity: name of the counted things.
      found: the count.
      low: smallest count by the scheme.
      high: largest count by the scheme.
    """

    method: str
    quantity: str
    found: int
    low: float = -math.inf
    high: float = math.inf

    @property
    def holds(self) -> bool:
        """Whether the count is as expected."""
        return bool(self.low <= self.found <= self.high)

    @property
    def expected(self) -> str:
        """The limits as text; "" if the scheme does not determine the count."""
        if math.isinf(self.low):
            return ""
        return f"at least {self.low:,}" if math.isinf(self.high) else f"{self.low:,}"


def format_facts(facts: Iterable[Fact]) -> str:
    """Returns a table of the facts; those that do not hold are marked."""
    rows = [("sampling method", "quantity", "found", "expected", "")]
    for fact in facts:
        mark = ("ok" if fact.expected else "") if fact.holds else "DIFFERS"
        rows.append((fact.method, fact.quantity, f"{fact.found:,}", fact.expected, mark))
    return align_columns(rows, right=(2, 3))


# A quantity, its count and, if the scheme determines it, the expected count or its limits.
_Row = tuple[str, int] | tuple[str, int, int] | tuple[str, int, int, float]


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
    isim, csim = pairs.get("c2c_isim"), pairs.get("i2i_csim")
    checks = {
        "c2c_cocaption": lambda own: _check_cycles(own, groups),
        "c2c_isim": lambda own: _check_caption_pairs(own, groups, least, drawn),
        "i2i_csim": lambda own: _check_image_pairs(own, least),
        "c2i_original": lambda own: _check_original(own, groups, positive),
        "c2i_intrasim": lambda own: _check_cross(own, isim, csim, groups),
    }
    facts = []
    for method, check in checks.items():
        for quantity, found, *limits in check(pairs[method]) if method in pairs else ():
            low, high = (*limits, *limits)[:2] if limits else (-math.inf, math.inf)
            facts.append(Fact(method, quantity, int(found), low, high))
    return facts


def _unordered(pairs: np.ndarray) -> np.ndarray:
    """The unordered pairs, each once, int [Q, 2]."""
    return np.unique(np.sort(pairs, axis=1), axis=0)


def _check_cycles(pairs: np.ndarray, groups: Groups) -> Iterator[_Row]:
    from scipy.sparse import csgraph, csr_array  # Slow to import.

    in_cycles, number = groups.sizes > 2, len(groups.caption_ids)
    captions = int(groups.sizes[in_cycles].sum())
    yield "pairs", len(pairs), captions + int(np.sum(groups.sizes == 2))
    owners = groups.owners[pairs]
    yield "pairs across images", np.sum(owners[:, 0] != owners[:, 1]), 0
    once = [np.bincount(side, minlength=number) == 1 for side in pairs.T]
    both = once[0] & once[1] & in_cycles[groups.owners]
    yield "captions once first and once second", np.sum(both), captions
    graph = csr_array((np.ones(len(pairs)), pairs.T), (number, number))
    _, part = csgraph.connected_components(graph, connection="strong")
    joined = both & (part == part[groups.starts[groups.owners]])
    whole = np.add.reduceat(joined.astype(int), groups.starts) == groups.sizes
    yield "images whose captions form one cycle", np.sum(whole), int(in_cycles.sum())


def _check_caption_pairs(
    pairs: np.ndarray, groups: Groups, least: int, drawn: bool
) -> Iterator[_Row]:
    images = groups.owners[pairs]
    yield "pairs", len(pairs), -(-len(groups) * least // 2), math.inf
    yield "pairs within one image", np.sum(images[:, 0] == images[:, 1]), 0
    joined = _unordered(images)
    yield "images joined twice, in any order", len(pairs) - len(joined), 0
    degrees = np.bincount(joined.ravel(), minlength=len(groups))
    yield "pairs of an image, fewest", degrees.min(), least, math.inf
    yield "pairs of an image, most", degrees.max()
    yield "captions used", len(np.unique(pairs))
    if drawn:  # At random, independently for every pair.
        return
    places, sizes = groups.places, groups.sizes[groups.owners]
    same = np.sum(places[pairs[:, 0]] == places[pairs[:, 1]])
    equal_groups = groups.sizes.min() == groups.sizes.max()
    quantity = "captions at the same place of their groups"
    yield (quantity, same, len(pairs)) if equal_groups else (quantity, same)
    # Captions take turns over the pairs of the first image.
    first = np.bincount(images[:, 0], minlength=len(groups))
    turns = np.maximum(0, -((places - first[groups.owners]) // sizes))
    wrong = np.bincount(pairs[:, 0], minlength=len(turns)) != turns
    taking, lost = int(np.sum(first > 0)), len(np.unique(groups.owners[wrong]))
    yield "first images whose captions take turns", taking - lost, taking


def _check_image_pairs(pairs: np.ndarray, least: int) -> Iterator[_Row]:
    joined = _unordered(pairs)
    yield "pairs", len(pairs)
    yield "images with themselves", np.sum(pairs[:, 0] == pairs[:, 1]), 0
    yield "repeated in the same order", len(pairs) - len(np.unique(pairs, axis=0)), 0
    yield "different pairs, in any order", len(joined)
    yield "pairs in both orders", len(pairs) - len(joined)
    degrees = np.bincount(joined.ravel())
    yield "pairs of an image, fewest", degrees[degrees > 0].min(), least, math.inf
    yield "pairs of an image, most", degrees.max()


def _check_original(
    pairs: np.ndarray, groups: Groups, positive: np.ndarray | None
) -> Iterator[_Row]:
    captions = len(groups.caption_ids)
    yield "pairs", len(pairs), captions
    own = groups.owners[pairs[:, 0]] == pairs[:, 1]
    yield "captions with their own image", len(np.unique(pairs[own, 0])), captions
    if positive is not None:
        union = np.unique(np.concatenate([positive, pairs]), axis=0)
        yield "original or rated as matching", len(union)


def _check_cross(
    pairs: np.ndarray, isim: np.ndarray | None, csim: np.ndarray | None, groups: Groups
) -> Iterator[_Row]:
    images = np.stack([groups.owners[pairs[:, 0]], pairs[:, 1]], axis=1)
    yield "pairs", len(pairs)
    yield "repeated in the same order", len(pairs) - len(np.unique(pairs, axis=0)), 0
    yield "captions with their own image", np.sum(images[:, 0] == images[:, 1]), 0
    taking_part = np.bincount(images.ravel(), minlength=len(groups))
    yield "images without any", np.sum(taking_part == 0), 0
    yield "pairs of an image on either side, most", taking_part.max()
    yield "captions used", len(np.unique(pairs[:, 0]))
    if isim is None or csim is None:
        return
    isim = groups.owners[isim]
    by_captions, by_images = (set(map(tuple, _unordered(each).tolist())) for each in (isim, csim))
    sources = collections.Counter(
        (pair in by_captions, pair in by_images)
        for pair in map(tuple, np.sort(images, axis=1).tolist())
    )
    yield "from caption pairs only", sources[True, False]
    yield "from image pairs only", sources[False, True]
    yield "from both", sources[True, True]
    yield "from neither", sources[False, False], 0

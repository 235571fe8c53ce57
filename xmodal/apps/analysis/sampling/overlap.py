"""Number of pairs that two samples have in common, and the number expected by chance."""

from collections.abc import Mapping

import numpy as np

from data_prep.sampling.groups import Groups
from xmodal.apps.analysis.sampling.structure import unordered
from xmodal.core.text_table import align_columns

# For these methods, the images matter, not which of their captions is used.
_JOIN_IMAGES = {"c2c_isim": (True, True), "c2i_intrasim": (True, False)}


def format_overlap(
    pairs: Mapping[str, np.ndarray], others: Mapping[str, np.ndarray], groups: Groups
) -> str:
    """A table of the common pairs, ignoring order.

    `c2c_isim` and `c2i_intrasim` are compared as pairs of images.

    Args:
      pairs: sampling method -> int [P, 2] by position.
      others: other pairs in the same form, such as the released ones.
      groups: groups of the captions.
    """
    rows: list[tuple[str, ...]] = [
        ("sampling method", "ours", "theirs", "common", "share", "by chance")
    ]
    for method in pairs:
        if method in others:
            ours, theirs = (_joined(each[method], method, groups) for each in (pairs, others))
            union = np.unique(np.concatenate([ours, theirs]), axis=0)
            common = len(ours) + len(theirs) - len(union)
            counts = (f"{number:,}" for number in (len(ours), len(theirs), common))
            shares = common / max(1, len(ours)), len(theirs) / _possible(method, groups)
            rows.append((method, *counts, *(f"{share:.1%}" for share in shares)))
    return align_columns(rows, right=range(1, 6))


def _joined(pairs: np.ndarray, method: str, groups: Groups) -> np.ndarray:
    sides = _JOIN_IMAGES.get(method, (False, False))
    columns = [
        groups.owners[side] if is_caption else side
        for side, is_caption in zip(pairs.T, sides, strict=True)
    ]
    joined = np.stack(columns, axis=1)
    # A caption and an image are of different kinds, so their order matters.
    return np.unique(joined, axis=0) if method == "c2i_original" else unordered(joined)


def _possible(method: str, groups: Groups) -> int:
    """Number of possible pairs of this kind."""
    if method == "c2c_cocaption":
        return max(1, int(np.sum(groups.sizes * (groups.sizes - 1) // 2)))
    if method == "c2i_original":
        return len(groups.caption_ids)
    return len(groups) * (len(groups) - 1) // 2

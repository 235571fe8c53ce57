"""Number of pairs that two samples have in common, and the number expected by chance."""

from collections.abc import Mapping

import numpy as np

from data_prep.sampling.groups import Groups
from xmodal.apps.analysis.sampling.structure import unordered

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
    line = "{:<16}{:>10}{:>10}{:>10}{:>9}{:>11}"
    lines = [line.format("sampling method", "ours", "theirs", "common", "share", "by chance")]
    for method in pairs:
        if method in others:
            ours, theirs = (_joined(each[method], method, groups) for each in (pairs, others))
            common = (
                len(ours) + len(theirs) - len(np.unique(np.concatenate([ours, theirs]), axis=0))
            )
            chance = len(theirs) / _possible(method, groups)
            lines.append(
                line.format(
                    method,
                    f"{len(ours):,}",
                    f"{len(theirs):,}",
                    f"{common:,}",
                    f"{common / max(1, len(ours)):.1%}",
                    f"{chance:.1%}",
                )
            )
    return "\n".join(lines)


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

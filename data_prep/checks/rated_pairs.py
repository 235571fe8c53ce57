"""Checks of rated pairs: none twice, which come in both orders, the cycles of co-captions."""

from collections.abc import Iterator

import numpy as np

from data_prep.checks.columns import Columns
from data_prep.checks.identity import repeats
from data_prep.checks.prepared import Prepared
from data_prep.checks.rows import Row

# How CxC names pairs of captions of one image: five per image, in a circle.
_CYCLES = "c2c_cocaption"
# And captions with their own image.
_OWN = "c2i_original"
# Ids are int32: both of a pair fit into 64 bits.
_SHIFT = 32


def pairs(dataset: Prepared) -> Iterator[Row]:
    """No pair is rated twice in the same order by the same method."""
    for split, columns in dataset.splits.items():
        for kind, (left, right) in _pairs(columns).items():
            yield dataset.row(
                f"{split}/pairs repeated with {kind}", repeats(left << _SHIFT | right), 0
            )
            if _is_symmetric(kind):
                low, high = np.minimum(left, right), np.maximum(left, right)
                found = repeats(low << _SHIFT | high) - repeats(left << _SHIFT | right)
                yield dataset.row(f"{split}/pairs in both orders with {kind}", found)
                yield dataset.row(
                    f"{split}/pairs of an item with itself with {kind}",
                    int((left == right).sum()),
                    0,
                )


def structure(dataset: Prepared) -> Iterator[Row]:
    """What the names of CxC's methods promise.

    Pairs of captions of one image form a circle: every caption is once left and once right. And
    every caption is paired with its own image once. Where rows were left out, circles are open.
    """
    unbroken = None if dataset.is_part else 0
    for split, columns in dataset.splits.items():
        for kind, (left, right) in _pairs(columns).items():
            if _CYCLES in kind:
                loose = np.setxor1d(left, right).size + repeats(left) + repeats(right)
                name = f"{split}/captions not once on each side with {kind}"
                yield dataset.row(name, loose, unbroken)
            if _OWN in kind:
                yield dataset.row(f"{split}/captions repeated with {kind}", repeats(left), 0)


def _pairs(columns: Columns) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Kind of rows -> ids of the left and the right side, int64 [P] each."""
    if not {"left_id", "right_id"} <= columns.ids.keys():
        return {}
    left, right = (columns.ids[name].values for name in ("left_id", "right_id"))
    group_of = np.frombuffer(columns.group_of, np.uint16)
    return {
        kind: (left[group_of == number], right[group_of == number])
        for number, kind in enumerate(columns.groups)
    }


def _is_symmetric(kind: str) -> bool:
    return any(f"task={task}" in kind for task in ("sts", "sis"))

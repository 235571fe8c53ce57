"""Checks that embeddings and scores are finite."""

from collections.abc import Iterable

import numpy as np

from xmodal.core.errors import UserError


def count_not_finite(values: np.ndarray) -> int:
    """Returns the number of rows with a value that is not finite."""
    # A sum is finite if all its terms are, and needs no Boolean array.
    with np.errstate(invalid="ignore"):
        if np.isfinite(np.sum(values, dtype=np.float64)):
            return 0
    return int(np.sum(~np.isfinite(values).all(axis=tuple(range(1, values.ndim)))))


def refuse_not_finite(blocks: Iterable[np.ndarray], asked: str, why: str) -> None:
    """Raises an error if scores are not finite.

    Args:
      blocks: [b, N] complete rows, one block after the other.
      asked: which numbers need the scores; may be empty.
      why: cause and remedy, to end the error message.

    Raises:
      UserError: a score is not finite.
    """
    rows: list[np.ndarray] = []
    columns = np.zeros(1, bool)
    for block in blocks:
        if not count_not_finite(block):
            rows.append(np.zeros(len(block), bool))
            continue
        wrong = ~np.isfinite(block)
        rows.append(wrong.any(axis=1))
        columns = columns | wrong.any(axis=0)
    bad = np.concatenate(rows)
    if bad.any():
        raise UserError(
            f"Scores{asked and f' of {asked}'} are not finite in {bad.sum():,} of {len(bad):,} "
            f"rows and {columns.sum():,} of {len(columns):,} columns: {why}"
        )

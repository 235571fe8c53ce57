"""Image regions, or tokens, in varying numbers: padded rows and their mask."""

from collections.abc import Sequence

import numpy as np


def pad_rows(rows: Sequence[np.ndarray], length: int) -> tuple[np.ndarray, np.ndarray]:
    """Pads arrays [t, ...] of different lengths with zeros, or cuts them.

    Returns:
      The rows [N, length, ...] and a mask bool [N, length] that is True on real values.
    """
    padded = np.zeros((len(rows), length, *rows[0].shape[1:]), rows[0].dtype)
    mask = np.zeros((len(rows), length), bool)
    for place, row in enumerate(rows):
        kept = row[:length]
        padded[place, : len(kept)] = kept
        mask[place, : len(kept)] = True
    return padded, mask

"""Tokens of many items on the host, without padding."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class RaggedTokens:
    """The real tokens of N items, one item after the other.

    Attributes:
      values: float32 [P, W].
      lengths: int64 [N], tokens of each item; their sum is P.
    """

    values: np.ndarray
    lengths: np.ndarray

    @classmethod
    def from_padded(cls, tokens: np.ndarray, mask: np.ndarray) -> "RaggedTokens":
        """Returns tokens [N, T, W] without their padding; `mask` [N, T] is 0 there."""
        real = np.asarray(mask) > 0
        return cls(np.asarray(tokens, np.float32)[real], real.sum(axis=1).astype(np.int64))

    @classmethod
    def join(cls, parts: Sequence["RaggedTokens"]) -> "RaggedTokens":
        """Returns the items of all parts."""
        return cls(*(np.concatenate([getattr(p, n) for p in parts]) for n in ("values", "lengths")))

    def arrays(self) -> dict[str, Any]:
        """Returns the fields by name, for an npz file."""
        return {"values": self.values, "lengths": self.lengths}

    @functools.cached_property
    def _starts(self) -> np.ndarray:
        return np.cumsum(self.lengths) - self.lengths

    def __getitem__(self, positions: np.ndarray) -> "RaggedTokens":
        """Returns the items at some positions."""
        lengths = self.lengths[positions]
        ends = np.cumsum(lengths)
        steps = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths)
        return RaggedTokens(
            self.values[np.repeat(self._starts[positions], lengths) + steps], lengths
        )

    def pad(self, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns tokens [N, length, W], zero in the padding, and their mask, bool [N, length]."""
        mask = np.arange(length) < self.lengths[:, None]
        tokens = np.zeros((*mask.shape, self.values.shape[1]), np.float32)
        tokens[mask] = self.values
        return tokens, mask

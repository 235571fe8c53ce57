"""Tokens of many items on the host, without padding."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class RaggedTokens:
    """The real tokens of N items, one item after the other.

    Attributes:
      values: [P, W].
      lengths: int64 [N], tokens of each item; their sum is P.
      extras: further arrays [N, ...] by name, see `models.features.OF_PAIRS`.
      longest: number of tokens that items were padded to.
    """

    values: np.ndarray
    lengths: np.ndarray
    extras: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    longest: int = 0

    @classmethod
    def from_padded(
        cls, tokens: np.ndarray, mask: np.ndarray, extras: Mapping[str, np.ndarray] | None = None
    ) -> "RaggedTokens":
        """Returns tokens [N, T, W] without their padding; `mask` [N, T] is 0 there."""
        real = np.asarray(mask) > 0
        return cls(np.asarray(tokens)[real], real.sum(axis=1), extras or {}, real.shape[1])

    @classmethod
    def join(cls, parts: Sequence["RaggedTokens"]) -> "RaggedTokens":
        """Returns the items of all parts."""
        values, lengths = (np.concatenate([getattr(p, n) for p in parts]) for n in _ARRAYS)
        extras = {n: np.concatenate([p.extras[n] for p in parts]) for n in parts[0].extras}
        return cls(values, lengths, extras, max(part.longest for part in parts))

    def arrays(self) -> dict[str, Any]:
        """Returns the tokens and lengths by name, for an npz file."""
        return {name: getattr(self, name) for name in _ARRAYS}

    @functools.cached_property
    def _starts(self) -> np.ndarray:
        return np.cumsum(self.lengths) - self.lengths

    def __getitem__(self, positions: np.ndarray) -> "RaggedTokens":
        """Returns the items at some positions."""
        lengths = self.lengths[positions]
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        values = self.values[np.repeat(self._starts[positions], lengths) + within]
        extras = {name: array[positions] for name, array in self.extras.items()}
        return RaggedTokens(values, lengths, extras, self.longest)

    def pad(self, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns tokens [N, length, W], zero in the padding, and their mask, bool [N, length]."""
        mask = np.arange(length) < self.lengths[:, None]
        tokens = np.zeros((*mask.shape, self.values.shape[1]), self.values.dtype)
        tokens[mask] = self.values
        return tokens, mask


_ARRAYS = ("values", "lengths")

"""Rated pairs in memory, wherever they come from."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class RatedPairs:
    """Pairs of one rating.

    Attributes:
      rating: `sts`, `sis`, `sits`, or another name.
      left_ids: int64 [P], captions for `sts` and `sits`, images for `sis`; None if the dataset only
        has the texts of pairs.
      right_ids: int64 [P], images for `sis` and `sits`, or None.
      methods: strings [P], how the pairs were sampled.
      scores: float32 [P], means over raters; None for pairs that are not rated.
      rater_scores: float32 [P, R], NaN where a pair has fewer raters; None if only means are known.
      texts: the two sentences of every pair, strings [P, 2], or None.
    """

    rating: str
    left_ids: np.ndarray | None
    right_ids: np.ndarray | None
    methods: np.ndarray
    scores: np.ndarray | None
    rater_scores: np.ndarray | None = None
    texts: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.methods)

    def by_method(self) -> dict[str, np.ndarray]:
        """Sampling method -> mask of its pairs, bool [P], the most frequent method first."""
        names, counts = np.unique(self.methods, return_counts=True)
        order = np.argsort(-counts, kind="stable")
        return {str(name): self.methods == name for name in names[order]}

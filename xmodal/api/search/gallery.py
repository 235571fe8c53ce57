"""Embedded items of an index, as they are in memory."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xmodal.api.search.approximate import Effort


@dataclasses.dataclass(frozen=True)
class Quality:
    """Approximate search compared with exact search.

    Attributes:
      recall: share of the exact top ten that is found.
      exact_ms: milliseconds per query with exact search.
      approximate_ms: milliseconds per query with approximate search.
      queries: kind of the queries: "captions" or "images".
    """

    recall: float
    exact_ms: float
    approximate_ms: float
    queries: str


@dataclasses.dataclass
class Gallery:
    """The items of one kind, with their embeddings.

    Attributes:
      names: see `Items`.
      vectors: float32 [N, D] or [N, K, D].
      dataset: see `Items`.
      left_out: names of pictures that are not in it since they cannot be read -> the fault.
      lists: faiss's index; None if search is exact.
      effort: how much of it a query searches.
      quality: quality of approximate search.
    """

    names: Sequence[str]
    vectors: np.ndarray
    dataset: Mapping[str, str] | None = None
    left_out: Mapping[str, str] = dataclasses.field(default_factory=dict)
    lists: Any = None
    effort: Effort = dataclasses.field(default_factory=Effort)
    quality: Quality | None = None

"""Embedded items of an index, as they are in memory."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from xmodal.api.item_embeddings import ItemEmbeddings
from xmodal.api.search.approximate import Effort
from xmodal.evals.scores.ragged_tokens import RaggedTokens


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
class IndexGallery:
    """The items of one kind, with their embeddings.

    Attributes:
      names: see `SearchItems`.
      vectors: float32 [N, D] or [N, K, D].
      tokens: tokens of the items, if the model compares them.
      folder: the folder of the pictures of an index that was opened.
      dataset: see `SearchItems`.
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
    tokens: RaggedTokens | None = None
    folder: str = ""

    @classmethod
    def of_items(
        cls, names: Sequence[str], items: np.ndarray | ItemEmbeddings, **others: Any
    ) -> Self:
        """Returns a gallery of items as `embed` returns them."""
        return cls(names, np.asarray(items), tokens=getattr(items, "tokens", None), **others)

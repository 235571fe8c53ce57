"""Types of benchmarks and their labels."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from xmodal.evals.labels.definitions import DIRECTIONS, Definition
from xmodal.evals.labels.positives import Ragged, Relation


@dataclasses.dataclass(frozen=True)
class Labels:
    """The labels of one split, from released files or from a prepared dataset.

    Attributes:
      name: name of the dataset.
      split: `test` or `validation`.
      image_ids: integers [N].
      caption_ids: integers [M].
      caption_image_ids: integers [M], the image every caption was written for.
      ratings: rating -> dict of `left_ids`, `right_ids` (integers [P]) and `scores` (float32
        [P]); may be empty.
      lists: name of a list of positives -> direction -> (query ids, gallery ids) int64 [P] each,
        and perhaps their grades, float64 [P], above 0; may be empty.
      categories: uint8 0/1 [N, C], objects in every image, or None.
      caption_categories: uint8 0/1 [M, C], objects in every caption's image, or None.
      folds: int32 [N], fold of every image, or None.
      shortlist: bool [N], whether an image is on VinVL's list of 1,000, or None.
      partial: how much of the split is present, as in "181 of 5,000 images"; "" for all of it.
      texts: integers [M], equal for captions of one text; None if texts are not known.
      label_set: name of the labels if they are not the published ones, such as `mine@2026-11`; ""
        for that of each benchmark.
      added: names of the lists and ratings that have this name; None for all labels.
      definitions: benchmarks besides those of the dataset, by name.
    """

    name: str
    split: str
    image_ids: np.ndarray
    caption_ids: np.ndarray
    caption_image_ids: np.ndarray
    ratings: Mapping[str, Mapping[str, np.ndarray]]
    lists: Mapping[str, Mapping[str, tuple[np.ndarray, ...]]]
    categories: np.ndarray | None = None
    caption_categories: np.ndarray | None = None
    folds: np.ndarray | None = None
    shortlist: np.ndarray | None = None
    texts: np.ndarray | None = None
    partial: str = ""
    label_set: str = ""
    added: frozenset[str] | None = None
    definitions: dict[str, Definition] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class GradedPairs:
    """Pairs of one rating, by position in the galleries.

    Attributes:
      modalities: modalities of the left and the right item.
      left: int [P].
      right: int [P].
      scores: float32 [P], human ratings.
      pairs_of_query: the pairs of every rated item that is a query.
    """

    modalities: tuple[str, str]
    left: np.ndarray
    right: np.ndarray
    scores: np.ndarray
    pairs_of_query: Ragged


@dataclasses.dataclass(frozen=True)
class DirectionLabels:
    """Positives of one direction, by position in the galleries of Q queries and N items.

    Attributes:
      positives: positives of every query; a query without any is skipped. With several relations,
        the same queries are evaluated with each, and every metric is their mean (PCME's
        R-Precision).
      metrics: any of "recall@K", "mrr", "median_rank", "map", "map@r", "r_precision", "ndcg@K",
        "pmrp".
      unreachable: int32 [Q], positives of every query that are not in the gallery: they can never
        be found but count in R. None means zeros.
      cap: R of a query is min(its positives, `cap`); None for no cap.
      folds: int32 [Q] and int32 [N], fold of every query and every item; a query is compared only
        with items in the same fold. None for the whole gallery.
      grades: float64 [P], above 0, of the values of `positives`, for nDCG; None for relations.
    """

    positives: Ragged | Relation | tuple[Relation, ...]
    metrics: tuple[str, ...]
    unreachable: np.ndarray | None = None
    cap: int | None = None
    folds: tuple[np.ndarray, np.ndarray] | None = None
    grades: Any = None

    @property
    def relations(self) -> tuple[Ragged | Relation, ...]:
        """The positives, always as a tuple."""
        return self.positives if isinstance(self.positives, tuple) else (self.positives,)


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """A named set of directions and correlations over the galleries of one split.

    Attributes:
      name: first part of its metric tags.
      definition: one sentence about the positives.
      directions: direction, a name in `DIRECTIONS` -> its positives.
      graded: rating -> pairs.
      label_hash: 16 hexadecimal digits that identify the labels, regardless of their order.
      label_set: name of the labels: the benchmark's own name for published labels and for those of
        a dataset, `Labels.label_set` for others.
    """

    name: str
    definition: str
    directions: Mapping[str, DirectionLabels]
    graded: Mapping[str, GradedPairs]
    label_hash: str
    label_set: str = ""

    @property
    def compared(self) -> dict[str, tuple[str, str]]:
        """Direction or rating -> the modalities that it compares."""
        rated = {name: pairs.modalities for name, pairs in self.graded.items()}
        return {name: DIRECTIONS[name] for name in self.directions} | rated

"""Types of boards and of the labels they are made from."""

import dataclasses
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from xmodal.evals.boards.ragged import Ragged
from xmodal.evals.boards.relation import Relation


class Labels(Protocol):
    """The labeled side of an evaluation set.

    `xmodal.data.EvalSet` and `xmodal.evals.labels.annotations.Annotations` have all of it.

    Attributes:
      name: of the dataset.
      image_ids: int32 [N].
      caption_ids: int32 [M].
      caption_image_ids: int32 [M], the image every caption was written for.
      ratings: rating task -> dict of `left_ids`, `right_ids` (int32 [P]) and `scores` (float32
        [P]); may be empty.
      lists: name of a released list of positives -> retrieval task -> (query ids, gallery ids)
        int64 [P] each; may be empty.
      categories: uint8 0/1 [N, C], objects in every image, or None.
      caption_categories: uint8 0/1 [M, C], objects in the image of every caption, or None.
      folds: int32 [N], fold of every image, or None.
      partial: how much of the split is here, "181 of 5,000 images"; "" for all of it.
    """

    name: str
    image_ids: np.ndarray
    caption_ids: np.ndarray
    caption_image_ids: np.ndarray
    ratings: Mapping[str, Mapping[str, np.ndarray]]
    lists: Mapping[str, Mapping[str, tuple[np.ndarray, np.ndarray]]]
    categories: np.ndarray | None
    caption_categories: np.ndarray | None
    folds: np.ndarray | None
    partial: str


@dataclasses.dataclass(frozen=True)
class GradedPairs:
    """Rated pairs of one task, by position in the galleries.

    Attributes:
      modalities: of the left and the right item.
      left: int [P].
      right: int [P].
      scores: float32 [P], human ratings.
      pairs_of_query: the pairs of every item that is a query and was rated.
    """

    modalities: tuple[str, str]
    left: np.ndarray
    right: np.ndarray
    scores: np.ndarray
    pairs_of_query: Ragged


@dataclasses.dataclass(frozen=True)
class RetrievalTask:
    """Positives of one direction, by position in the galleries of Q queries and N items.

    Attributes:
      positives: of every query; one without a positive is not asked. Several relations ask the
        same queries one after the other, and every metric is their mean (PCME's R-Precision).
      metrics: of "recall@1", "recall@5", "recall@10", "median_rank", "map@r", "r_precision",
        "pmrp".
      unreachable: int32 [Q], positives of every query that are not in the gallery: they can never
        be found but count in R. None stands for zeros.
      cap: R of a query is min(its positives, `cap`); None for no cap.
      folds: int32 [Q] and int32 [N], fold of every query and every item: a query meets only
        items of its own fold. None for the whole gallery.
    """

    positives: Ragged | Relation | tuple[Relation, ...]
    metrics: tuple[str, ...]
    unreachable: np.ndarray | None = None
    cap: int | None = None
    folds: tuple[np.ndarray, np.ndarray] | None = None


@dataclasses.dataclass(frozen=True)
class Board:
    """A named set of retrieval tasks and correlations over the galleries of one split.

    Attributes:
      name: prefix of all its metrics.
      definition: one sentence on the positives.
      tasks: retrieval task, a name in `RETRIEVAL_TASKS` -> its positives.
      graded: rating task -> pairs.
      label_hash: 16 hexadecimal digits that name the labels exactly, whatever their order.
    """

    name: str
    definition: str
    tasks: Mapping[str, RetrievalTask]
    graded: Mapping[str, GradedPairs]
    label_hash: str

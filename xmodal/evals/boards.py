"""Boards: what is asked of a model on a dataset, as data."""

import dataclasses
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from xmodal.evals.ragged import Ragged
from xmodal.evals.relation import Relation
from xmodal.options import UserError


class Labels(Protocol):
    """The labelled side of an evaluation set (`xmodal.data.EvalSet` is one).

    Attributes:
      name: of the dataset.
      image_ids: int32 [N].
      caption_ids: int32 [M].
      caption_image_ids: int32 [M], the image every caption was written for.
      ratings: rating task -> dict of `left_ids`, `right_ids` (int32 [P]) and `scores` (float32
        [P]); may be empty.
    """

    name: str
    image_ids: np.ndarray
    caption_ids: np.ndarray
    caption_image_ids: np.ndarray
    ratings: Mapping[str, Mapping[str, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class Definition:
    """How the labels of a dataset become a board.

    Attributes:
      name: prefix of all its metrics.
      thresholds: rating task -> lowest score of a positive; pairs at or above join the dataset's
        own pairs, which stay positive whatever their rating.
      correlations: rating tasks whose scores are compared with the model's.
    """

    name: str
    thresholds: Mapping[str, float] = dataclasses.field(default_factory=dict)
    correlations: tuple[str, ...] = ()


# Thresholds of the Crisscrossed Captions paper, section 3.
_CXC_THRESHOLDS = {"sts": 3.0, "sits": 3.0, "sis": 2.5}
_CXC_RATINGS = ("sts", "sis", "sits")
DEFINITIONS: dict[str, tuple[Definition, ...]] = {
    "coco_captions": (Definition("coco"), Definition("cxc", _CXC_THRESHOLDS, _CXC_RATINGS)),
    "crisscrossed_shapes": (
        Definition("shapes_own"),
        Definition("shapes", _CXC_THRESHOLDS, _CXC_RATINGS),
    ),
    "flickr8k": (Definition("flickr8k", correlations=("expert", "crowd")),),
}

# Rating task -> its two sides and the sides that are queries of the bootstrap. Queries of
# caption-image ratings are the images: only so do the published deviations come out.
_SIDES = {
    "sts": ("text", "text", ("left", "right")),
    "sis": ("image", "image", ("left", "right")),
    "sits": ("text", "image", ("right",)),
    "expert": ("text", "image", ("right",)),
    "crowd": ("text", "image", ("right",)),
}
# Retrieval task -> (query modality, gallery modality).
RETRIEVAL_TASKS = {
    "i2t": ("image", "text"),
    "t2i": ("text", "image"),
    "t2t": ("text", "text"),
    "i2i": ("image", "image"),
}


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
    """What is retrieved for what, by position in the galleries of Q queries and N items.

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
      definition: one sentence on what counts as positive.
      tasks: retrieval task, a name in `RETRIEVAL_TASKS` -> what is asked.
      graded: rating task -> pairs.
      label_hash: 16 hexadecimal digits that name the labels exactly, whatever their order.
    """

    name: str
    definition: str
    tasks: Mapping[str, RetrievalTask]
    graded: Mapping[str, GradedPairs]
    label_hash: str


def make_boards(labels: Labels) -> list[Board]:
    """Builds the boards of a dataset; one without an entry in `DEFINITIONS` gets its own pairs.

    A board whose ratings the split does not have is left out.

    Raises:
      UserError: a label names an item that is not in the galleries.
    """
    positions = {
        "image": _Positions("image", labels.image_ids),
        "text": _Positions("caption", labels.caption_ids),
    }
    definitions = DEFINITIONS.get(labels.name, (Definition(labels.name),))
    used = {task for d in definitions for task in (*d.thresholds, *d.correlations)}
    graded = {
        task: _make_graded(pairs, _SIDES[task], positions)
        for task, pairs in labels.ratings.items()
        if task in used
    }
    own = _own_pairs(positions["image"](labels.caption_image_ids))
    boards = []
    for definition in definitions:
        if not set(definition.thresholds) <= set(graded):
            continue
        pairs = dict(own)
        for task, threshold in definition.thresholds.items():
            for direction, rated in _positive_pairs(graded[task], threshold).items():
                pairs[direction] = np.concatenate([pairs[direction], rated], axis=1)
        positives = {}
        for task, (query, _) in RETRIEVAL_TASKS.items():
            if pairs[task].size:
                positives[task] = Ragged.from_pairs(*pairs[task], len(positions[query].ids))
        metrics = ("recall@1", "recall@5", "recall@10", "median_rank")
        boards.append(
            Board(
                definition.name,
                "",
                {task: RetrievalTask(rows, metrics) for task, rows in positives.items()},
                {task: graded[task] for task in definition.correlations if task in graded},
                "",
            )
        )
    return boards


class _Positions:
    """Positions of ids in a gallery."""

    def __init__(self, kind: str, ids: np.ndarray) -> None:
        self.kind, self.ids = kind, ids
        self._order = np.argsort(ids, kind="stable")
        self._sorted = ids[self._order]
        if len(ids) == 0:
            raise UserError(f"The split has no {kind}.")
        twice = self._sorted[1:][self._sorted[1:] == self._sorted[:-1]]
        if len(twice):
            raise UserError(f"{self.kind} id {twice[0]} occurs twice in the gallery.")

    def __call__(self, wanted: np.ndarray) -> np.ndarray:
        at = np.minimum(np.searchsorted(self._sorted, wanted), len(self.ids) - 1)
        missing = np.asarray(wanted)[self._sorted[at] != wanted]
        if len(missing):
            raise UserError(
                f"{len(missing)} labels name {self.kind}s that are not among the {len(self.ids)} "
                f"of this split, the first is {self.kind} id {missing[0]}: labels and items must "
                "be of the same split."
            )
        return self._order[at]


def _make_graded(
    pairs: Mapping[str, np.ndarray],
    sides: tuple[str, str, tuple[str, ...]],
    positions: Mapping[str, _Positions],
) -> GradedPairs:
    left_kind, right_kind, query_sides = sides
    ends = {
        "left": positions[left_kind](pairs["left_ids"]),
        "right": positions[right_kind](pairs["right_ids"]),
    }
    queries = np.concatenate([ends[side] for side in query_sides])
    pair = np.tile(np.arange(len(ends["left"])), len(query_sides))
    _, rows = np.unique(queries, return_inverse=True)  # only rated items are queries
    return GradedPairs(
        modalities=(left_kind, right_kind),
        left=ends["left"],
        right=ends["right"],
        scores=np.asarray(pairs["scores"], np.float32),
        pairs_of_query=Ragged.from_pairs(rows, pair, int(rows.max(initial=-1)) + 1),
    )


def _own_pairs(image_of_caption: np.ndarray) -> dict[str, np.ndarray]:
    """Positives a captioned dataset has by itself: [2, P] of (query, gallery) positions."""
    caption = np.arange(len(image_of_caption))
    by_image = Ragged.from_pairs(image_of_caption, caption, int(image_of_caption.max()) + 1)
    lengths = by_image.lengths[image_of_caption]
    query = np.repeat(caption, lengths)
    within = np.arange(len(query)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    other = by_image.values[by_image.offsets[image_of_caption[query]] + within]
    co_captions = np.stack([query, other])[:, query != other]
    return {
        "i2t": np.stack([image_of_caption, caption]),
        "t2i": np.stack([caption, image_of_caption]),
        "t2t": co_captions,
        "i2i": np.zeros((2, 0), np.int64),
    }


def _positive_pairs(graded: GradedPairs, threshold: float) -> dict[str, np.ndarray]:
    """Pairs rated at or above the threshold, in both directions, by retrieval task."""
    keep = graded.scores >= threshold
    forward = np.stack([graded.left[keep], graded.right[keep]])
    if graded.modalities == ("text", "image"):
        return {"t2i": forward, "i2t": forward[::-1]}
    both = np.concatenate([forward, forward[::-1]], axis=1)
    both = both[:, both[0] != both[1]]  # an item is no positive of itself
    return {"t2t" if graded.modalities == ("text", "text") else "i2i": both}

"""Exact ranks by counting, and the top of ranked lists, from one pass over the scores."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from xmodal.core.progress import progress
from xmodal.evals.labels.positives import Ragged
from xmodal.evals.scores import counting
from xmodal.evals.scores.counting import Best, LabelSet
from xmodal.evals.scores.score_tiles import Scores
from xmodal.similarity.precision import in_precision


@dataclasses.dataclass(frozen=True)
class Ranks:
    """Rank of the best positive of every query.

    Attributes:
      rank: int32 [Q], items ahead of the best positive; -1 if the query has no positive.
      tied: bool [Q], whether an item that is not a positive has the same score as the best
        positive, so that the rank depends on the tie rule.
    """

    rank: np.ndarray
    tied: np.ndarray


@dataclasses.dataclass(frozen=True)
class Answers:
    """Results of one pass for the queries of one direction.

    Attributes:
      ranks: one per label set.
      lists: int32 [Q, depth], items by descending score; -1 after the last item.
      list_scores: [Q, depth], their scores; arbitrary after the last item.
    """

    ranks: list[Ranks]
    lists: np.ndarray
    list_scores: np.ndarray


def compute_ranks(
    scores: Scores,
    forward: Sequence[LabelSet],
    backward: Sequence[LabelSet] = (),
    *,
    exclude_self: bool = False,
    depths: tuple[int, int] = (0, 0),
) -> tuple[Answers, Answers]:
    """Ranks the best positive of every query, in both directions and for several label sets.

    The order is a stable descending sort: of two equal scores the smaller position comes first.
    Every tile of scores is computed once and used for all label sets. Within one gallery, where
    scores are symmetric to the bit, half of the tiles are used for both of their sides.

    Args:
      scores: scores of Q queries and N items.
      forward: label sets of the queries.
      backward: label sets of the items, which then rank the queries.
      exclude_self: whether queries and items are one gallery, in which no item is compared with
        itself; `backward` is then empty.
      depths: lengths of the lists to return for the queries and for the items.

    Raises:
      UserError: a score is not finite.
      RuntimeError: the device gives one pair different bits in different products.
    """
    scores.check_finite()
    mirrored = exclude_self and not depths[0] and scores.is_symmetric()
    with in_precision(scores.dtype):
        return _rank(
            scores, forward, backward, depths, exclude_self=exclude_self, mirrored=mirrored
        )


def _rank(
    scores: Scores,
    forward: Sequence[LabelSet],
    backward: Sequence[LabelSet],
    depths: tuple[int, int],
    *,
    exclude_self: bool,
    mirrored: bool,
) -> tuple[Answers, Answers]:
    best = _score_positives(scores, forward, backward)
    (queries, items), (rows, columns) = scores.shape, scores.tile_shape
    row_tiles, column_tiles = _divide_up(queries, rows), _divide_up(items, columns)
    padded = row_tiles * rows, column_tiles * columns
    sides = (
        counting.make_side(forward, best[0], padded, depths[0], scores.mesh, scores.dtype),
        counting.make_side(backward, best[1], padded[::-1], depths[1], scores.mesh, scores.dtype),
    )
    tiles = [(i, j) for i in range(row_tiles) for j in range(i if mirrored else 0, column_tiles)]
    with progress(
        f"Ranking {items:,} items for {queries:,} queries", len(tiles), jointly=True
    ) as advance:
        for i, j in tiles:
            sides = counting.count(
                sides,
                scores.tile(i, j),
                (i * rows, j * columns),
                sizes=scores.shape,
                exclude_self=exclude_self,
                mirrored=mirrored and i != j,
                mesh=scores.mesh,
            )
            advance(1)
    forward_side, backward_side = (counting.join(side, scores.mesh) for side in sides)
    return (
        _collect(*forward_side, best[0], queries),
        _collect(*backward_side, best[1], items),
    )


def _score_positives(
    scores: Scores, forward: Sequence[LabelSet], backward: Sequence[LabelSet]
) -> tuple[list[Best], list[Best]]:
    """Best positives of every label set; a pair in several label sets is scored once."""
    stride = scores.shape[1]

    def keys_of(label_set: LabelSet, is_backward: bool) -> np.ndarray:
        query, item = _rows(label_set.positives), label_set.positives.values.astype(np.int64)
        return item * stride + query if is_backward else query * stride + item

    keys = [keys_of(label_set, False) for label_set in forward]
    keys += [keys_of(label_set, True) for label_set in backward]
    pairs = np.unique(np.concatenate([np.zeros(0, np.int64), *keys]))
    values = scores.pairs(*np.divmod(pairs, stride))
    best = [
        _find_best(label_set.positives, values[np.searchsorted(pairs, key)])
        for label_set, key in zip([*forward, *backward], keys, strict=True)
    ]
    return best[: len(forward)], best[len(forward) :]


def _find_best(positives: Ragged, scores: np.ndarray) -> Best:
    rows, size = _rows(positives), len(positives.lengths)
    best = np.full(size, -np.inf, scores.dtype)
    np.maximum.at(best, rows, scores)
    is_best = scores == best[rows]
    first = np.full(size, np.iinfo(np.int32).max, np.int32)
    np.minimum.at(first, rows[is_best], positives.values[is_best])
    best[positives.lengths == 0] = np.inf  # Nothing is ahead of a skipped query.
    return Best(best, first, np.bincount(rows[is_best], minlength=size))


def _collect(
    counts: Sequence[counting.Counts], top: counting.TopK, best: Sequence[Best], size: int
) -> Answers:
    ranks = []
    for counted, found in zip(counts, best, strict=True):
        has_positive, equal = found.number > 0, counted.equal[:size]
        if (equal[has_positive] < found.number[has_positive]).any():
            raise RuntimeError(
                "This device gives one pair of items different scores in different products, so "
                "ranks would not be exact. Evaluate on the CPU (JAX_PLATFORMS=cpu), and please "
                "report the device."
            )
        rank = np.where(has_positive, counted.ahead[:size], -1).astype(np.int32)
        ranks.append(Ranks(rank, has_positive & (equal > found.number)))
    return Answers(ranks, np.asarray(top.items[:size]), np.asarray(top.scores[:size]))


def _rows(positives: Ragged) -> np.ndarray:
    """int64 [P], the query of every listed positive."""
    return np.repeat(np.arange(len(positives.lengths)), positives.lengths)


def _divide_up(number: int, by: int) -> int:
    return -(-number // by)

"""Questions of a study like ECCV Caption's: candidates of several models, in sets.

Every set (a HIT) has 18 candidates and two golden pairs: a caption with its own image, and one with
an image that no model ranks high. The candidates of a query are the best items of every model; a
pair proposed by several models or in both directions is asked once.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from xmodal.apps.annotate.candidates import best_items
from xmodal.apps.annotate.study_file import StudyQuestion, StudyUnit
from xmodal.core.errors import UserError

if TYPE_CHECKING:
    from xmodal.data import EvalSplit
    from xmodal.evals.scores.sources import Source

# No model ranks the images of a negative golden pair among its first 25.
DEPTH = 25
_ATTEMPTS = 200
_Pair = tuple[int, int]  # Caption and image.


@dataclasses.dataclass(frozen=True)
class Pool:
    """Candidates of all queries.

    Attributes:
      pairs: (caption, image) of every candidate, once.
      proposed: number of candidates before repeated ones were dropped.
      near: all pairs that some model ranks among its first 25.
      queries: direction -> ids of the queries, for which `near` is known.
    """

    pairs: list[_Pair]
    proposed: int
    near: set[_Pair]
    queries: Mapping[str, np.ndarray]


def draw_queries(ids: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """Returns `count` of the ids (all for -1), in order."""
    if count < 0 or count >= len(ids):
        return np.asarray(ids)
    return ids[np.sort(generator.choice(len(ids), count, replace=False))]


def collect(
    models: Sequence["Source"],
    split: "EvalSplit",
    queries: Mapping[str, np.ndarray],
    top: int,
) -> Pool:
    """Returns the candidates of several models.

    Args:
      models: models that each propose their best items.
      split: the queries and galleries.
      queries: direction, `i2t` and `t2i`, -> ids of its queries.
      top: number of candidates per model and query.

    Raises:
      UserError: a model lacks a query or an item.
    """
    pairs: dict[_Pair, None] = {}
    near: set[_Pair] = set()
    proposed = 0
    for direction, asked in queries.items():
        lists = [best_items(each, split, direction, asked, max(top, DEPTH)) for each in models]
        for row, query in enumerate(asked.tolist()):
            for best in (ranked[row].tolist() for ranked in lists):
                found = [(query, each) if direction == "t2i" else (each, query) for each in best]
                near.update(found[:DEPTH])
                pairs.update(dict.fromkeys(found[:top]))
                proposed += len(found[:top])
    return Pool(list(pairs), proposed, near, queries)


def draw_up(
    pool: Pool,
    split: "EvalSplit",
    *,
    per_hit: int,
    qualification: int,
    generator: np.random.Generator,
) -> list[StudyUnit]:
    """Returns sets of candidates in random order, each with two golden pairs in random places.

    Args:
      pool: pool of candidates.
      split: split whose captions and images form the golden pairs.
      per_hit: largest number of candidates in a set; sizes differ by at most one.
      qualification: number of golden pairs in a set that every rater gets first, which no other
        set may have; 0 for none.
      generator: random generator for all draws.

    Raises:
      UserError: there are no golden pairs.
    """
    golden = _Golden(pool, split, generator)
    units = []
    if qualification:
        known = [golden.draw_once(place % 2 == 0) for place in range(qualification)]
        units.append(StudyUnit(_shuffle(known, generator), test=True))
    order = generator.permutation(len(pool.pairs))
    for rows in np.array_split(order, -(-len(order) // per_hit) or 1):
        chosen = [pool.pairs[row] for row in rows]
        asked = [StudyQuestion("match", caption, image) for caption, image in chosen]
        known = [golden.draw(positive, set(chosen)) for positive in (True, False)]
        units.append(StudyUnit(_shuffle([*asked, *known], generator)))
    return units


def _shuffle(
    questions: list[StudyQuestion], generator: np.random.Generator
) -> tuple[StudyQuestion, ...]:
    return tuple(questions[row] for row in generator.permutation(len(questions)))


class _Golden:
    """Draws golden pairs; positive ones are repeated only after all were used."""

    def __init__(self, pool: Pool, split: "EvalSplit", generator: np.random.Generator) -> None:
        self._generator, self._near = generator, pool.near | set(pool.pairs)
        captions, images = split.caption_ids.tolist(), split.image_ids.tolist()
        originals = [*zip(captions, split.caption_image_ids.tolist(), strict=True)]
        self._own = set(originals)
        # A pair without a query may be right: no model has ranked it.
        self._ranked = [
            (asked.tolist(), images) if direction == "t2i" else (captions, asked.tolist())
            for direction, asked in pool.queries.items()
        ]
        # Candidates are asked anyway, so they come last.
        self._candidates = candidates = set(pool.pairs)
        shuffled = [originals[row] for row in generator.permutation(len(originals))]
        self._positives = sorted(shuffled, key=candidates.__contains__)

    def draw(self, positive: bool, besides: set[_Pair]) -> StudyQuestion:
        """Returns a golden pair that is not among others."""
        caption, image = self._positive(besides) if positive else self._negative()
        return StudyQuestion("match", caption, image, golden="yes" if positive else "no")

    def draw_once(self, positive: bool) -> StudyQuestion:
        """Returns a golden pair that is not a candidate, and will not be drawn again."""
        question = self.draw(positive, self._candidates)
        if positive:
            self._positives.remove((question.left, question.right))
        return question

    def _positive(self, besides: set[_Pair]) -> _Pair:
        for place, pair in enumerate(self._positives):
            if pair not in besides:
                self._positives.append(self._positives.pop(place))
                return pair
        raise UserError(
            "Too few original pairs are not candidates, so none is left to be golden: lower "
            "--qualification, --per_hit or --top, or draw fewer queries by --images and --captions."
        )

    def _negative(self) -> _Pair:
        for _ in range(_ATTEMPTS):
            captions, images = self._ranked[self._generator.integers(len(self._ranked))]
            pair = (
                captions[self._generator.integers(len(captions))],
                images[self._generator.integers(len(images))],
            )
            if pair not in self._near and pair not in self._own:
                self._near.add(pair)  # It is not drawn again.
                return pair
        raise UserError(
            f"No pair is beyond the first {DEPTH} of all models, so none is known to be wrong: "
            "take a larger split, or fewer models."
        )

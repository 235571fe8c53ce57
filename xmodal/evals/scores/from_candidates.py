"""Answers directions from a file of candidates, the items that a second stage scored; writes one.

The rules are those of `second_stage`. Without embeddings of the first stage, the other items have
no order: metrics that depend on it are missing, as for ranked lists.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jax.sharding import Mesh

from xmodal.core.errors import UserError
from xmodal.evals.labels.definitions import DIRECTIONS
from xmodal.evals.labels.ids import Positions
from xmodal.evals.labels.positives import Ragged
from xmodal.evals.labels.types import Benchmark, DirectionLabels
from xmodal.evals.scores.files import open_source
from xmodal.evals.scores.galleries import Ids, find_items, order_embeddings
from xmodal.evals.scores.lists import answer_lists
from xmodal.evals.scores.ranks import RankedQueries, rank_queries
from xmodal.evals.scores.score_files import hash_arrays
from xmodal.evals.scores.score_rows import MatrixScores, Scores, equal_scores
from xmodal.evals.scores.second_stage import SecondStage, Stage
from xmodal.evals.scores.sources import Candidates, Embeddings, ScoreMatrix
from xmodal.evals.scores.vector_scores import open_scores
from xmodal.similarity import SIMILARITIES

_DIGITS = 12  # Of the hash that says which results are comparable.


class ScoredCandidates(Stage):
    """The second stage of a file, in the order of a split."""

    exact = True

    def __init__(
        self,
        source: Candidates,
        labels: Ids,
        *,
        mesh: Mesh | None = None,
        precision: str = "float32",
    ) -> None:
        """Takes a file that has all items of the labels; `precision` is that of its first stage.

        Raises:
          UserError: a candidate is not in the split.
        """
        self.definition, self.first_name = source.definition, ""
        self._given = {
            direction == "t2i": _order_candidates(source, direction, labels)
            for direction in source.directions
        }
        ranked: list[np.ndarray] = []
        parameters: Mapping[str, Any] = {}
        if source.first is None:
            self.first = equal_scores(len(labels.image_ids), len(labels.caption_ids))
        else:
            first = order_embeddings(source.first, labels)
            self.first_name, parameters = first.similarity, first.parameters
            ranked = list(first.by_modality.values())
            self.first = open_scores(first, mesh=mesh, precision=precision)["image", "text"]
        self._hashes = {
            transposed: hash_arrays(self.first_name, [np.sort(items), *ranked], parameters)
            for transposed, (items, _) in self._given.items()
        }

    def hash_of_given(self, transposed: bool) -> str:
        """See `Stage`."""
        return self._hashes[transposed][:_DIGITS]

    def positions(self, transposed: bool) -> np.ndarray:
        """See `Stage`."""
        return self._given[transposed][0]

    def candidates(
        self, transposed: bool, asked: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `Stage`."""
        del asked
        return self._given[transposed]

    def whole(self) -> Scores | None:
        """Returns the scores of images and captions, if all pairs of a direction have one."""
        for transposed, (items, _) in self._given.items():
            if items.shape[1] == self.first_stage(transposed).shape[1]:
                matrix = self(transposed).rows(np.arange(len(items)))
                return MatrixScores(matrix.T if transposed else matrix)
        return None

    def answer(self, benchmarks: Sequence[Benchmark]) -> dict[tuple[str, str], RankedQueries]:
        """Answers the directions of benchmarks that have candidates, by (benchmark, direction)."""
        found: dict[tuple[str, str], RankedQueries] = {}
        for transposed in self._given:
            asked = {
                (benchmark.name, name): direction
                for benchmark in benchmarks
                for name, direction in benchmark.directions.items()
                if DIRECTIONS[name] == (("text", "image") if transposed else ("image", "text"))
            }
            found |= zip(asked, self._rank(list(asked.values()), transposed), strict=True)
        return found

    def _rank(self, directions: list[DirectionLabels], transposed: bool) -> list[RankedQueries]:
        items, scores = self._given[transposed]
        gallery = self.first_stage(transposed).shape[1]
        if self.first_name or items.shape[1] == gallery:
            return rank_queries(self(transposed), directions)
        lists = np.take_along_axis(items, np.lexsort((items, -scores)), axis=1)
        offsets = np.arange(len(lists) + 1) * lists.shape[1]
        ragged = Ragged(offsets, lists.ravel().astype(np.int32))
        return [answer_lists(ragged, direction, gallery) for direction in directions]


def _order_candidates(
    source: Candidates, direction: str, labels: Ids
) -> tuple[np.ndarray, np.ndarray]:
    """Positions [Q, K] of the candidates of a direction in the split, and their scores."""
    modalities = [
        ("image", source.image_ids, labels.image_ids),
        ("caption", source.caption_ids, labels.caption_ids),
    ]
    (query, given, queries), (item, _, items) = (
        modalities if direction == "i2t" else modalities[::-1]
    )
    rows = find_items(source.place, query, given, queries)
    ids, scores = (array[rows] for array in source.directions[direction])
    positions = Positions(item, items).find(ids)
    if (positions < 0).any():
        row, column = np.argwhere(positions < 0)[0]
        raise UserError(
            f"{direction}_candidates in {source.place}: {query} {queries[row]} names {item} "
            f"{ids[row, column]}, one of {np.sum(positions < 0):,} entries that are not {item}s "
            "of this split; score the items of one split, and name it in `split`."
        )
    return positions, scores


def collect_scores(
    stage: SecondStage, source: Embeddings, labels: Ids, first_stage: str
) -> Candidates | ScoreMatrix:
    """Returns the pairs that a second stage scored, as a file has them.

    Args:
      stage: the second stage; pairs that it has scored are not scored again.
      source: the embeddings that it scored pairs of.
      labels: items, whose order the result has.
      first_stage: file of the first stage; "" for the embeddings themselves.
    """
    ids = labels.image_ids, labels.caption_ids
    if stage.scores_all:
        return ScoreMatrix(source.place, *ids, stage.candidates(False)[1])
    directions = {}
    for direction, items in (("i2t", labels.caption_ids), ("t2i", labels.image_ids)):
        positions, scores = stage.candidates(direction == "t2i")
        directions[direction] = np.asarray(items, np.int64)[positions], scores
    first: Any = open_source("embeddings", first_stage) if first_stage else source
    # Token sets are not read from such a file.
    if first.similarity in SIMILARITIES:
        first = dataclasses.replace(order_embeddings(first, labels), predictions={}, pairs=None)
    else:
        first = None
    return Candidates(source.place, *ids, directions, stage.definition, first)

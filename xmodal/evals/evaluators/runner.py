"""Computes benchmarks: the scores of every two galleries once, for all benchmarks together."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jax.sharding import Mesh

from xmodal.core.errors import UserError
from xmodal.evals.labels.definitions import DIRECTIONS, KINDS
from xmodal.evals.labels.ids import Positions
from xmodal.evals.labels.types import Benchmark, DirectionLabels, GradedPairs, Labels
from xmodal.evals.reports.chance import compute_chance
from xmodal.evals.reports.metrics import (
    compute_influence,
    compute_recall_values,
    compute_shares,
    compute_spearman,
    draw_pairs,
)
from xmodal.evals.reports.results import CorrelationResult, DirectionResult, Rescored, Result
from xmodal.evals.scores import galleries
from xmodal.evals.scores.files import name_of, open_source
from xmodal.evals.scores.lists import answer_lists, order_rankings, pad_lists, sort_candidates
from xmodal.evals.scores.ranks import RankedQueries, has_positives, rank_directions, rank_queries
from xmodal.evals.scores.rerank import (
    PairReranker,
    RerankedScores,
    RowReranker,
    SecondStage,
    describe_candidates,
)
from xmodal.evals.scores.score_files import hash_arrays
from xmodal.evals.scores.score_rows import MatrixScores, Scores
from xmodal.evals.scores.sources import (
    Candidates,
    Embeddings,
    Predictions,
    RankedLists,
    ScoreMatrix,
    Source,
)
from xmodal.evals.scores.vector_scores import open_scores

_DIGITS = 12  # Digits of the hash that distinguishes files with the same name.

Modalities = tuple[str, str]
Reranker = RowReranker | PairReranker
Key = tuple[str, str]
"""Names of benchmark and direction."""


class OpenScores:
    """The scores between every two galleries of a split, and those that rank its directions.

    Attributes:
      between: scores by the modalities of queries and items.
      stage: the second stage, if there is one; nothing is computed yet.
    """

    def __init__(
        self,
        source: Embeddings | ScoreMatrix,
        labels: galleries.Ids,
        *,
        mesh: Mesh | None = None,
        reranker: Reranker | None = None,
        task: str = "",
        precision: str = "float32",
    ) -> None:
        """Opens the scores of a source in the order of the labels, see `compute_benchmarks`."""
        self._reranker, self._task = reranker, task
        self.between: dict[Modalities, Scores] = {}
        self.stage: SecondStage | None = None
        pairs, name, both = None, "", ("image", "text")
        if isinstance(source, ScoreMatrix):
            self.between[both] = galleries.order_scores(source, labels)
        else:
            source = galleries.order_embeddings(source, labels)
            pairs, name = source.pairs, source.similarity
            if source.modalities:
                self.between = open_scores(source, mesh=mesh, precision=precision)
        self._source = source
        if isinstance(reranker, PairReranker):
            if reranker.first_stage:
                self.between[both], name = _open_first_stage(reranker.first_stage, labels, mesh)
            elif both not in self.between:
                shape, name = (len(labels.image_ids), len(labels.caption_ids)), ""
                self.between[both] = MatrixScores(np.broadcast_to(np.float32(0), shape))
            self.stage = SecondStage(self.between[both], name, pairs, reranker, source.place)
        elif isinstance(source, Embeddings) and not source.modalities:
            raise UserError(
                f"{source.place} has no embeddings, only a cross-encoder: set the evaluator's "
                "reranker to {'name': 'cross_encoder'}."
            )

    def ranking(self, direction: str, asked: np.ndarray | None = None) -> Scores:
        """Returns the scores that rank the queries of a direction.

        `asked`: bool [Q], queries that are ranked; scores of others may be arbitrary. None for all.
        """
        modalities = DIRECTIONS[direction]
        transposed = modalities not in self.between
        between = self.between[modalities[::-1] if transposed else modalities]
        if self._reranker is None or modalities[0] == modalities[1]:
            return between.transpose() if transposed else between
        if isinstance(self._reranker, PairReranker):
            assert self.stage is not None
            return self.stage(transposed, asked)
        predictions = predictions_of(self._source, self._task)
        return RerankedScores(between, predictions, self._reranker, transposed=transposed)

    def answer(
        self,
        asked: Mapping[Key, DirectionLabels],
        rated: Mapping[str, GradedPairs],
        budget: int | None,
    ) -> tuple[dict[Key, RankedQueries], dict[str, np.ndarray]]:
        """Ranks all directions of benchmarks, and returns the scores of rated pairs by rating.

        The scores of every two galleries are computed once, if they fit the budget, and are
        released before those of the next.
        """
        answers: dict[Key, RankedQueries] = {}
        values: dict[str, np.ndarray] = {}
        for modalities, between in self.between.items():
            within = modalities[0] == modalities[1]
            both = [
                [key for key in asked if DIRECTIONS[key[1]] == compared]
                for compared in dict.fromkeys((modalities, modalities[::-1]))
            ]
            lists = [[asked[key] for key in keys] for keys in both]
            oriented = {name: _orient(pairs) for name, pairs in rated.items()}
            ends = {name: pair for name, (each, pair) in oriented.items() if each == modalities}
            if within or self._reranker is None:
                *found, read = rank_directions(
                    between, *lists, rated=[*ends.values()], exclude_self=within, budget=budget
                )
            else:
                found = []
                for keys, each in zip(both, lists, strict=True):
                    queries = np.any([has_positives(labels) for labels in each], axis=0)
                    found.append(
                        rank_queries(self.ranking(keys[0][1], queries), each) if each else []
                    )
                read = [(self.stage or between).pairs(*pair) for pair in ends.values()]
            for keys, ranked in zip(both, found, strict=False):
                answers |= zip(keys, ranked, strict=True)
            values |= zip(ends, read, strict=True)
        return answers, values


def _orient(pairs: GradedPairs) -> tuple[Modalities, tuple[np.ndarray, np.ndarray]]:
    """The modalities of pairs and their positions, images first."""
    if pairs.modalities == ("text", "image"):
        return ("image", "text"), (pairs.right, pairs.left)
    return pairs.modalities, (pairs.left, pairs.right)


def predictions_of(source: Source, task: str) -> Predictions:
    """Returns what a task predicts for the pairs of a source."""
    known = source.predictions if isinstance(source, Embeddings) else {}
    if task not in known:
        raise UserError(
            f"{source.place} has no predictions of task {task!r}; name one of {sorted(known)}."
        )
    return known[task]


def compute_benchmarks(
    source: Source,
    labels: Labels,
    benchmarks: Sequence[Benchmark],
    *,
    bootstrap_samples: int = 1000,
    seed: int = 0,
    budget: int | None = None,
    **opening: Any,
) -> list[Result]:
    """Computes everything on the benchmarks that the source allows, and names the rest.

    Args:
      source: embeddings, scores, candidates or ranked lists that have all items of the labels.
      labels: labels of the split; they name the queries and group the captions of one image.
      benchmarks: benchmarks to compute.
      bootstrap_samples: samples of every correlation.
      seed: seed of their draws.
      budget: bytes that a matrix of scores may take, see `rank_directions`.
      opening: `mesh`: galleries are sharded over its `data` axis. `precision`: "float32" or
        "float64", of scores of vectors. `reranker`, which maps complete rows of scores between
        images and captions to the rows to rank by, while correlations use the original scores; or
        scores pairs, also those of correlations. `task`: whose predictions it uses.
    """
    asked = {(each.name, name): x for each in benchmarks for name, x in each.directions.items()}
    rated = {name: x for each in benchmarks for name, x in each.graded.items()}
    values: dict[str, np.ndarray] = {}
    rescored: dict[Key, Rescored] = {}
    if isinstance(source, RankedLists | Candidates):
        if opening.get("reranker") is not None:
            raise UserError(f"{source.place} has ranked lists; remove the reranker.")
        answers, rescored = _read_lists(source, labels, asked)
    else:
        opened = OpenScores(source, labels, **opening)
        answers, values = opened.answer(asked, rated, budget)
        if opened.stage is not None:
            rescored = {
                key: opened.stage.describe(each, key[1] == "t2i")
                for key, each in asked.items()
                if key[1] in ("i2t", "t2i")
            }
    images, correlations = images_of(labels), dict[str, CorrelationResult]()
    for name, found in values.items():
        ends = zip(*_orient(rated[name]), strict=True)
        shown = np.stack([images[modality][at] for modality, at in ends])
        correlations[name] = correlate(found, rated[name], shown, bootstrap_samples, seed)
    results = []
    for benchmark in benchmarks:
        directions = {
            name: _make_result(labels, name, each, answers[key], rescored.get(key))
            for name, each in benchmark.directions.items()
            if (key := (benchmark.name, name)) in answers
        }
        correlated = {name: correlations[name] for name in benchmark.graded if name in correlations}
        skipped = {
            name: _why_skipped(source, needed, name)
            for name, needed in sorted(benchmark.compared.items())
            if name not in directions | correlated
        }
        facts = (benchmark.name, benchmark.definition, benchmark.label_hash)
        results.append(Result(*facts, directions, correlated, skipped))
    return results


def _read_lists(
    source: RankedLists | Candidates, labels: Labels, asked: Mapping[Key, DirectionLabels]
) -> tuple[dict[Key, RankedQueries], dict[Key, Rescored]]:
    """Answers the directions that have lists, and describes the candidates of a file."""
    lists = sort_candidates(source) if isinstance(source, Candidates) else source
    sizes = {"image": len(labels.image_ids), "text": len(labels.caption_ids)}
    answers: dict[Key, RankedQueries] = {}
    rescored: dict[Key, Rescored] = {}
    for direction, ranked in order_rankings(lists, labels, asked).items():
        gallery = sizes[DIRECTIONS[direction][1]]
        own = {key: each for key, each in asked.items() if key[1] == direction}
        answers |= {key: answer_lists(ranked, each, gallery) for key, each in own.items()}
        if isinstance(source, Candidates):
            table = np.sort(pad_lists(ranked), axis=1)
            given = hash_arrays("", [table], {})[:_DIGITS]
            for key, each in own.items():
                rescored[key] = describe_candidates(
                    table, each, gallery, source.definition, given=given
                )
    return answers, rescored


def _open_first_stage(path: str, items: galleries.Ids, mesh: Mesh | None) -> tuple[Scores, str]:
    """The scores of images and captions of a file of embeddings, in the order of the items.

    And their name, with the similarity, the file's name and its hash: "cosine of vse (sha256
    0123...)".
    """
    found = open_source("embeddings", path)
    assert isinstance(found, Embeddings)
    ordered = galleries.order_embeddings(found, items)
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:_DIGITS]
    name = f"{found.similarity} of {name_of(path)} (sha256 {digest})"
    return open_scores(ordered, mesh=mesh)["image", "text"], name


def correlate(
    values: np.ndarray, pairs: GradedPairs, images: np.ndarray, samples: int, seed: int
) -> CorrelationResult:
    """Returns the correlation of scores with the ratings of pairs.

    Args:
      values: scores of the pairs, floats [P].
      pairs: P pairs with their ratings.
      images: int64 [2, P], ids of the images that both items show or describe.
      samples: samples of the correlation.
      seed: seed of their draws.
    """
    drawn = draw_pairs(pairs.pairs_of_query, samples=samples, seed=seed)
    shares = compute_shares(pairs.pairs_of_query, len(values))
    influence = compute_influence(values, pairs.scores, shares)
    return CorrelationResult(
        samples=100.0 * compute_spearman(values, pairs.scores, drawn),
        pairs_per_sample=drawn.shape[1],
        images=images,
        influence=(100.0 * influence).astype(np.float32),
    )


def images_of(labels: Labels) -> dict[str, np.ndarray]:
    """Returns the id of the image that every item shows or describes, int64, by modality."""
    ids = {"image": labels.image_ids, "text": labels.caption_image_ids}
    return {modality: np.asarray(each, np.int64) for modality, each in ids.items()}


def _make_result(
    labels: Labels,
    direction: str,
    positives: DirectionLabels,
    answer: RankedQueries,
    rescored: Rescored | None,
) -> DirectionResult:
    """The results of the queries with a positive."""
    query, gallery = DIRECTIONS[direction]
    is_same, rows = query == gallery, np.flatnonzero(has_positives(positives))
    image_ids, own = np.asarray(labels.image_ids), np.asarray(labels.caption_image_ids)
    ids = {"image": image_ids, "text": np.asarray(labels.caption_ids)}
    clusters = np.arange(len(image_ids))
    if query == "text":
        # In a part of a split, a caption's image may be missing.
        image = Positions("image", image_ids).find(own)
        absent = len(image_ids) + np.unique(own, return_inverse=True)[1]
        clusters = np.where(image >= 0, image, absent)
    values = {metric: each[rows] for metric, each in answer.values.items()}
    rank = None if answer.rank is None else answer.rank[rows]
    if rank is not None:
        values = compute_recall_values(rank, positives.metrics) | values
    items = len(ids[gallery])
    chance = compute_chance(positives, items, exclude_self=is_same)
    if positives.folds is not None:
        sizes = np.bincount(positives.folds[1])
        items = int(sizes[positives.folds[0][rows]].max(initial=0))
    return DirectionResult(
        query_ids=ids[query][rows].astype(np.int64), clusters=clusters[rows].astype(np.int32),
        values=values, rank=rank, tied=None if answer.tied is None else answer.tied[rows],
        rounded=answer.rounded, gallery=items - is_same, skipped=len(ids[query]) - len(rows),
        has_median="median_rank" in positives.metrics and rank is not None,
        missing=answer.missing, rescored=rescored, chance=chance,
    )  # fmt: skip


def _why_skipped(source: Source, needed: Modalities, name: str) -> str:
    if not isinstance(source, Embeddings):
        kind = {RankedLists: "lists", Candidates: "candidates", ScoreMatrix: "scores"}[type(source)]
        is_listed = name in ("i2t", "t2i")
        return f"there are no {name} {kind}" if is_listed else f"the {kind} lack them"
    missing = [
        KINDS[modality] for modality in dict.fromkeys(needed) if modality not in source.modalities
    ]
    if not missing:
        return f"the similarity {source.similarity!r} compares images with captions only"
    return f"there are no {' and no '.join(missing)} embeddings"

"""Computes benchmarks: the scores of every two galleries once, for all benchmarks together."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath
from jax.sharding import Mesh

from xmodal.core.errors import UserError
from xmodal.core.files import sha256_of
from xmodal.evals.labels.definitions import DIRECTIONS, KINDS
from xmodal.evals.labels.ids import Positions
from xmodal.evals.labels.types import Benchmark, DirectionLabels, GradedPairs, Labels
from xmodal.evals.reports import metrics
from xmodal.evals.reports.chance import compute_chance
from xmodal.evals.reports.results import CorrelationResult, DirectionResult, Result
from xmodal.evals.scores import sources
from xmodal.evals.scores.files import name_of, open_source
from xmodal.evals.scores.lists import answer_lists
from xmodal.evals.scores.ranks import RankedQueries, has_positives, rank_directions
from xmodal.evals.scores.rerank import (
    PairReranker,
    RerankedScores,
    RowReranker,
    TwoStages,
    predictions_of,
)
from xmodal.evals.scores.score_rows import MatrixScores, Scores
from xmodal.evals.scores.vector_scores import open_scores

_DIGITS = 12  # Digits of the hash that distinguishes files with the same name.

Modalities = tuple[str, str]


def open_galleries(
    source: sources.Embeddings | sources.ScoreMatrix,
    labels: sources.Ids,
    *,
    mesh: Mesh | None = None,
    reranker: RowReranker | PairReranker | None = None,
    task: str = "",
    precision: str = "float32",
) -> dict[Modalities, Scores]:
    """Returns the scores that rank the items of a split, by the modalities of queries and items.

    They are in the order of the labels, see `compute_benchmarks`. Pairs of modalities that the
    source cannot compare are missing; nothing is computed yet.
    """
    both, positions = ("image", "text"), sources.find_items(source, labels)
    opened: dict[Modalities, Scores] = {}
    pairs, name = None, ""
    if isinstance(source, sources.ScoreMatrix):
        opened[both] = MatrixScores(source.matrix, *positions)
    else:
        source = source.take(*positions)
        pairs, name = source.pairs, source.similarity
        opened = open_scores(source, mesh=mesh, precision=precision) if source.modalities else {}
    if isinstance(reranker, PairReranker):
        if reranker.first_stage:
            path = reranker.first_stage
            first: Any = open_source("embeddings", path)
            digits = sha256_of(epath.Path(path))[:_DIGITS]
            name = f"{first.similarity} of {name_of(path)} (sha256 {digits})"
            opened[both] = open_scores(sources.order_embeddings(first, labels), mesh=mesh)[both]
        elif both not in opened:
            shape, name = (len(labels.image_ids), len(labels.caption_ids)), ""
            opened[both] = MatrixScores(np.broadcast_to(np.float32(0), shape))
        opened[both] = TwoStages(opened[both], name, pairs, reranker, source.place)
    elif reranker is not None and both in opened:
        opened[both] = RerankedScores(opened[both], predictions_of(source, task), reranker)
    return opened


def scores_of(opened: Mapping[Modalities, Scores], direction: str) -> Scores:
    """Returns the scores of a direction's queries among those of `open_galleries`."""
    queries, items = DIRECTIONS[direction]
    if (queries, items) in opened:
        return opened[queries, items]
    return opened[items, queries].transpose()


def compute_benchmarks(
    source: sources.Source,
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
      opening: `mesh`: devices over which galleries are split. `precision`: "float32" or
        "float64", of scores of vectors. `reranker`, which maps complete rows of scores between
        images and captions to the rows to rank by, while correlations use the original scores; or
        scores pairs, also those of correlations. `task`: whose predictions it uses.
    """
    asked = {(each.name, name): x for each in benchmarks for name, x in each.directions.items()}
    rated = {name: x for each in benchmarks for name, x in each.graded.items()}
    oriented = {name: _orient(pairs) for name, pairs in rated.items()}
    answers, opened = dict[tuple[str, str], RankedQueries](), dict[Modalities, Scores]()
    if not isinstance(source, sources.RankedLists | sources.Candidates):
        opened = open_galleries(source, labels, **opening)
    elif opening.get("reranker") is None:
        answers = answer_lists(source, labels, asked)
    else:
        raise UserError(f"{source.place} has ranked lists; remove the reranker.")
    correlations: dict[str, CorrelationResult] = {}
    # The scores of two galleries are released before those of the next are computed.
    for modalities, scores in opened.items():
        keys = [
            [key for key in asked if DIRECTIONS[key[1]] == compared]
            for compared in dict.fromkeys((modalities, modalities[::-1]))
        ]
        ends = {name: pair for name, (each, pair) in oriented.items() if each == modalities}
        *found, read = rank_directions(
            scores, *([asked[key] for key in each] for each in keys), rated=[*ends.values()],
            exclude_self=len(keys) == 1, budget=budget,
        )  # fmt: skip
        for each, ranked in zip(keys, found, strict=False):
            answers |= zip(each, ranked, strict=True)
        for name, values in zip(ends, read, strict=True):
            correlations[name] = correlate(values, rated[name], labels, bootstrap_samples, seed)
    results, reasons = [], _explain_skipped(source, benchmarks)
    for benchmark in benchmarks:
        directions = {
            name: _make_result(labels, name, each, answers[benchmark.name, name])
            for name, each in benchmark.directions.items()
            if (benchmark.name, name) in answers
        }
        correlated = {name: correlations[name] for name in benchmark.graded if name in correlations}
        left_out = sorted(benchmark.compared.keys() - directions.keys() - correlated.keys())
        skipped = {name: reasons[name] for name in left_out}
        named = benchmark.name, benchmark.definition, benchmark.label_hash
        found = Result(*named, directions, correlated, skipped, label_set=benchmark.label_set)
        results.append(found)
    if not any(each.directions or each.correlations for each in results):
        why = "; ".join(sorted({reason for each in results for reason in each.skipped.values()}))
        hint = ""
        if isinstance(source, sources.Embeddings) and source.pairs is not None:
            hint = " Set the evaluator's reranker to {'name': 'cross_encoder'}."
        raise UserError(f"{source.place} has nothing to rank by: {why}.{hint}")
    return results


def _orient(pairs: GradedPairs) -> tuple[Modalities, tuple[np.ndarray, np.ndarray]]:
    """The modalities of pairs and their positions, images first."""
    if pairs.modalities == ("text", "image"):
        return ("image", "text"), (pairs.right, pairs.left)
    return pairs.modalities, (pairs.left, pairs.right)


def correlate(
    values: np.ndarray, pairs: GradedPairs, labels: Labels, samples: int, seed: int
) -> CorrelationResult:
    """Returns the correlation of scores with the ratings of pairs.

    Args:
      values: scores of the pairs, floats [P].
      pairs: P pairs with their ratings.
      labels: labels with the items of the pairs.
      samples: samples of the correlation.
      seed: seed of their draws.
    """
    images, ends = _images_of(labels), zip(*_orient(pairs), strict=True)
    drawn = metrics.draw_pairs(pairs.pairs_of_query, samples=samples, seed=seed)
    shares = metrics.compute_shares(pairs.pairs_of_query, len(values))
    influence = metrics.compute_influence(values, pairs.scores, shares)
    return CorrelationResult(
        samples=100.0 * metrics.compute_spearman(values, pairs.scores, drawn),
        pairs_per_sample=drawn.shape[1],
        images=np.stack([images[modality][at] for modality, at in ends]),
        influence=(100.0 * influence).astype(np.float32),
    )


def _images_of(labels: Labels) -> dict[str, np.ndarray]:
    """The id of the image that every item shows or describes, int64, by modality."""
    ids = {"image": labels.image_ids, "text": labels.caption_image_ids}
    return {modality: np.asarray(each, np.int64) for modality, each in ids.items()}


def _make_result(
    labels: Labels, direction: str, positives: DirectionLabels, answer: RankedQueries
) -> DirectionResult:
    """The results of the queries with a positive."""
    query, gallery = DIRECTIONS[direction]
    ids = {"image": np.asarray(labels.image_ids), "text": np.asarray(labels.caption_ids)}
    rows, own = np.flatnonzero(has_positives(positives)), _images_of(labels)[query]
    image = Positions("image", labels.image_ids).find(own)
    # In a part of a split, a caption's image may be missing.
    absent = len(labels.image_ids) + np.unique(own, return_inverse=True)[1]
    sizes = np.full(len(own), len(ids[gallery]))
    if positives.folds is not None:
        sizes = np.bincount(positives.folds[1])[positives.folds[0]]
    sizes = sizes[rows] - (query == gallery)
    return DirectionResult(
        query_ids=ids[query][rows].astype(np.int64),
        clusters=np.where(image >= 0, image, absent)[rows].astype(np.int32),
        values={metric: each[rows] for metric, each in answer.values.items()},
        rank=None if answer.rank is None else answer.rank[rows],
        tied=None if answer.tied is None else answer.tied[rows],
        rounded=answer.rounded, gallery=sizes.max(initial=0), skipped=len(own) - len(rows),
        has_median="median_rank" in positives.metrics and answer.rank is not None,
        missing=answer.missing, rescored=answer.rescored, chance=compute_chance(positives, sizes),
    )  # fmt: skip


def _explain_skipped(source: sources.Source, benchmarks: Sequence[Benchmark]) -> dict[str, str]:
    """Why a direction or rating would be left out, by its name."""
    compared = {name: each for one in benchmarks for name, each in one.compared.items()}
    if not isinstance(source, sources.Embeddings):
        return dict.fromkeys(compared, "the file lacks them")
    reasons = dict.fromkeys(
        compared, f"the similarity {source.similarity!r} compares images with captions only"
    )
    for name, needed in compared.items():
        missing = [KINDS[each] for each in dict.fromkeys(needed) if each not in source.modalities]
        if missing:
            reasons[name] = f"there are no {' and no '.join(missing)} embeddings"
    return reasons

"""Candidates of a file against two keys and against the matrix of all scores."""

import dataclasses

import numpy as np
import pytest

from tests.evals.scores.second_stage_test import open_case, slow_order
from tests.evals.tiny_split import TinySplit
from xmodal.evals import make_evaluator, read_options
from xmodal.evals.evaluators.benchmarks import labels_of_split
from xmodal.evals.evaluators.runner import compute_benchmarks
from xmodal.evals.labels.make import make_benchmarks
from xmodal.evals.scores.arrays import load_scores
from xmodal.evals.scores.from_candidates import ScoredCandidates
from xmodal.evals.scores.saving import save_scores
from xmodal.evals.scores.sources import Candidates, Embeddings, ScoreMatrix

SPLIT = TinySplit()
OWN = np.array([0, 0, 0, 1, 1, 2, 2, 3])


def choose(first, second, top, ids, queries):
    """Ids and scores of the best items of a first stage, in the given order of the queries."""
    order = np.argsort(-first, axis=1, kind="stable")[:, :top]
    order = np.random.default_rng(1).permuted(order, axis=1)  # Any order within a row.
    return ids[order][queries], np.take_along_axis(second, order, axis=1)[queries]


def make_source(table, top, first=None, seed=2):
    """Candidates of both directions for the items of the split, in another order."""
    rng = np.random.default_rng(seed)
    images, captions = rng.permutation(4), rng.permutation(8)
    ranks = rng.normal(size=table.shape) if first is None else first.images @ first.captions.T
    if first is not None:
        first = dataclasses.replace(
            first, image_ids=first.image_ids[images], images=first.images[images]
        )
    directions = {
        "i2t": choose(ranks, table, top, SPLIT.caption_ids, images),
        "t2i": choose(ranks.T, table.T, min(top, 4), SPLIT.image_ids, captions),
    }
    ids = SPLIT.image_ids[images], SPLIT.caption_ids[captions]
    return Candidates("file", *ids, directions, "logit", first)


def embed(images, captions):
    return Embeddings("file", SPLIT.image_ids, images, SPLIT.caption_ids, captions, "dot")


def evaluate(source):
    labels = labels_of_split(SPLIT, ())
    results = compute_benchmarks(
        source, labels, make_benchmarks(labels, None), bootstrap_samples=10
    )
    return {benchmark.name: benchmark for benchmark in results}


def without_reranker():
    (options,) = read_options({"shapes": {"type": "benchmarks"}}).values()
    return make_evaluator("shapes", options, SPLIT, ("image", "text"))


def test_all_items_as_candidates_are_the_matrix():
    table = np.random.default_rng(0).integers(0, 3, (4, 8)) + 1e-9 * np.arange(8)  # With ties.
    table[:, 1] = table[:, 0]
    whole = evaluate(ScoreMatrix("file", SPLIT.image_ids, SPLIT.caption_ids, table))
    for first in (None, embed(np.ones((4, 2), np.float32), np.ones((8, 2), np.float32))):
        found = evaluate(make_source(table, 8, first))
        assert list(found) == list(whole)
        for name, benchmark in whole.items():
            assert set(benchmark.directions) == set(found[name].directions)
            for direction, expected in benchmark.directions.items():
                own = found[name].directions[direction]
                np.testing.assert_array_equal(own.rank, expected.rank)
                np.testing.assert_array_equal(own.tied, expected.tied)
                np.testing.assert_equal(own.values, expected.values)
                assert own.rescored.candidates == "all items"
        sits, expected = (each["shapes"].correlations["sits"] for each in (found, whole))
        np.testing.assert_array_equal(sits.influence, expected.influence)


@pytest.mark.parametrize("transposed", [False, True])
def test_two_keys_rank_a_few_candidates(transposed):
    rng = np.random.default_rng(3)
    first = embed(*(np.round(rng.normal(size=(n, 2)), 1).astype(np.float32) for n in (4, 8)))
    table = np.round(rng.normal(size=(4, 8)) - 3, 1).astype(np.float32)
    stage = ScoredCandidates(make_source(table, 3, first), SPLIT)
    towers = first.images @ first.captions.T
    if transposed:
        towers, table = towers.T, table.T
    rows, columns = np.indices(table.shape)
    found = stage(transposed).pairs(rows.ravel(), columns.ravel()).reshape(table.shape)
    for query, row in enumerate(found):
        places, kept = slow_order(towers[query], table[query], 3)
        assert np.unique(-row, return_inverse=True)[1].tolist() == places
        np.testing.assert_array_equal(row[kept], table[query][kept])
    assert stage.whole() is None


def test_without_a_first_stage_only_determined_metrics_exist():
    table = np.random.default_rng(5).normal(size=(4, 8)).astype(np.float32)
    source = make_source(table, 2)
    benchmark = evaluate(source)["shapes_own"]
    scored = dict(
        zip(source.caption_ids.tolist(), zip(*source.directions["t2i"], strict=True), strict=True)
    )
    hits, missed = [], 0
    for caption, own in zip(SPLIT.caption_ids.tolist(), OWN, strict=True):
        ids, scores = scored[caption]
        best = ids[np.argmax(scores)]
        hits.append(100.0 * (best == SPLIT.image_ids[own]))
        missed += SPLIT.image_ids[own] not in ids
    direction = benchmark.directions["t2i"]
    assert direction.values["recall@1"].tolist() == hits
    assert 0 < missed < 8
    assert set(direction.missing) >= {"recall@5", "median_rank"}
    facts = direction.rescored
    assert (facts.missed, facts.queries, facts.top) == (missed, 8, 2)
    assert facts.describe() == (
        f"ranked by logit among 2 given candidates (sha256 {facts.given}), which lack {missed} of "
        f"8 positives, and all positives of {missed} of 8 queries; other items are not ranked"
    )
    assert benchmark.directions["i2t"].rescored.given != facts.given
    assert "sits" not in evaluate(source)["shapes"].correlations


@pytest.mark.parametrize("top", [2, 5, None])
def test_saved_scores_of_a_reranker_give_its_results(top, tmp_path):
    table = np.random.default_rng(6).normal(size=(4, 8)).astype(np.float32)
    evaluator, source = open_case(table, top=top, first_stage_weight=0.5)
    path = tmp_path / "scores.npz"
    save_scores(path, evaluator.scores(source))
    found = load_scores(path)
    if top is None:
        assert isinstance(found, ScoreMatrix)
    else:
        assert found.definition == "logit of a table + 0.5 dot"
        assert [len(ids[0]) for ids, _ in found.directions.values()] == [top, min(top, 4)]
    benchmarks = {benchmark.name: benchmark for benchmark in without_reranker().run(found)}
    for expected in evaluator.run(source):
        for name in ("i2t", "t2i"):
            if name in expected.directions:
                one, other = (
                    each.directions[name] for each in (benchmarks[expected.name], expected)
                )
                np.testing.assert_array_equal(one.rank, other.rank)
                np.testing.assert_array_equal(one.tied, other.tied)
                np.testing.assert_equal(one.values, other.values)

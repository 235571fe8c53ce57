"""Candidates of a file against lists and scores."""

import numpy as np
import pytest

from tests.evals.scores.second_stage_test import open_case
from tests.evals.tiny_split import TinySplit
from xmodal.evals import make_evaluator, read_options
from xmodal.evals.scores.files import load_rankings, load_scores, save_rankings, save_scores
from xmodal.evals.scores.sources import Candidates, ScoreMatrix

SPLIT = TinySplit()
OWN = np.array([0, 0, 0, 1, 1, 2, 2, 3])
TABLE = np.random.default_rng(5).normal(size=(4, 8)).astype(np.float32)


def choose(scores, top, ids, queries, seed=2):
    """Ids and scores of random items, in the given order of the queries."""
    order = np.random.default_rng(seed).permuted(np.indices(scores.shape)[1], axis=1)[:, :top]
    return ids[order][queries], np.take_along_axis(scores, order, axis=1)[queries]


def make_source(top):
    """Candidates of both directions for the items of the split, in another order."""
    rng = np.random.default_rng(2)
    images, captions = rng.permutation(4), rng.permutation(8)
    directions = {
        "i2t": choose(TABLE, top, SPLIT.caption_ids, images),
        "t2i": choose(TABLE.T, min(top, 4), SPLIT.image_ids, captions),
    }
    return Candidates(
        "file", SPLIT.image_ids[images], SPLIT.caption_ids[captions], directions, "logit"
    )


def evaluate(source):
    (options,) = read_options({"shapes": {"type": "benchmarks"}}).values()
    evaluator = make_evaluator("shapes", options, SPLIT, ("image", "text"))
    return {benchmark.name: benchmark for benchmark in evaluator.run(source)}


def test_all_items_as_candidates_rank_as_the_matrix():
    whole = evaluate(ScoreMatrix("file", SPLIT.image_ids, SPLIT.caption_ids, TABLE))
    found = evaluate(make_source(8))
    for name, benchmark in whole.items():
        for direction in {"i2t", "t2i"} & set(benchmark.directions):
            own, expected = (each[name].directions[direction] for each in (found, whole))
            np.testing.assert_array_equal(own.rank, expected.rank)
            np.testing.assert_array_equal(own.values["recall@5"], expected.values["recall@5"])
            assert own.rescored.candidates == "all items"


def test_only_determined_metrics_exist():
    source = make_source(2)
    benchmarks = evaluate(source)
    scored = dict(
        zip(source.caption_ids.tolist(), zip(*source.directions["t2i"], strict=True), strict=True)
    )
    hits, missed = [], 0
    for caption, own in zip(SPLIT.caption_ids.tolist(), OWN, strict=True):
        ids, scores = scored[caption]
        hits.append(100.0 * (ids[np.argmax(scores)] == SPLIT.image_ids[own]))
        missed += SPLIT.image_ids[own] not in ids
    direction = benchmarks["shapes_own"].directions["t2i"]
    assert direction.values["recall@1"].tolist() == hits
    assert 0 < missed < 8
    assert set(direction.missing) >= {"recall@5", "median_rank"}
    facts = direction.rescored
    assert facts.candidates.startswith("2 given candidates (sha256 ")
    assert facts.description == (
        f"ranked by logit among {facts.candidates}, which lack {missed} of "
        f"8 positives, and all positives of {missed} of 8 queries; other items are not ranked"
    )
    other = benchmarks["shapes_own"].directions["i2t"].rescored
    assert other.candidates != facts.candidates
    assert "sits" not in benchmarks["shapes"].correlations


@pytest.mark.parametrize("top", [2, None])
def test_saved_scores_of_a_reranker_give_its_results(top, tmp_path):
    evaluator, source = open_case(TABLE, top=top, first_stage_weight=0.5)
    save_scores(tmp_path / "scores.npz", evaluator.scores(source))
    found = load_scores(tmp_path / "scores.npz")
    if top is not None:
        assert found.definition == "logit of a table + 0.5 dot"
    benchmarks = evaluate(found)
    for expected in evaluator.run(source):
        for name in {"i2t", "t2i"} & set(expected.directions):
            own, other = benchmarks[expected.name].directions[name], expected.directions[name]
            if top is None:
                np.testing.assert_array_equal(own.rank, other.rank)
            first = (other.rank == 0) * 100.0
            np.testing.assert_array_equal(own.values["recall@1"], first)


@pytest.mark.parametrize("source", ["matrix", "candidates", "rankings", "reranker"])
def test_saved_rankings_are_those_that_are_evaluated(source, tmp_path):
    evaluator, model = open_case(TABLE, top=3, first_stage_weight=0.5)
    if source == "matrix":
        model = ScoreMatrix("file", SPLIT.image_ids, SPLIT.caption_ids, TABLE)
    elif source != "reranker":
        model = make_source(3)
    if source != "reranker":
        (options,) = read_options({"shapes": {"type": "benchmarks"}}).values()
        evaluator = make_evaluator("shapes", options, SPLIT, ("image", "text"))
    if source == "rankings":
        model = evaluator.rankings(model)
    save_rankings(tmp_path / "lists.json", evaluator.rankings(model))
    lists = load_rankings(tmp_path / "lists.json")
    if source == "matrix":
        best = SPLIT.caption_ids[np.argsort(-TABLE, axis=1, kind="stable")]
        found = [lists.directions["i2t"][image].tolist() for image in SPLIT.image_ids.tolist()]
        assert found == best.tolist()
    elif source != "reranker":
        assert {len(items) for items in lists.directions["i2t"].values()} == {3}
    benchmarks = evaluate(lists)
    for expected in evaluator.run(model):
        for name in {"i2t", "t2i"} & set(expected.directions):
            own, other = benchmarks[expected.name].directions[name], expected.directions[name]
            np.testing.assert_array_equal(own.values["recall@1"], other.values["recall@1"])

"""Two keys rank: scores of pairs, then those of the first stage."""

import numpy as np
import pytest

from tests.evals.tiny_split import TinySplit
from xmodal.evals import make_evaluator, read_options
from xmodal.evals.labels.positives import Ragged
from xmodal.evals.labels.types import DirectionLabels
from xmodal.evals.scores.ranks import rank_directions
from xmodal.evals.scores.rerank import PairReranker, TwoStages
from xmodal.evals.scores.score_rows import MatrixScores
from xmodal.evals.scores.sources import Embeddings


class Table:
    """Scores of pairs in a table; keeps the pairs that were asked for."""

    definition = "logit of a table"

    def __init__(self, table):
        self.table, self.asked = table, set()

    def pairs(self, images, captions):
        self.asked |= set(zip(images.tolist(), captions.tolist(), strict=True))
        return self.table[images, captions]

    def take(self, images, captions):
        images = slice(None) if images is None else images
        return Table(self.table[images][:, slice(None) if captions is None else captions])


def make_scores(seed=0, shape=(70, 131)):
    """Scores of both stages, with ties."""
    rng = np.random.default_rng(seed)
    first = np.round(rng.normal(size=shape), 1).astype(np.float32)
    return first, np.round(rng.normal(size=shape) - 3, 1).astype(np.float32)


def slow_order(first, second, top):
    """Positions by two keys, and the number of different keys before each item."""
    first, second = first.tolist(), second.tolist()
    kept = sorted(range(len(first)), key=lambda i: (-first[i], i))[:top]
    keys = [(0, -second[i]) if i in kept else (1, -first[i]) for i in range(len(first))]
    different = sorted(set(keys))
    return [different.index(key) for key in keys], kept


@pytest.mark.parametrize("weight", [0.0, 1.0, 2.5])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("top", [1, 7, None])
def test_ranks_are_those_of_two_keys(top, transposed, weight):
    first, second = make_scores()
    table = Table(second)
    options = PairReranker(top, weight)
    direction = TwoStages(MatrixScores(first), "cosine", table, options, "model")
    direction = direction.transpose() if transposed else direction
    rows, columns = np.indices(first.T.shape if transposed else first.shape)
    found = direction.pairs(rows.ravel(), columns.ravel()).reshape(rows.shape)
    expected = second + weight * first if weight else second
    if transposed:
        first, expected = first.T, expected.T
    asked = set()
    for query, row in enumerate(found):
        places, kept = slow_order(first[query], expected[query], top or len(row))
        _, order = np.unique(-row, return_inverse=True)
        assert order.tolist() == places
        np.testing.assert_array_equal(row[kept], expected[query][kept])
        asked |= {(item, query) if transposed else (query, item) for item in kept}
        own = direction.find_scored(np.full(len(row), query), np.arange(len(row)))
        assert np.flatnonzero(own).tolist() == sorted(kept)
    assert table.asked == asked


@pytest.mark.parametrize("transposed", [False, True])
def test_only_queries_with_positives_are_scored(transposed):
    first, second = make_scores()
    table = Table(second)
    stage = TwoStages(MatrixScores(first), "dot", table, PairReranker(7, 0.5), "model")
    queries = first.shape[transposed]
    rows = np.array([2, 66, 69])
    labels = DirectionLabels(Ragged.from_pairs(rows, rows, queries), ("recall@1", "map@r"))
    stage = stage.transpose() if transposed else stage
    matrix = MatrixScores(stage.rows(np.arange(queries)))
    (expected,), *_ = rank_directions(matrix, [labels])
    table.asked.clear()
    (answer,), *_ = rank_directions(stage, [labels])
    assert {pair[transposed] for pair in table.asked} == set(rows)
    np.testing.assert_array_equal(answer.values["map@r"], expected.values["map@r"])
    np.testing.assert_array_equal(answer.rank, expected.rank)


def open_case(pairs, **reranker):
    """An evaluator, and a source of its items."""
    options = {"type": "benchmarks", "reranker": {"name": "cross_encoder", **reranker}}
    (options,) = read_options({"shapes": options}).values()
    assert options.scores_pairs
    split = TinySplit()
    evaluator = make_evaluator("shapes", options, split, ("image", "text"))
    captions = np.eye(4, dtype=np.float32)[[0, 0, 0, 1, 1, 2, 2, 2]]
    # In another order than the split: scores of pairs follow the ids.
    at = np.array([2, 0, 3, 1])
    source = Embeddings(
        "model", split.image_ids[at], np.eye(4, dtype=np.float32)[at], split.caption_ids, captions,
        "dot", pairs=None if pairs is None else Table(pairs[at]),
    )  # fmt: skip
    return evaluator, source


def evaluate(pairs, **reranker):
    evaluator, source = open_case(pairs, **reranker)
    return {benchmark.name: benchmark for benchmark in evaluator.run(source)}


def test_benchmarks_rank_by_the_cross_encoder():
    """The towers put the last caption at image 2, not at its own; the scorer corrects them."""
    table = np.zeros((4, 8), np.float32)
    owner = np.array([0, 0, 0, 1, 1, 2, 2, 3])
    table[owner, np.arange(8)] = 1.0
    every = evaluate(table)["shapes_own"].directions["t2i"]
    assert every.rank.tolist() == [0] * 8
    assert every.rescored.candidates == "all items"
    # Image 3 is the last of three images with equal scores of the towers.
    found = evaluate(table, top=2)
    top2 = found["shapes_own"].directions["t2i"]
    assert top2.rank.tolist() == [0] * 7 + [3]
    assert top2.rescored.candidates == "the top 2 of dot"
    missed = "which lack 1 of 8 positives, and all positives of 1 of 8 queries"
    assert missed in top2.rescored.description
    assert found["shapes"].directions["i2i"].rescored is None

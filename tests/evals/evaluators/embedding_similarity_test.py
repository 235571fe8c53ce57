"""Correlations of sentence pairs against plain loops; their intervals against a bootstrap."""

import numpy as np
import pytest
import scipy.stats

from tests.evals.evaluators.random_vectors import (
    cosine,
    make_source,
    make_split,
    options_of,
    vector_of,
)
from tests.evals.tiny_split import TinySplit
from xmodal.evals import make_evaluator
from xmodal.evals.reports.summary import summarize
from xmodal.evals.scores.sources import Embeddings


def correlated_pairs(count):
    """Pairs of two sets with cosines equal to their gold scores plus noise."""
    generator = np.random.default_rng(8)
    gold = generator.uniform(0, 5, count)
    angles = np.arccos(np.clip(gold / 6 + 0.15 * generator.normal(size=count), -1, 1))
    second = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    vectors = np.stack([np.tile([1.0, 0.0], (count, 1)), second], axis=1)
    sets = np.where(np.arange(count) % 3 == 0, "a", "b")
    labels = {"score": gold, "set": sets, "average": np.full(count, 2014)}
    ids = np.arange(2 * count)
    split = TinySplit(
        image_ids=ids[:count],
        caption_ids=ids,
        caption_image_ids=ids // 2,
        ratings={},
        labels=labels,
    )
    vectors = vectors.reshape(-1, 2).astype(np.float32)
    return split, Embeddings("here", None, None, ids, vectors, "cosine")


def test_sentence_pairs_set_by_set():
    sets = np.array(["images2014"] * 15 + ["belief2015"] * 10 + ["OnWN2014"] * 12 + ["old"] * 3)
    gold = np.random.default_rng(5).uniform(0, 5, 40).round(1)
    labels = {
        "score": gold,
        "set": sets,
        "average": np.array([2014] * 15 + [2015] * 10 + [2014] * 12 + [0] * 3),
    }
    split = make_split(captions=2, labels=labels)
    source = make_source(split)
    evaluator = make_evaluator("sts", options_of(type="embedding_similarity"), split, ["text"])
    (found,) = evaluator.run(source)
    assert found.chance == dict.fromkeys(found.chance, 0.0)
    ends = split.caption_ids.reshape(-1, 2)
    scores = np.array([cosine(*(vector_of(source, "text", c) for c in pair)) for pair in ends])
    rows_of = {name: sets == name for name in ("images2014", "belief2015", "OnWN2014", "old")}
    expected = {f"{name}/pairs": rows.sum() for name, rows in rows_of.items()}
    rows_of["all2014"] = rows_of["images2014"] | rows_of["OnWN2014"]
    rows_of["all2015"] = rows_of["belief2015"]
    for name, rows in rows_of.items():
        x, y = scores[rows], gold[rows]
        expected[f"{name}/pearson"] = np.corrcoef(x, y)[0, 1]
        ranks = scipy.stats.rankdata(x), scipy.stats.rankdata(y)
        expected[f"{name}/spearman"] = np.corrcoef(*ranks)[0, 1]
    for metric in ("pearson", "spearman"):
        expected[f"avg2015/{metric}"] = expected[f"belief2015/{metric}"]
        both = [expected[f"{name}/{metric}"] for name in ("images2014", "OnWN2014")]
        expected[f"avg2014/{metric}"] = sum(both) / 2
    assert summarize([found], intervals=False) == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["pearson", "spearman"])
def test_intervals_of_pairs_are_those_of_a_bootstrap(metric):
    split, source = correlated_pairs(300)
    evaluator = make_evaluator("sts", options_of(type="embedding_similarity"), split, ["text"])
    found = evaluator.run(source)[0].metrics
    scores = (source.captions[::2] * source.captions[1::2]).sum(1)
    gold, sets = split.labels["score"], split.labels["set"]
    generator, drawn = np.random.default_rng(0), []
    function = {"pearson": scipy.stats.pearsonr, "spearman": scipy.stats.spearmanr}[metric]
    for _ in range(2000):
        each = []
        for name in "ab":
            rows = generator.choice(np.flatnonzero(sets == name), (sets == name).sum())
            each.append(function(scores[rows], gold[rows]).statistic)
        drawn.append([*each, np.mean(each)])
    for name, values in zip(("a", "b", "avg2014"), np.transpose(drawn), strict=True):
        tag = f"{name}/{metric}"
        width = found[f"{tag}_high"] - found[f"{tag}_low"]
        expected = np.subtract(*np.quantile(values, [0.975, 0.025]))
        assert width == pytest.approx(expected, rel=0.12)

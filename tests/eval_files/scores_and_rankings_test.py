"""Evaluating score matrices and ranked lists of other models."""

import json

import pytest
from tiny_model import metrics_of


def test_scores_and_rankings_agree_with_the_embeddings(evaluate, model, tmp_path):
    expected = metrics_of(evaluate("dot", embeddings=str(model / "tiny.npz"), similarity="dot"))
    scores = metrics_of(
        evaluate("scores", scores=str(model / "scores.npy"), ids=str(model / "ids.npz"))
    )
    lists = metrics_of(evaluate("lists", rankings=str(model / "ranked60.json")))
    within = {tag for tag in expected if {"t2t", "i2i", "sts", "sis"} & set(tag.split("/"))}
    assert set(scores) == set(expected) - within
    assert scores == pytest.approx({tag: expected[tag] for tag in scores})
    correlated = {tag for tag in scores if "/sits/" in tag}
    # Lists cannot express ties; there are none here.
    tied = {tag for tag in scores if tag.endswith("/tied_queries")}
    assert set(lists) == set(scores) - correlated - tied
    assert not any(scores[tag] for tag in tied)
    assert lists == pytest.approx({tag: expected[tag] for tag in lists})
    benchmarks = json.loads((tmp_path / "lists/benchmarks.json").read_text())
    assert benchmarks["cxc"]["galleries"]["i2t"]["tied_queries"] is None


def test_truncated_rankings_say_what_they_cannot_give(evaluate, model):
    out = evaluate(rankings=str(model / "ranked3.json"))
    metrics, benchmarks = metrics_of(out), json.loads((out / "benchmarks.json").read_text())
    assert "coco5k/i2t/recall@1" in metrics
    assert "coco5k/t2i/recall@10" not in metrics
    assert "pmrp/i2t" not in metrics
    assert "lists of" in benchmarks["coco5k"]["missing"]["t2i/recall@10"]
    assert "lists of" in benchmarks["eccv"]["missing"]["i2t/map@r"]

"""Evaluating score matrices and ranked lists of other models."""

import json

import numpy as np
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


def test_candidates_of_a_reranker(evaluate, model):
    ids, scores = np.load(model / "ids.npz"), np.load(model / "scores.npy")
    image_ids, caption_ids = ids["image_ids"], ids["caption_ids"]
    best = np.argsort(-scores.T, axis=1)[:, :4]
    given = {
        "t2i_candidates": image_ids[best],
        "t2i_scores": np.take_along_axis(scores.T, best, axis=1),
        "image_ids": image_ids,
        "caption_ids": caption_ids,
    }
    np.savez(model / "candidates.npz", **given)
    out = evaluate(scores=str(model / "candidates.npz"))
    found = metrics_of(out)
    expected = metrics_of(evaluate(output="all", rankings=str(model / "ranked60.json")))
    assert found["coco5k/t2i/recall@1"] == expected["coco5k/t2i/recall@1"]
    assert not {"coco5k/i2t/recall@1", "coco5k/t2i/recall@5"} & set(found)
    report = (out / "report.md").read_text()
    assert "coco5k/t2i: ranked by the scores of a file among 4 given candidates" in report
    assert "there are no i2t candidates" in report


def test_truncated_rankings_say_what_they_cannot_give(evaluate, model):
    out = evaluate(rankings=str(model / "ranked3.json"))
    metrics, benchmarks = metrics_of(out), json.loads((out / "benchmarks.json").read_text())
    assert "coco5k/i2t/recall@1" in metrics
    assert "coco5k/t2i/recall@10" not in metrics
    assert "pmrp/i2t" not in metrics
    assert "lists of" in benchmarks["coco5k"]["missing"]["t2i/recall@10"]
    assert "lists of" in benchmarks["eccv"]["missing"]["i2t/map@r"]
    report = (out / "report.md").read_text()
    assert f"t2i recall@10: {benchmarks['coco5k']['missing']['t2i/recall@10']}." in report
    assert "- Without i2i, sis, sits, sts, t2t: " in report
    assert "Intervals of correlations" not in report

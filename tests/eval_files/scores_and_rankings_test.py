"""Evaluating score matrices and ranked lists of other models."""

import json

import pytest
from tiny_model import metrics_of

from xmodal.api import evaluating
from xmodal.base.config import UserError


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
    boards = json.loads((tmp_path / "lists/boards.json").read_text())
    assert boards["cxc"]["galleries"]["i2t"]["tied_queries"] is None


def test_truncated_rankings_say_what_they_cannot_give(evaluate, model):
    out = evaluate(rankings=str(model / "ranked3.json"))
    metrics, boards = metrics_of(out), json.loads((out / "boards.json").read_text())
    assert "coco5k/i2t/recall@1" in metrics
    assert "coco5k/t2i/recall@10" not in metrics
    assert "pmrp/i2t" not in metrics
    assert "lists of" in boards["coco5k"]["missing"]["t2i/recall@10"]
    assert "lists of" in boards["eccv"]["missing"]["i2t/map@r"]
    report = (out / "report.md").read_text()
    assert f"t2i recall@10: {boards['coco5k']['missing']['t2i/recall@10']}." in report
    assert "- Without i2i, sis, sits, sts, t2t: " in report
    assert "Intervals of correlations" not in report


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "Pass embed_images and embed_texts, or one of embeddings, scores and rank"),
        ({"scores": "s.npy", "rankings": "r.json"}, "not scores and rankings"),
        ({"embeddings": "e.npz", "similarity": "dot", "ids": "i.npz"}, "Ids are for a matrix"),
        ({"scores": "s.npy", "similarity": "dot"}, "Similarity 'dot' is for embeddings; scores"),
        (
            {"rankings": "r.json", "bootstrap_samples": 0},
            "bootstrap_samples is 0; it must be at least 1",
        ),
    ],
)
def test_arguments_that_do_not_go_together(annotations, given, message):
    with pytest.raises(UserError, match=message):
        evaluating.evaluate(annotations=annotations, **given)

"""Evaluating embeddings of other models, with the command and in Python."""

import dataclasses
import json

import numpy as np
import pytest
from tiny_model import OWN_IMAGE, embeddings, in_order, metrics_of

from tests.evals.tiny_split import TinySplit
from xmodal.core.errors import UserError
from xmodal.evals import evaluate_source, load_embeddings, make_evaluator, read_options
from xmodal.evals.reports.evaluation import load_ranks

BENCHMARKS = ["coco5k", "coco1k", "cxc", "cxc_sits_only", "eccv", "pmrp"]


def test_embeddings_end_to_end(evaluate, model, capsys):
    out = evaluate(embeddings=str(model / "tiny.npz"), similarity="cosine")
    metrics = metrics_of(out)
    images, captions = (x / np.linalg.norm(x, axis=1)[:, None] for x in in_order(embeddings()))
    scores = images @ captions.T
    assert metrics["coco5k/i2t/recall@1"] == pytest.approx(
        100 * np.mean(OWN_IMAGE[scores.argmax(axis=1)] == np.arange(12))
    )
    assert metrics["coco5k/t2i/recall@1"] == pytest.approx(
        100 * np.mean(scores.argmax(axis=0) == OWN_IMAGE)
    )
    assert {tag.partition("/")[0] for tag in metrics} == set(BENCHMARKS)
    for tag in ("cxc/t2t/recall@1", "cxc/i2i/median_rank", "cxc/sts/spearman", "eccv/i2t/map@r"):
        assert metrics[f"{tag}_low"] <= metrics[tag] <= metrics[f"{tag}_high"]
    for tag in ("cxc/sis/spearman_std", "coco1k/t2i/recall@5", "eccv/t2i/r_precision", "pmrp/i2t"):
        assert 0 < metrics[tag] <= 100
    report = (out / "report.md").read_text()
    assert report in capsys.readouterr().out
    # The labels are incomplete, so no published numbers are shown beside these.
    assert "CLIP" not in report
    benchmarks = json.loads((out / "benchmarks.json").read_text())
    assert list(benchmarks) == BENCHMARKS
    assert benchmarks["cxc"]["bootstrap"] == {"samples": 50, "seed": 0}
    assert load_ranks(out / "ranks.npz").results[2].label_hash == benchmarks["cxc"]["label_hash"]


def test_a_model_compared_with_itself_does_not_differ(evaluate, model):
    given = {"embeddings": str(model / "tiny.npz"), "similarity": "cosine"}
    other = evaluate("other", benchmarks=["cxc", "eccv"], **given) / "ranks.npz"
    out = evaluate(compare=str(other), **given)
    found = json.loads((out / "comparison.json").read_text())
    assert found["cxc/t2t/recall@1_difference"] == 0
    assert not any(found.values())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"similarity": None}, "Name the similarity .* one of .*cosine"),
        ({"similarity": "match_probability"}, "needs .*match_scale"),
    ],
)
def test_mistakes_leave_nothing_behind(evaluate, model, tmp_path, values, message):
    given = {"embeddings": str(model / "tiny.npz"), "similarity": "cosine"}
    with pytest.raises(UserError, match=message):
        evaluate(**(given | values))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_prepared_split_is_evaluated_on_released_labels_like_a_file(annotations, model, evaluate):
    """The evaluator of a run with `annotations`, against a file of the same embeddings."""
    arrays = embeddings()
    split = TinySplit(
        name="coco_captions",
        image_ids=arrays["image_ids"],
        caption_ids=arrays["caption_ids"],
        caption_image_ids=arrays["caption_ids"] // 10,
        ratings={},
    )
    section = {"type": "benchmarks", "annotations": str(annotations), "bootstrap_samples": 50}
    (options,) = read_options({"coco": section}).values()
    evaluator = make_evaluator("coco", options, split, ("image", "text"))
    source = load_embeddings(model / "tiny.npz")
    evaluation = evaluate_source(
        evaluator,
        dataclasses.replace(source, similarity="cosine"),
        name="run",
        evaluator_name="coco",
    )
    out = evaluate(embeddings=str(model / "tiny.npz"), similarity="cosine")
    assert evaluation.metrics == pytest.approx(metrics_of(out), abs=0)

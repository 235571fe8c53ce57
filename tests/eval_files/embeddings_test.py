"""Evaluating embeddings of other models, with the command and in Python."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tiny_model import OWN_IMAGE, embeddings, in_order, metrics_of

from tests.evals.tiny_split import TinySplit
from xmodal.core.errors import UserError
from xmodal.evals import evaluate_source, load_embeddings, make_evaluator, read_options
from xmodal.evals.evaluators import benchmarks
from xmodal.evals.reports import store

BENCHMARKS = ["coco5k", "coco1k", "cxc", "cxc_sits_only", "eccv", "pmrp"]


def test_embeddings_end_to_end(evaluate, model, capsys):
    out = evaluate(embeddings=str(model / "tiny.npz"), similarity="cosine")
    files = sorted(p.name for p in out.iterdir() if not p.name.startswith("events"))
    assert files == [
        "benchmarks.json",
        "metrics.csv",
        "metrics.json",
        "ranks.npz",
        "report.html",
        "report.md",
        "report.tex",
    ]
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
    assert report.startswith("# coco_captions, test split\n\n")
    assert "\n\nSimilarity: cosine. Intervals: 95 %" in report
    assert "\n\nA correlation and its ± are mean and deviation of the protocol" in report
    assert "| tiny " in report
    assert "CLIP" not in report
    benchmarks = json.loads((out / "benchmarks.json").read_text())
    assert list(benchmarks) == BENCHMARKS
    assert benchmarks["cxc"]["galleries"]["t2t"] == {
        "queries": 60,
        "gallery": 59,
        "skipped_queries": 0,
        "tied_queries": 0,
    }
    assert (
        benchmarks["eccv"]["galleries"]["i2t"]["skipped_queries"] == 10
    )  # two of 12 have positives
    assert benchmarks["cxc"]["similarity"] == "cosine"
    assert benchmarks["cxc"]["bootstrap"] == {"samples": 50, "seed": 0}
    assert (
        store.load_ranks(out / "ranks.npz").results[2].label_hash == benchmarks["cxc"]["label_hash"]
    )


def test_tensorboard_shows_the_same_numbers(evaluate, model):
    out = evaluate(
        embeddings=str(model / "tiny.npz"), similarity="dot", benchmarks=["coco5k", "cxc"]
    )
    events = EventAccumulator(str(out), size_guidance={"tensors": 0}).Reload()
    found = {
        tag: float(np.frombuffer(event.tensor_proto.tensor_content, np.float32)[0])
        if event.tensor_proto.tensor_content
        else event.tensor_proto.float_val[0]
        for tag in set(events.Tags()["tensors"]) - {"report"}
        for event in events.Tensors(tag)
    }
    metrics = metrics_of(out)
    # Counts have no curves, and no number appears twice.
    assert len(found) < len(metrics) - 20
    assert not [tag for tag in found if tag.endswith(("queries", "gallery", "pairs", "per_sample"))]
    assert "cxc/mean/recall@10" in found
    assert "cxc/mean_recall@10" not in found
    assert found == pytest.approx({tag: np.float32(metrics[tag]) for tag in found})


def test_a_part_of_the_split_is_named_as_such(evaluate, model):
    out = evaluate(embeddings=str(model / "part.npz"), similarity="cosine", partial=True)
    report = (out / "report.md").read_text()
    assert report.startswith(
        "# coco_captions, test split\n\n**PARTIAL: 9 of 12 images of the test split."
    )
    assert "CLIP" not in report  # no published numbers are comparable
    assert "Left out coco1k: its folds need the whole split, and this is 9 of 12 " in report
    metrics = metrics_of(out)
    assert metrics["coco5k/i2t/queries"] == 9
    assert metrics["coco5k/t2i/gallery"] == 9
    assert metrics["coco5k/t2t/queries"] == 60
    assert "coco1k/i2t/recall@1" not in metrics


def test_a_model_compared_with_itself_does_not_differ(evaluate, model):
    given = {"embeddings": str(model / "tiny.npz"), "similarity": "cosine"}
    other = evaluate("other", benchmarks=["cxc", "eccv"], **given) / "ranks.npz"
    out = evaluate(compare=str(other), **given)
    found = json.loads((out / "comparison.json").read_text())
    assert found["cxc/t2t/recall@1_difference"] == 0
    assert not any(found.values())
    text = (out / "comparison.md").read_text()
    assert "tiny" in text
    assert "yes |" not in text
    # Its folder is also accepted, and a run with it; without it, nothing of the comparison remains.
    run = other.parent.parent / "run"
    shutil.copytree(other.parent, run / "test/own")
    evaluate(compare=str(other.parent), **given)
    assert (out / "comparison.md").read_text() == text
    evaluate(compare=str(run), **given)
    assert (out / "comparison.json").read_text() == json.dumps(found, indent=2) + "\n"
    evaluate(**given)
    assert not list(out.glob("comparison*"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"similarity": None}, "Name the similarity .* one of .*cosine"),
        ({"similarity": "match_probability"}, "needs .*match_scale"),
        ({"benchmarks": ["coco5k", "shapes"]}, "Unknown name 'shapes' in the benchmarks of"),
        ({"split": "train"}, "'train'"),
        ({"compare": "none/ranks.npz"}, "no file none/ranks.npz"),
    ],
)
def test_mistakes_leave_nothing_behind(evaluate, model, tmp_path, values, message):
    given = {"embeddings": str(model / "tiny.npz"), "similarity": "cosine"}
    with pytest.raises(UserError, match=message):
        evaluate(**(given | values))
    assert list(tmp_path.iterdir()) == []


def test_models_on_other_labels_are_not_compared(evaluate, model, tmp_path, monkeypatch):
    given = {"similarity": "dot", "benchmarks": ["cxc"]}
    other = evaluate("other", embeddings=str(model / "part.npz"), partial=True, **given)
    monkeypatch.setattr(
        benchmarks, "compute_benchmarks", lambda *_, **__: pytest.fail("evaluated for nothing")
    )
    with pytest.raises(UserError, match="labels of benchmark cxc differ"):
        evaluate(embeddings=str(model / "tiny.npz"), compare=str(other / "ranks.npz"), **given)
    assert not (tmp_path / "out").exists()


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
    assert list(evaluation.metrics) == list(metrics_of(out))
    assert "coco/eccv/i2t/map@r" in evaluation.tagged
    assert [benchmark.name for benchmark in evaluation.benchmarks] == BENCHMARKS
    # An incomplete split is reported as such.
    part = dataclasses.replace(split, image_ids=split.image_ids[:9])
    evaluator = make_evaluator("coco", options, part, ("image", "text"))
    assert evaluator.provenance.warnings[0].startswith("PARTIAL: 9 of 12 images of the test split")
    other = dataclasses.replace(split, image_ids=split.image_ids + 500)
    with pytest.raises(UserError, match="coco_captions has 0 of the 12 images of the test split"):
        make_evaluator("coco", options, other, ("image", "text"))

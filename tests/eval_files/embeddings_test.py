"""Evaluating embeddings of other models, with the command and in Python."""

import csv
import dataclasses
import json
import shutil
import zipfile

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tiny_model import OWN_IMAGE, embeddings, in_order, metrics_of

from tests.evals.tiny_split import TinySplit
from xmodal.api import evaluating
from xmodal.core import processes
from xmodal.core.errors import UserError
from xmodal.evals import evaluate_source, load_embeddings, make_evaluator, read_options
from xmodal.evals.evaluators import boards
from xmodal.evals.reports import store

BOARDS = ["coco5k", "coco1k", "cxc", "cxc_sits_only", "eccv", "pmrp"]


def test_embeddings_end_to_end(evaluate, model, capsys):
    out = evaluate(embeddings=str(model / "tiny.npz"), similarity="cosine")
    files = sorted(p.name for p in out.iterdir() if not p.name.startswith("events"))
    assert files == [
        "boards.json",
        "metrics.csv",
        "metrics.json",
        "model.json",
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
    assert {tag.partition("/")[0] for tag in metrics} == set(BOARDS)
    for tag in ("cxc/t2t/recall@1", "cxc/i2i/median_rank", "cxc/sts/spearman", "eccv/i2t/map@r"):
        assert metrics[f"{tag}_low"] <= metrics[tag] <= metrics[f"{tag}_high"]
    for tag in ("cxc/sis/spearman_std", "coco1k/t2i/recall@5", "eccv/t2i/r_precision", "pmrp/i2t"):
        assert 0 < metrics[tag] <= 100
    report = (out / "report.md").read_text()
    assert report in capsys.readouterr().out
    # The labels are incomplete, so no published numbers are shown beside these.
    bold = "# coco_captions, test split\n\n**NOT THE RELEASED LABELS: in "
    assert report.startswith(bold)
    assert "; sis_test.csv holds 12 pairs instead of 46,719; " in report
    assert "\n\nSimilarity: cosine. Intervals: 95 %" in report
    assert "\n\nA correlation and its ± are mean and deviation of the protocol" in report
    assert "| tiny " in report
    assert "CLIP" not in report
    boards = json.loads((out / "boards.json").read_text())
    assert list(boards) == BOARDS
    assert boards["cxc"]["galleries"]["t2t"] == {
        "queries": 60,
        "gallery": 59,
        "skipped_queries": 0,
        "tied_queries": 0,
    }
    assert boards["eccv"]["galleries"]["i2t"]["skipped_queries"] == 10  # two of 12 have positives
    assert boards["cxc"]["similarity"] == "cosine"
    assert boards["cxc"]["bootstrap"] == {"samples": 50, "seed": 0}
    assert store.load_ranks(out / "ranks.npz").results[2].label_hash == boards["cxc"]["label_hash"]


def test_tensorboard_shows_the_same_numbers(evaluate, model):
    out = evaluate(embeddings=str(model / "tiny.npz"), similarity="dot", boards=["coco5k", "cxc"])
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


def test_a_table_of_all_numbers(evaluate, model):
    out = evaluate(embeddings=str(model / "tiny.npz"), similarity="dot", boards=["cxc"])
    with (out / "metrics.csv").open(newline="") as file:
        rows = {row["tag"]: row for row in csv.DictReader(file)}
    assert {row["model"] for row in rows.values()} == {"tiny"}
    found = {}
    for tag, row in rows.items():
        found |= {tag: row["value"]} | {
            f"{tag}_{end}": row[end] for end in ("low", "high", "std") if row[end]
        }
    assert {tag: float(value) for tag, value in found.items()} == metrics_of(out)


def test_tensorboard_shows_the_last_evaluation_alone(evaluate, model, tmp_path):
    events = "events.out.tfevents.*"
    theirs = tmp_path / "out" / "events.out.tfevents.1.training.v2"
    theirs.parent.mkdir()
    theirs.write_bytes(b"")
    given = {"embeddings": str(model / "tiny.npz"), "similarity": "dot"}
    first = set(evaluate(boards=["coco5k"], **given).glob(events))
    second = set(evaluate(boards=["cxc"], **given).glob(events))
    assert len(first) == len(second) == 2
    assert first & second == {theirs}
    found = EventAccumulator(str(max(second - {theirs}))).Reload().Tags()["tensors"]
    assert {tag.split("/")[0] for tag in found} == {"cxc", "report"}


def test_one_modality_gives_what_it_can_and_names_the_rest(evaluate, model):
    out = evaluate(embeddings=str(model / "captions.npz"), similarity="cosine")
    metrics, boards = metrics_of(out), json.loads((out / "boards.json").read_text())
    assert {tag.split("/")[1] for tag in metrics} == {"t2t", "sts", "mean_recall@10"}
    assert set(boards["cxc"]["skipped"]) == {"i2t", "t2i", "i2i", "sis", "sits"}
    assert "image" in boards["eccv"]["skipped"]["i2t"]


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
    other = evaluate("other", boards=["cxc", "eccv"], **given) / "ranks.npz"
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


def test_a_worse_model_is_told_from_a_better_one(evaluate, model, tmp_path):
    arrays = embeddings()
    arrays["caption_embeddings"] = np.roll(arrays["caption_embeddings"], 1, axis=0)
    np.savez(tmp_path / "blind.npz", **arrays)
    other = evaluate("other", embeddings=str(tmp_path / "blind.npz"), similarity="cosine")
    out = evaluate(
        embeddings=str(model / "tiny.npz"), similarity="cosine", compare=str(other / "ranks.npz")
    )
    found = json.loads((out / "comparison.json").read_text())
    assert found["cxc/i2t/recall@5_difference"] > 0
    assert found["cxc/i2t/recall@5_separable"] == 1


def test_the_python_function_gives_the_same(annotations, model, evaluate, tmp_path):
    evaluation = evaluating.evaluate(
        embeddings=embeddings(),
        annotations=annotations,
        boards=["cxc", "eccv"],
        similarity="max_cosine",
        name="tiny",
        bootstrap_samples=50,
    )
    out = evaluate(
        embeddings=str(model / "tiny.npz"), similarity="max_cosine", boards=["cxc", "eccv"]
    )
    assert evaluation.metrics == pytest.approx(metrics_of(out))
    assert evaluation.report() == (out / "report.md").read_text()
    evaluation.save(tmp_path / "python")
    assert (tmp_path / "python/boards.json").read_text() == (out / "boards.json").read_text()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"similarity": None}, "Name the similarity .* one of .*cosine"),
        ({"similarity": "euclid"}, "Unknown name 'euclid' in similarity; known: "),
        ({"similarity": "match_probability"}, "needs .*match_scale"),
        ({"boards": ["coco5k", "shapes"]}, r"Unknown board\(s\) \['shapes'\]"),
        ({"split": "validation"}, "has 0 of the 1 images of the validation split among its 12"),
        ({"split": "train"}, "'train'"),
        ({"embeddings": "none.npz"}, "no file 'none.npz'"),
        ({"annotations": "nowhere"}, "nowhere"),
        ({"compare": "none/ranks.npz"}, "no file none/ranks.npz"),
    ],
)
def test_mistakes_leave_nothing_behind(evaluate, model, tmp_path, values, message):
    given = {"embeddings": str(model / "tiny.npz"), "similarity": "cosine"}
    with pytest.raises(UserError, match=message):
        evaluate(**(given | values))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["empty", "npy", "truncated", "compressed", "header", "flag"])
def test_a_damaged_file_is_named(evaluate, model, tmp_path, kind):
    path, out = tmp_path / "model.npz", tmp_path / "out"
    np.savez_compressed(path, **embeddings())
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        entries = {each.filename: each for each in archive.infolist()}
    start = entries["image_embeddings.npy"].header_offset
    if kind == "npy":
        with path.open("wb") as file:
            np.save(file, np.zeros((3, 4)))
    else:
        if kind == "empty":
            content.clear()
        elif kind == "truncated":
            del content[len(content) // 2 :]
        elif kind == "compressed":
            content[start + 64 : start + 104] = bytes(40)
        elif kind == "header":  # No longer that of an entry.
            content[start : start + 4] = b"none"
        else:  # Encrypted, says the list of entries.
            content[content.rindex(b"PK\x01\x02") + 8] |= 1
        path.write_bytes(content)
    with pytest.raises(UserError, match=r"model.npz (is not an npz file|cannot be read)"):
        evaluate(embeddings=str(path))
    with pytest.raises(UserError, match=r"model.npz .*(ranks.npz of an|again with)"):
        evaluate(embeddings=str(model / "tiny.npz"), similarity="cosine", compare=str(path))
    assert not out.exists()


def test_incomplete_embeddings_need_a_word(evaluate, model, tmp_path):
    with pytest.raises(UserError, match="part.npz lacks 3 of the 12 images .* pass `partial`"):
        evaluate(embeddings=str(model / "part.npz"), similarity="cosine")
    assert list(tmp_path.iterdir()) == []


def test_several_vectors_of_an_item_need_a_similarity_of_several(evaluate, tmp_path):
    arrays = embeddings()
    for kind in ("image", "caption"):
        arrays[f"{kind}_embeddings"] = arrays[f"{kind}_embeddings"].reshape(-1, 2, 3)
    np.savez(tmp_path / "several.npz", match_scale=2.0, match_shift=0.5, **arrays)
    for similarity in ("max_cosine", "match_probability"):
        out = evaluate(
            similarity,
            embeddings=str(tmp_path / "several.npz"),
            similarity=similarity,
            boards=["coco5k"],
        )
        assert metrics_of(out)["coco5k/i2t/queries"] == 12
    with pytest.raises(UserError, match="'cosine' compares one vector per item"):
        evaluate(embeddings=str(tmp_path / "several.npz"), similarity="cosine")
    assert not (tmp_path / "out").exists()


def test_boards_that_the_model_cannot_answer_at_all(evaluate, model, tmp_path):
    with pytest.raises(UserError, match="captions.npz does not allow any of eccv, pmrp: .*image"):
        evaluate(
            embeddings=str(model / "captions.npz"), similarity="cosine", boards=["eccv", "pmrp"]
        )
    assert list(tmp_path.iterdir()) == []


def test_models_on_other_labels_are_not_compared(evaluate, model, tmp_path, monkeypatch):
    given = {"similarity": "dot", "boards": ["cxc"]}
    other = evaluate("other", embeddings=str(model / "part.npz"), partial=True, **given)
    monkeypatch.setattr(
        boards, "compute_boards", lambda *_, **__: pytest.fail("evaluated for nothing")
    )
    with pytest.raises(UserError, match="labels of board cxc differ"):
        evaluate(embeddings=str(model / "tiny.npz"), compare=str(other / "ranks.npz"), **given)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(
    evaluate, model, tmp_path, monkeypatch
):
    def work(**given):
        pytest.fail("evaluated for nothing")

    monkeypatch.setattr(evaluating, "evaluate", work)
    (tmp_path / "out").write_text("mine")
    for output in ("out", "out/deep"):
        with pytest.raises(UserError, match=f"Cannot write to .*{output}: .* Use another folder"):
            evaluate(output, embeddings=str(model / "tiny.npz"), similarity="dot")
    assert (tmp_path / "out").read_text() == "mine"


def test_results_of_another_model_are_kept_unless_told_otherwise(
    evaluate, model, tmp_path, monkeypatch
):
    given = {"similarity": "dot", "boards": ["coco5k"]}
    out = evaluate(embeddings=str(model / "tiny.npz"), **given)
    before = (out / "metrics.json").read_text()
    (tmp_path / "copy.npz").write_bytes((model / "tiny.npz").read_bytes())
    evaluate(embeddings=str(tmp_path / "copy.npz"), **given)  # the same model
    assert (out / "metrics.json").read_text() == before
    arrays = dict(np.load(model / "tiny.npz"))
    arrays["image_embeddings"] = -arrays["image_embeddings"]
    other = str(tmp_path / "other.npz")
    np.savez(other, **arrays)
    with pytest.raises(UserError, match=r"copy.npz \(dot\), .* from \S+ \(cosine\)"):
        evaluate(embeddings=str(model / "tiny.npz"), **given | {"similarity": "cosine"})
    message = (
        r"out has results of \S+copy.npz .* from \S+other.npz .*; replace them with --overwrite"
    )
    with monkeypatch.context() as patch:
        patch.setattr(evaluating, "evaluate", lambda **_: pytest.fail("for nothing"))
        with pytest.raises(UserError, match=message):
            evaluate(embeddings=other, **given)
    assert (out / "metrics.json").read_text() == before
    evaluate(embeddings=other, overwrite=True, **given)
    assert (out / "metrics.json").read_text() != before
    (out / "model.json").unlink()
    with pytest.raises(UserError, match="results of an unknown model"):
        evaluate(embeddings=other, **given)


def test_several_processes_are_connected_first(evaluate, model, monkeypatch):
    class Connected(Exception):
        pass

    def connect():
        raise Connected

    monkeypatch.setattr(processes, "initialize", connect)
    with pytest.raises(Connected):
        evaluate(embeddings=str(model / "tiny.npz"), similarity="dot")


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
    section = {"type": "boards", "annotations": str(annotations), "bootstrap_samples": 50}
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
    assert [board.name for board in evaluation.boards] == BOARDS
    # An incomplete split is reported as such.
    part = dataclasses.replace(split, image_ids=split.image_ids[:9])
    evaluator = make_evaluator("coco", options, part, ("image", "text"))
    assert evaluator.provenance.warnings[0].startswith("PARTIAL: 9 of 12 images of the test split")
    other = dataclasses.replace(split, image_ids=split.image_ids + 500)
    with pytest.raises(UserError, match="coco_captions has 0 of the 12 images of the test split"):
        make_evaluator("coco", options, other, ("image", "text"))

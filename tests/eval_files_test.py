"""Evaluating what other models hand over, by command and in Python, on a dozen images."""

import csv
import json
import sys

import numpy as np
import pytest
from absl import flags
from absl.testing import flagsaver
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from xmodal import eval_main
from xmodal.evals import from_files
from xmodal.evals.reports import store
from xmodal.options import UserError
from xmodal.training import sharding

IMAGE_IDS = np.arange(101, 113)
CAPTION_IDS = (IMAGE_IDS[:, None] * 10 + np.arange(5)).ravel()
OWN_IMAGE = np.repeat(np.arange(12), 5)
BOARDS = ["coco5k", "coco1k", "cxc", "cxc_sits_only", "eccv", "pmrp"]


def write_ratings(path, kinds, pairs):
    """A file as Crisscrossed Captions has it; pairs are (left, right, score, method)."""
    columns = {"sts": ("caption1", "caption2"), "sis": ("image1", "image2")}
    names = {"image": "COCO_val2014_{:012d}.jpg", "caption": "COCO_val2014:sentid:{}"}
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        header = columns.get(path.name[:3], ("caption", "image"))
        rows.writerow([*header, "agg_score", "sampling_method"])
        for left, right, score, method in pairs:
            ends = [names[k].format(i) for k, i in zip(kinds, (left, right), strict=True)]
            rows.writerow([*ends, score, method])


@pytest.fixture(scope="session")
def annotations(tmp_path_factory):
    """The released files, cut down to twelve images of test and one of validation."""
    folder = tmp_path_factory.mktemp("annotations")
    rng = np.random.default_rng(5)
    own = [
        (caption, IMAGE_IDS[image], 4.5, "c2i_original")
        for caption, image in zip(CAPTION_IDS, OWN_IMAGE, strict=True)
    ]
    other = [
        (caption, image, round(float(rng.uniform(0, 5)), 2), "c2i_intrasim")
        for caption, image in zip(CAPTION_IDS, np.roll(np.repeat(IMAGE_IDS, 5), 7), strict=True)
    ]
    write_ratings(folder / "sits_test.csv", ("caption", "image"), own + other)
    for task, ids in (("sts", CAPTION_IDS), ("sis", IMAGE_IDS)):
        scores = rng.uniform(0, 5, len(ids)).round(2)
        pairs = zip(ids, np.roll(ids, 7), scores, [f"{task}_method"] * len(ids), strict=True)
        kind = "caption" if task == "sts" else "image"
        write_ratings(folder / f"{task}_test.csv", (kind, kind), list(pairs))
    write_ratings(folder / "sits_val.csv", ("caption", "image"), [(9001, 901, 4.0, "c2i_original")])
    lists = {
        "original_caption_to_image": {
            c: [IMAGE_IDS[i]] for c, i in zip(CAPTION_IDS, OWN_IMAGE, strict=True)
        },
        "eccv_image_to_caption": {101: [1010, 1011, 1032], 104: [1040, 1111, 1112, 1120]},
        "eccv_caption_to_image": {1010: [101, 103], 1063: [106, 107, 108]},
    }
    for name, content in lists.items():
        plain = {str(query): [int(item) for item in items] for query, items in content.items()}
        (folder / f"{name}.json").write_text(json.dumps(plain))
    np.save(folder / "coco_test_ids.npy", CAPTION_IDS)
    labels = (rng.random((13, 80)) < 0.03).astype(np.uint8)
    labels[:, 0] = 1
    labels[11] = 0  # an image without objects
    np.savez(folder / "val2014_categories.npz", image_ids=[*IMAGE_IDS, 901], labels=labels)
    return folder


def embeddings():
    """A model that is neither perfect nor blind, its items in no order."""
    rng = np.random.default_rng(3)
    images = rng.normal(size=(12, 6)).astype(np.float32)
    captions = images[OWN_IMAGE] + 0.8 * rng.normal(size=(60, 6)).astype(np.float32)
    at, caption_at = rng.permutation(12), rng.permutation(60)
    return {
        "image_ids": IMAGE_IDS[at],
        "image_embeddings": images[at],
        "caption_ids": CAPTION_IDS[caption_at],
        "caption_embeddings": captions[caption_at],
    }


def in_order(arrays):
    """Embeddings of images and captions in the order of the split."""
    return [
        arrays[f"{kind}_embeddings"][np.argsort(arrays[f"{kind}_ids"])]
        for kind in ("image", "caption")
    ]


def ranked_lists(scores, depth):
    order = np.argsort(-scores, axis=1, kind="stable")
    turned = np.argsort(-scores.T, axis=1, kind="stable")
    return {
        "i2t": {
            str(i): CAPTION_IDS[row[:depth]].tolist()
            for i, row in zip(IMAGE_IDS, order, strict=True)
        },
        "t2i": {
            str(c): IMAGE_IDS[row[:depth]].tolist()
            for c, row in zip(CAPTION_IDS, turned, strict=True)
        },
    }


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Files of one model: embeddings, and what its dot products give."""
    folder = tmp_path_factory.mktemp("model")
    arrays = embeddings()
    np.savez(folder / "tiny.npz", **arrays)
    np.savez(folder / "captions.npz", **{k: v for k, v in arrays.items() if "caption" in k})
    np.savez(
        folder / "part.npz",
        **(arrays | {k: arrays[k][:9] for k in ("image_ids", "image_embeddings")}),
    )
    np.savez(folder / "ids.npz", image_ids=arrays["image_ids"], caption_ids=arrays["caption_ids"])
    products = arrays["image_embeddings"] @ arrays["caption_embeddings"].T
    np.save(folder / "scores.npy", products)
    images, captions = in_order(arrays)
    for depth in (3, 60):
        lists = ranked_lists(images @ captions.T, depth)
        (folder / f"ranked{depth}.json").write_text(json.dumps(lists))
    return folder


@pytest.fixture(autouse=True)
def _flags():
    flags.FLAGS.mark_as_parsed()
    with flagsaver.flagsaver():
        yield


@pytest.fixture
def evaluate(annotations, tmp_path):
    """Runs the command; `output` is a folder below the test's own."""

    def run(output="out", **values):
        given = {"annotations": str(annotations), "bootstrap_samples": 50} | values
        with flagsaver.flagsaver(output=str(tmp_path / output), **given):
            eval_main.main(["eval_main"])
        return tmp_path / output

    return run


def metrics_of(folder):
    return json.loads((folder / "metrics.json").read_text())


def test_embeddings_end_to_end(evaluate, model, capsys):
    out = evaluate(embeddings=str(model / "tiny.npz"), similarity="cosine")
    files = sorted(p.name for p in out.iterdir() if not p.name.startswith("events"))
    assert files == ["boards.json", "metrics.json", "ranks.npz", "report.md"]
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
    # The labels are a part, so nothing published stands beside these numbers.
    bold = "# coco_captions, test split\n\n**NOT THE RELEASED LABELS: in "
    assert report.startswith(bold)
    assert "; sis_test.csv holds 12 pairs instead of 46,719; " in report
    assert "\n\nSimilarity: cosine. Intervals: 95 %" in report
    assert "\n\nIntervals of correlations and their ± are " in report
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
        for tag in events.Tags()["tensors"]
        for event in events.Tensors(tag)
    }
    metrics = metrics_of(out)
    assert set(found) == set(metrics)
    assert found == pytest.approx({tag: np.float32(value) for tag, value in metrics.items()})


def test_tensorboard_shows_the_last_evaluation_alone(evaluate, model, tmp_path, monkeypatch):
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
    assert {tag.split("/")[0] for tag in found} == {"cxc"}
    # Without tensorflow the old numbers go, too.
    monkeypatch.setitem(sys.modules, "clu", None)
    assert list(evaluate(boards=["coco5k"], **given).glob(events)) == [theirs]


def test_a_machine_without_tensorflow_lacks_only_tensorboard(evaluate, model, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "clu", None)
    out = evaluate(embeddings=str(model / "tiny.npz"), similarity="dot", boards=["coco5k"])
    assert sorted(p.name for p in out.iterdir()) == [
        "boards.json",
        "metrics.json",
        "ranks.npz",
        "report.md",
    ]
    assert "TensorBoard scalars are not written" in caplog.text


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
    # Lists do not tell ties from order; there are none here.
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
    assert "CLIP" not in report  # nothing published compares with it
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
    # Its folder stands for it, too; without it, nothing of the comparison stays.
    evaluate(compare=str(other.parent), **given)
    assert (out / "comparison.md").read_text() == text
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
    evaluation = from_files.evaluate(
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


def test_metrics_are_compared_over_models(evaluate, model, tmp_path):
    outs = [
        evaluate(similarity, embeddings=str(model / "tiny.npz"), similarity=similarity)
        for similarity in ("dot", "cosine")
    ]
    with flagsaver.flagsaver(models=list(map(str, outs)), output=str(tmp_path / "agreement")):
        eval_main.main(["eval_main"])
    assert (tmp_path / "agreement/agreement.json").exists()


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


def test_incomplete_embeddings_need_a_word(evaluate, model, tmp_path):
    with pytest.raises(UserError, match="part.npz lacks 3 of the 12 images .* pass --partial"):
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
    with pytest.raises(
        UserError, match="captions.npz is not enough for any of eccv, pmrp: .*image"
    ):
        evaluate(
            embeddings=str(model / "captions.npz"), similarity="cosine", boards=["eccv", "pmrp"]
        )
    assert list(tmp_path.iterdir()) == []


def test_models_on_other_labels_are_not_compared(evaluate, model, tmp_path, monkeypatch):
    given = {"similarity": "dot", "boards": ["cxc"]}
    other = evaluate("other", embeddings=str(model / "part.npz"), partial=True, **given)
    monkeypatch.setattr(
        from_files, "evaluate_boards", lambda *_, **__: pytest.fail("evaluated for nothing")
    )
    with pytest.raises(UserError, match="labels of board cxc differ"):
        evaluate(embeddings=str(model / "tiny.npz"), compare=str(other / "ranks.npz"), **given)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(
    evaluate, model, tmp_path, monkeypatch
):
    def work(**given):
        pytest.fail("evaluated for nothing")

    monkeypatch.setattr(from_files, "evaluate", work)
    (tmp_path / "out").write_text("mine")
    for output in ("out", "out/deep"):
        with pytest.raises(UserError, match=f"Cannot write to .*{output}: .* Name another folder"):
            evaluate(output, embeddings=str(model / "tiny.npz"), similarity="dot")
    with (
        flagsaver.flagsaver(models=["a", "b"], output=str(tmp_path / "out")),
        pytest.raises(UserError, match="Cannot write to .*out: it is a file"),
    ):
        eval_main.main(["eval_main"])
    assert (tmp_path / "out").read_text() == "mine"


def test_several_processes_are_connected_first(evaluate, model, monkeypatch):
    class Connected(Exception):
        pass

    def connect():
        raise Connected

    monkeypatch.setattr(sharding, "initialize_processes", connect)
    with pytest.raises(Connected):
        evaluate(embeddings=str(model / "tiny.npz"), similarity="dot")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "Give one of embeddings, scores and rankings, not none"),
        ({"scores": "s.npy", "rankings": "r.json"}, "not scores and rankings"),
        ({"embeddings": "e.npz", "similarity": "dot", "ids": "i.npz"}, "Ids are for a matrix"),
        ({"scores": "s.npy", "similarity": "dot"}, "Similarity 'dot' is for embeddings; scores"),
        ({"rankings": "r.json", "bootstrap_samples": 0}, "0 bootstrap samples are too few"),
    ],
)
def test_arguments_that_do_not_go_together(annotations, given, message):
    with pytest.raises(UserError, match=message):
        from_files.evaluate(annotations=annotations, **given)

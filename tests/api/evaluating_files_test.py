"""Errors and notes of `evaluate`, for labels of four images; numbers are tested elsewhere.

`tests/eval_files` runs the whole command.
"""

import json

import numpy as np
import pytest

from xmodal.api import evaluating
from xmodal.core.errors import UserError
from xmodal.evals.evaluators import boards
from xmodal.evals.reports import board_tables
from xmodal.evals.reports.store import StoredResults

IMAGES = np.array([10, 20, 30, 40])
CAPTIONS = np.arange(100, 108)
OWNER = np.repeat(IMAGES, 2)


@pytest.fixture
def annotations(tmp_path):
    folder = tmp_path / "labels"
    folder.mkdir()
    own = {str(c): [int(i)] for c, i in zip(CAPTIONS, OWNER, strict=True)}
    (folder / "original_caption_to_image.json").write_text(json.dumps(own))
    np.save(folder / "coco_test_ids.npy", CAPTIONS)
    (folder / "sts_test.csv").write_text(
        "caption1,caption2,agg_score,sampling_method\n"
        "COCO_val2014:sentid:100,COCO_val2014:sentid:103,0,c2c_isim\n"
        "COCO_val2014:sentid:101,COCO_val2014:sentid:106,4,c2c_isim\n"
    )
    np.savez(folder / "val2014_categories.npz", image_ids=IMAGES, labels=np.ones((4, 5), np.uint8))
    return folder


def embeddings():
    rng = np.random.default_rng(0)
    return {
        "image_ids": IMAGES,
        "image_embeddings": rng.normal(size=(4, 3)).astype(np.float32),
        "caption_ids": CAPTIONS,
        "caption_embeddings": rng.normal(size=(8, 3)).astype(np.float32),
    }


def ranked(depth):
    """The same list for every query."""
    return {
        "i2t": {int(i): CAPTIONS[:depth] for i in IMAGES},
        "t2i": {int(c): IMAGES[:depth] for c in CAPTIONS},
    }


def evaluate(annotations, **given):
    if not {"embeddings", "scores", "rankings"} & set(given):
        given = {"embeddings": embeddings(), "similarity": "dot"} | given
    return evaluating.evaluate(annotations=annotations, bootstrap_samples=5, **given)


def test_published_rows_stand_beside_released_labels_only(annotations, monkeypatch):
    evaluation = evaluate(annotations)
    assert "CLIP" not in evaluation.report()  # four images are not MS-COCO 5K
    hashes = {board.name: board.label_hash for board in evaluation.boards}
    monkeypatch.setattr(board_tables, "PUBLISHED_LABELS", hashes)
    assert "CLIP" in evaluation.report()


def test_boards_left_out_have_one_line_per_reason(annotations):
    notes = [note for note in evaluate(annotations).provenance.notes if note.startswith("Left out")]
    lists = "eccv_image_to_caption.json and eccv_caption_to_image.json"
    assert notes == [
        "Left out cxc: coco_captions lacks the labels 'sits' (sits_val.csv or sits_test.csv) and "
        "'sis' (sis_val.csv or sis_test.csv).",
        "Left out cxc_sits_only: coco_captions lacks the labels 'sits' (sits_val.csv or "
        "sits_test.csv).",
        f"Left out eccv: coco_captions lacks the labels 'eccv' ({lists}).",
    ]
    part = {key: each[:3] if "image" in key else each for key, each in embeddings().items()}
    (annotations / "val2014_categories.npz").unlink()
    found = evaluate(annotations, embeddings=part, similarity="dot", partial=True)
    notes = [note for note in found.provenance.notes if note.startswith("Left out")]
    assert notes[0] == "Left out coco1k: its folds need the whole split, and this is 3 of 4 images."
    assert not any("zeta0" in note or "pcme" in note for note in notes)
    assert not evaluate(annotations, boards="coco5k").provenance.notes


def test_ranked_lists_are_never_partial(annotations):
    with pytest.raises(UserError, match="`partial` is for embeddings and scores"):
        evaluate(annotations, rankings=ranked(2), partial=True)


def test_the_similarity_of_the_file_is_the_default(annotations, tmp_path):
    path = tmp_path / "model.npz"
    np.savez(path, similarity="cosine", **embeddings())
    found = evaluate(annotations, embeddings=path)
    assert found.similarity == "cosine"
    assert found.metrics == evaluate(annotations, similarity="cosine").metrics
    # A requested name comes first.
    assert evaluate(annotations, embeddings=path, similarity="dot").similarity == "dot"
    np.savez(path, similarity="cosinus", **embeddings())
    with pytest.raises(UserError, match="'cosinus'"):
        evaluate(annotations, embeddings=path)


@pytest.mark.parametrize("length", [1e-30, 1e-7, 1e19, 1e37])
def test_cosine_at_any_length(annotations, length):
    given = embeddings()
    expected = evaluate(annotations, similarity="cosine").metrics
    for name in ("image_embeddings", "caption_embeddings"):
        given[name] = (given[name].astype(np.float64) * length).astype(np.float32)
    assert evaluate(annotations, embeddings=given, similarity="cosine").metrics == pytest.approx(
        expected, nan_ok=True
    )


def test_a_score_that_overflows_is_named(annotations):
    given = embeddings()
    given["image_embeddings"][1] *= 1e20
    given["caption_embeddings"][:2] *= 1e20
    message = "^Scores of .* by 'dot' are not finite: .* or use the cosine similarity"
    with pytest.raises(UserError, match=message):
        evaluate(annotations, embeddings=given, similarity="dot", boards=["coco5k", "pmrp"])


def test_lists_that_determine_nothing_are_refused(annotations):
    with pytest.raises(UserError, match="does not allow any of pmrp: the lists of 4 of 4 queries"):
        evaluate(annotations, rankings=ranked(1), boards=["pmrp"])
    # Recall at 1 counts as a metric, even if it is the only one.
    found = evaluate(annotations, rankings=ranked(1), boards=["pmrp", "coco5k"])
    assert found.metrics["coco5k/i2t/recall@1"] == 25


def test_lists_show_no_ties(annotations):
    found = evaluate(annotations, rankings=ranked(8), boards=["coco5k"])
    assert found.metrics["coco5k/t2i/recall@1"] == 25
    assert all(each.tied is None for each in found.results[0].directions.values())
    assert not [tag for tag in found.metrics if "tied" in tag]


def test_a_model_that_cannot_be_compared_is_refused_before_the_work(annotations, monkeypatch):
    other = evaluate(annotations, boards=["coco5k"])
    stored = StoredResults(other.results, "other")
    assert evaluate(annotations, other=stored).metrics.items() >= other.metrics.items()

    def work(*args, **given):
        pytest.fail("evaluated for nothing")

    monkeypatch.setattr(boards, "compute_boards", work)
    part = {key: each[:3] if "image" in key else each for key, each in embeddings().items()}
    with pytest.raises(UserError, match="labels of board coco5k differ"):
        evaluate(annotations, embeddings=part, similarity="dot", partial=True, other=stored)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"annotations": None}, "evaluate.annotations is None; it must be a string"),
        ({"annotations": {"test": 1}}, "evaluate.annotations is {.*; it must be a string"),
        ({"embeddings": np.zeros((3, 4))}, "embeddings are given as ndarray; pass the path"),
        ({"scores": np.zeros((3, 4)), "similarity": None}, "scores are given as ndarray"),
        ({"scores": {"scores": 1}, "ids": 3, "similarity": None}, "`ids` belongs to a matrix"),
        ({"rankings": [[1]], "similarity": None}, "rankings are given as list"),
        ({"similarity": ["dot"]}, "similarity"),
        ({"split": None}, "evaluate.split is None; it must be a string"),
        ({"split": ["test"]}, r"evaluate.split is \['test'\]; it must be a string"),
        ({"boards": 5}, "evaluate.boards is 5; it must be a list"),
        (
            {"boards": ["coco5k", None]},
            r"evaluate.boards is \['coco5k', None\]; it must be a list",
        ),
        ({"bootstrap_samples": "few"}, "bootstrap_samples is 'few'; it must be an integer"),
        ({"bootstrap_samples": 0}, "bootstrap_samples is 0; it must be at least 1"),
        ({"seed": 0.5}, "seed is 0.5; it must be an integer"),
        ({"seed": -1}, "seed is -1; it must be at least 0"),
    ],
)
def test_arguments_of_a_wrong_type(annotations, given, message):
    defaults = {"annotations": annotations, "similarity": "dot"}
    if not {"scores", "rankings"} & set(given):
        defaults["embeddings"] = embeddings()
    with pytest.raises(UserError, match=message):
        evaluating.evaluate(**(defaults | given))


def test_ids_of_a_wrong_type(annotations, tmp_path):
    np.save(tmp_path / "scores.npy", np.zeros((4, 8), np.float32))
    with pytest.raises(UserError, match="ids are given as ndarray"):
        evaluate(annotations, scores=tmp_path / "scores.npy", ids=IMAGES)

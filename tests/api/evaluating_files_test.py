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
        ({"annotations": {"test": 1}}, "evaluate.annotations is {.*; it must be a string"),
        ({"embeddings": np.zeros((3, 4))}, "embeddings are given as ndarray; pass the path"),
        ({"similarity": ["dot"]}, "similarity"),
        ({"boards": 5}, "evaluate.boards is 5; it must be a list"),
        ({"bootstrap_samples": 0}, "bootstrap_samples is 0; it must be at least 1"),
    ],
)
def test_arguments_of_a_wrong_type(annotations, given, message):
    defaults = {"annotations": annotations, "similarity": "dot", "embeddings": embeddings()}
    with pytest.raises(UserError, match=message):
        evaluating.evaluate(**(defaults | given))

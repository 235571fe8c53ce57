"""Candidates and their scores from arrays of any model."""

import numpy as np
import pytest

from xmodal.apps.annotate.candidates import read_source
from xmodal.core.errors import UserError
from xmodal.evals.scores.files import open_source

# Three images, four captions, two candidates each way.
ARRAYS = {
    "image_ids": np.array([7, 5, 6]),
    "caption_ids": np.array([50, 61, 70, 51]),
    "i2t_candidates": np.array([[70, 50], [51, 50], [61, 70]]),
    "i2t_scores": np.array([[0.5, 2], [1, 1], [-3, 0]], np.float32),
    "t2i_candidates": np.array([[5, 6], [6, 7], [7, 5], [5, 7]], np.uint16),
    "t2i_scores": np.arange(8.0).reshape(4, 2),
}
FIRST = {
    "image_embeddings": np.eye(3, dtype=np.float32),
    "caption_embeddings": np.eye(3, dtype=np.float32)[[0, 1, 2, 0]],
}


def change(**changes):
    return {name: x for name, x in (ARRAYS | changes).items() if x is not None}


def set_at(name, place, value):
    array = ARRAYS[name].copy()
    array[place] = value
    return {name: array}


def test_candidates_of_one_or_both_directions(tmp_path):
    np.savez(tmp_path / "both.npz", **ARRAYS, **FIRST, similarity="dot")
    found = open_source("scores", tmp_path / "both.npz")
    for direction in ("i2t", "t2i"):
        ids, scores = found.directions[direction]
        np.testing.assert_array_equal(ids, ARRAYS[f"{direction}_candidates"])
        np.testing.assert_array_equal(scores, ARRAYS[f"{direction}_scores"])
    assert (found.definition, found.first.similarity) == ("the scores of a file", "dot")
    one = change(i2t_candidates=None, i2t_scores=None, score_definition="logit + cosine")
    found = open_source("scores", one)
    assert (list(found.directions), found.definition, found.first) == (
        ["t2i"],
        "logit + cosine",
        None,
    )
    with pytest.raises(UserError, match=r"both.npz has candidates .* best first, as rankings"):
        read_source(str(tmp_path / "both.npz"), None)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (change(i2t_scores=None), "'i2t_candidates' but no 'i2t_scores'; save both"),
        (change(caption_ids=None), "no 'caption_ids'"),
        (change(scores=np.ones((3, 4))), "'scores' of all pairs and candidates; save one"),
        (change(score_definition=3), "score_definition in <arrays> is 3, not one string"),
        (change(t2i_scores=np.ones((4, 2), int)), "'t2i' in <arrays> are uint16 .* int64; save"),
        (change(i2t_candidates=np.ones((3, 2))), "'i2t' in <arrays> are float64 .* float32; save"),
        (change(i2t_scores=np.ones((3, 3))), r"are \[3, 2\] and .* \[3, 3\] for 3 image_ids"),
        (
            change(t2i_candidates=np.ones((3, 2), int), t2i_scores=np.ones((3, 2))),
            r"\[3, 2\] for 4 caption_ids; both are \[Q, K\], a row per query",
        ),
        (
            change(**set_at("i2t_candidates", (2, 1), 61)),
            "i2t_candidates in <arrays>: image 6 names caption 61 twice, one of 1 such rows",
        ),
        (
            change(**set_at("t2i_scores", (1, 0), np.nan)),
            "t2i_scores in <arrays>: that of caption 61 with image 6 is nan; scores must be finite",
        ),
        (change(**set_at("i2t_scores", (0, 1), -1e9)), "image 7 with caption 50 is -1000000000.0"),
        (change(**FIRST), "embeddings of the first stage, but no `similarity` of vectors"),
        (change(image_embeddings=FIRST["image_embeddings"]), "'caption_ids' but no"),
    ],
)
def test_candidates_that_do_not_fit_together(arrays, message):
    with pytest.raises(UserError, match=message):
        open_source("scores", arrays)

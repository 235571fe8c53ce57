"""Numbers and ids that float32 and int64 cannot hold."""

import numpy as np
import pytest

from xmodal.core.errors import UserError
from xmodal.evals.scores import arrays

VECTORS = np.random.default_rng(0).normal(size=(3, 7))


def load(vectors, **others):
    given = {"image_ids": np.array([5, 7, 9]), "image_embeddings": vectors}
    return arrays.load_embeddings(given | others)


@pytest.mark.parametrize("scale", [1e-300, 1e-40, 1e-37])
def test_embeddings_that_become_zero(scale):
    vectors = VECTORS.copy()
    vectors[1] *= scale
    with pytest.raises(UserError, match=r"image_embeddings in <arrays>: the row of id 7 .* zero"):
        load(vectors)


def test_small_numbers_beside_large_ones():
    vectors = VECTORS * 1e-20
    vectors[:, 2] = 1e-300
    assert load(vectors).images[0, 2] == 1e-300
    assert np.all(load(np.zeros((3, 7))).images == 0)


def test_numbers_keep_their_digits():
    for vectors in (VECTORS + 1e9, np.asarray(VECTORS, np.longdouble)):
        found = load(vectors).images
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found, vectors.astype(np.float64))
    assert load(VECTORS.astype(np.float16)).images.dtype == np.float32


def test_ids_beyond_int64():
    ids = np.array([5, 2**63, 9], np.uint64)
    with pytest.raises(UserError, match=f"image_ids in <arrays>: row 1 holds {2**63} .*int64"):
        load(VECTORS, image_ids=ids)
    np.testing.assert_array_equal(load(VECTORS, image_ids=ids % 2**62).image_ids, [5, 0, 9])


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (np.array([["a"], ["b"], ["c"]]), "predictions/x/images in <arrays> are <U1, not numbers"),
        (np.array([[0.0], [np.nan], [1]]), "predictions/x/images in <arrays>: row 1 holds nan"),
        (np.array([[0.0], [1.0], [1e39]]), r"row 2 holds 1e\+39; the logits must be finite"),
    ],
)
def test_predictions_that_are_not_numbers(part, message):
    with pytest.raises(UserError, match=message):
        load(VECTORS, **{"predictions/x/images": part})


@pytest.mark.parametrize("score", [5e-324, -1e-310, np.inf, np.nan])
def test_a_score_that_float64_does_not_hold(score):
    matrix = np.array([[1.0], [score]])
    ids = {"image_ids": np.array([5, 7]), "caption_ids": np.array([1])}
    with pytest.raises(UserError, match="score of image 7 with caption 1 in <arrays> is"):
        arrays.load_scores(ids | {"scores": matrix})
    matrix[1] = 1e300
    np.testing.assert_array_equal(arrays.load_scores(ids | {"scores": matrix}).matrix, matrix)


@pytest.mark.parametrize(
    ("tokens", "counts", "message"),
    [
        (np.array(["a", "b"]), [1, 1, 0], r"image_tokens in <arrays> are <U1 \[2\]"),
        (np.ones((4, 2)), [1.5, 1.5, 1], r"image_token_counts float64 \[3\], for 3 items"),
        (np.ones((4, 2)), [2, 2], r"image_token_counts int64 \[2\], for 3 items"),
        (np.ones((4, 2)), [5, -2, 1], "counts in <arrays> are from -2 to 5, with sum 4, for 4"),
        (np.ones((4, 2)), [1, 1, 1], "with sum 3, for 4 image_tokens"),
    ],
)
def test_tokens_that_do_not_fit_their_items(tokens, counts, message):
    with pytest.raises(UserError, match=message):
        load(VECTORS, image_tokens=tokens, image_token_counts=np.array(counts))

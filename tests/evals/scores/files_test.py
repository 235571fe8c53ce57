"""Files and arrays of any model, and what is said of those that do not fit."""

import json
import types

import ml_dtypes
import numpy as np
import pytest

from xmodal.core.errors import UserError
from xmodal.evals.scores import files, lists
from xmodal.evals.scores.files import load_rankings, open_source

IMAGE_IDS, CAPTION_IDS = np.array([7, 3, 11]), np.array([70, 30, 110, 71, 31])


def make_arrays(**changes):
    """Embeddings of three images and five captions; None leaves an array out."""
    rng = np.random.default_rng(0)
    found = {
        "image_ids": IMAGE_IDS,
        "image_embeddings": rng.normal(size=(3, 4)),
        "caption_ids": CAPTION_IDS,
        "caption_embeddings": rng.normal(size=(5, 4)),
    } | changes
    return {name: value for name, value in found.items() if value is not None}


def saved(tmp_path, **changes):
    path = tmp_path / "model.npz"
    np.savez(path, **make_arrays(**changes))
    return path


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", [(3, 4), (3, 2, 4)])
def test_embeddings_of_any_float(tmp_path, dtype, shape):
    values = np.linspace(-1, 1, np.prod(shape)).reshape(shape).astype(dtype)
    found = files.load_embeddings(saved(tmp_path, image_embeddings=values))
    assert found.images.dtype == (np.float64 if dtype == np.float64 else np.float32)
    np.testing.assert_array_equal(found.images, values.astype(np.float64))
    np.testing.assert_array_equal(found.image_ids, IMAGE_IDS)
    assert found.image_ids.dtype == found.caption_ids.dtype == np.int64
    assert (found.captions.shape, found.parameters) == ((5, 4), {})


def test_one_modality_and_parameters(tmp_path):
    path = saved(
        tmp_path,
        image_ids=None,
        image_embeddings=None,
        match_scale=np.float32(2.5),
        match_shift=np.array([-1]),
        notes=np.array([{"any": "thing"}], object),
    )
    found = files.load_embeddings(path)
    assert (found.image_ids, found.images, found.captions.shape) == (None, None, (5, 4))
    assert found.parameters == {"match_scale": 2.5, "match_shift": -1.0}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict.fromkeys(make_arrays()) | {"features": np.ones(2)}, r"<arrays> holds \['features'\]"),
        ({"caption_ids": np.array([5, 8, 5, 9, 9])}, "with 3 different values"),
        ({"image_embeddings": np.ones((4, 4))}, r"are float64 \[4, 4\] for 3 items"),
        ({"caption_embeddings": np.diag([1, 1, np.nan, 1, np.nan])}, "not finite .* in 2 rows"),
        ({"image_log_sigma": np.ones((3, 2, 4))}, r"image_log_sigma .* \[3, 2, 4\] for 3 items"),
    ],
)
def test_embeddings_that_do_not_fit(changes, message):
    with pytest.raises(UserError, match=message):
        files.load_embeddings(make_arrays(**changes))


def test_a_damaged_file_is_named(tmp_path):
    whole = saved(tmp_path).read_bytes()
    damaged = bytearray(whole)
    damaged[whole.index(make_arrays()["image_embeddings"].tobytes())] ^= 255
    (tmp_path / "damaged.npz").write_bytes(damaged)
    with pytest.raises(UserError, match="damaged.npz cannot be read .*CRC"):
        files.load_embeddings(tmp_path / "damaged.npz")


def test_tensors_of_torch():
    torch = pytest.importorskip("torch")
    ids, vectors = torch.arange(3), torch.tensor([[0.5, 1], [2, 3], [4, 5]])
    types = (torch.float16, torch.bfloat16, torch.float8_e4m3fn)
    for tensor in (vectors, vectors.requires_grad_(), *map(vectors.to, types), list(vectors)):
        found = files.load_embeddings({"image_ids": ids, "image_embeddings": tensor})
        assert (found.image_ids.dtype, found.images.dtype) == (np.int64, np.float32)
        np.testing.assert_array_equal(found.images, vectors.detach().numpy())


def ids():
    return {"image_ids": IMAGE_IDS, "caption_ids": CAPTION_IDS}


def test_scores_are_mapped_or_read_from_one_file(tmp_path):
    matrix = np.arange(15.0).reshape(3, 5)
    np.save(tmp_path / "scores.npy", matrix)
    np.savez(tmp_path / "ids.npz", **ids())
    np.savez(tmp_path / "scores.npz", scores=matrix, **ids())
    mapped = files.load_scores(tmp_path / "scores.npy", tmp_path / "ids.npz")
    assert isinstance(mapped.matrix, np.memmap)
    for found in (mapped, files.load_scores(tmp_path / "scores.npz")):
        np.testing.assert_array_equal(found.matrix, matrix)
        np.testing.assert_array_equal(found.image_ids, IMAGE_IDS)
        np.testing.assert_array_equal(found.caption_ids, CAPTION_IDS)


def test_scores_that_do_not_fit():
    with pytest.raises(UserError, match=r"are float64 \[5, 3\] for 3 image_ids "):
        files.load_scores({"scores": np.ones((5, 3)), **ids()})


def test_candidates_of_one_direction():
    items, scores = np.array([[3, 11], [11, 7], [7, 3], [3, 7], [11, 3]], np.uint16), np.eye(5, 2)
    one = {**ids(), "t2i_candidates": items, "t2i_scores": scores}
    found = open_source("scores", one)
    assert (list(found.directions), found.definition) == (["t2i"], "the scores of a file")
    for array, expected in zip(found.directions["t2i"], (items, scores), strict=True):
        np.testing.assert_array_equal(array, expected)
    named = open_source("scores", one | {"score_definition": "logit + cosine"})
    assert named.definition == "logit + cosine"
    with pytest.raises(UserError, match="for 5 queries; save integer ids"):
        open_source("scores", one | {"t2i_scores": scores * np.nan})


def test_lists_keep_their_order(tmp_path):
    path = tmp_path / "ranked.json"
    path.write_text(json.dumps({"i2t": {"3": [30, 7, 12], "1": [7]}}))
    found = load_rankings(path)
    assert (list(found.directions), list(found.directions["i2t"])) == (["i2t"], [3, 1])
    np.testing.assert_array_equal(found.directions["i2t"][3], [30, 7, 12])
    same = load_rankings({"t2i": {np.int32(7): np.array([3, 1], np.int32)}})
    np.testing.assert_array_equal(same.directions["t2i"][7], [3, 1])


def test_lists_of_names_are_no_rankings():
    with pytest.raises(
        UserError, match=r"The list of query 'a.jpg' under 'i2t' in .* is \[1\]; it"
    ):
        load_rankings({"i2t": {"a.jpg": [1]}})
    with pytest.raises(UserError, match=r"holds .*\[\[1\]\].*; rankings are expected"):
        load_rankings({"i2t": {1: [2]}, "t2i": [[1]]})


def order(i2t):
    labels = types.SimpleNamespace(
        image_ids=np.array([5, 3, 9]), caption_ids=np.array([50, 51, 30, 90, 91])
    )
    return lists.open_lists(load_rankings({"i2t": i2t}), labels, "i2t").lists


def test_lists_become_positions_in_the_order_of_the_split():
    found = order({9: [91, 30], 5: [50], 3: [30, 91, 51]})
    assert found.offsets.tolist() == [0, 1, 4, 6]
    assert found.values.tolist() == [0, 2, 4, 1, 4, 2]
    assert order({9: [91, 30]}).lengths.tolist() == [0, 0, 2]

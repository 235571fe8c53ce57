"""Reading embeddings and score matrices, and the error messages."""

import re

import ml_dtypes
import numpy as np
import pytest

from xmodal.core.errors import UserError
from xmodal.evals.scores import array_checks, arrays

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
    found = arrays.load_embeddings(saved(tmp_path, image_embeddings=values))
    assert found.images.dtype == (np.float64 if dtype == np.float64 else np.float32)
    np.testing.assert_array_equal(found.images, values.astype(np.float64))
    np.testing.assert_array_equal(found.image_ids, IMAGE_IDS)
    np.testing.assert_array_equal(found.caption_ids, CAPTION_IDS)
    assert found.image_ids.dtype == found.caption_ids.dtype == np.int64
    assert found.captions.shape == (5, 4)
    assert found.parameters == {}


def test_one_modality_and_parameters(tmp_path):
    path = saved(
        tmp_path,
        image_ids=None,
        image_embeddings=None,
        match_scale=np.float32(2.5),
        match_shift=np.array([-1]),
        notes=np.array([{"any": "thing"}], object),
    )
    found = arrays.load_embeddings(path)
    assert found.image_ids is None
    assert found.images is None
    assert found.captions.shape == (5, 4)
    assert found.parameters == {"match_scale": 2.5, "match_shift": -1.0}


def test_arrays_in_memory_need_no_file_and_are_not_copied():
    given = make_arrays(image_embeddings=np.ones((3, 4), np.float32))
    found = arrays.load_embeddings(given)
    assert np.shares_memory(found.images, given["image_embeddings"])


def with_value(value, row):
    broken = np.ones((5, 4))
    broken[row, 2] = value
    return broken


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            dict.fromkeys(make_arrays()) | {"features": np.ones(2)},
            r"model.npz holds \['features'\].*'image_embeddings', 'caption_ids'",
        ),
        ({"image_ids": None}, "has 'image_embeddings' but no 'image_ids'; save both"),
        ({"caption_embeddings": None}, "has 'caption_ids' but no 'caption_embeddings'"),
        ({"image_ids": np.array([7.0, 3.0, 11.0])}, r"row 0 holds 7\.0 \(float64\); ids are"),
        (
            {"image_ids": np.array(["7", "b.jpg", "11"])},
            r"image_ids in .*: row 0 holds '7' \(<U5\)",
        ),
        ({"image_ids": np.array([True, False, True])}, r"row 0 holds True \(bool\)"),
        ({"image_ids": IMAGE_IDS[:, None]}, r"image_ids in .*: their shape is \[3, 1\], not"),
        (
            {"image_ids": IMAGE_IDS[:0], "image_embeddings": np.ones((0, 4))},
            "image_ids in .* are empty; leave out",
        ),
        (
            {"caption_ids": np.array([5, 8, 5, 9, 9])},
            "caption_ids in .*: id 5 occurs twice, one of 2 such ids; keep one row",
        ),
        ({"image_embeddings": np.ones((3, 4), int)}, "image_embeddings in .* are int64; save them"),
        ({"image_embeddings": np.ones(3)}, r"have shape \[3\]; embeddings are \[N, D\]"),
        ({"image_embeddings": np.ones((3, 1, 2, 4))}, r"have shape \[3, 1, 2, 4\]"),
        ({"image_embeddings": np.ones((3, 0))}, r"have shape \[3, 0\]"),
        ({"image_embeddings": np.ones((4, 4))}, "4 rows of image_embeddings and 3 image_ids"),
        ({"image_embeddings": np.ones((3, 5))}, "images have 5 dimensions and captions 4; both"),
        (
            {"caption_embeddings": with_value(np.nan, [1, 3])},
            "caption_embeddings in .*: 2 of 5 rows hold NaN .* the first is id 30; fix",
        ),
        ({"caption_embeddings": with_value(-np.inf, 4)}, "1 of 5 rows .* first is id 31"),
        ({"caption_embeddings": with_value(1e300, 2)}, "infinity in float32, .* is id 110"),
        (
            {"caption_embeddings": with_value(np.nan, 3)[:, None]},
            "1 of 5 rows hold NaN .* first is id 71",
        ),
        ({"match_scale": np.ones(2)}, r"match_scale in .* is \[1.0, 1.0\], not one number"),
        ({"match_shift": np.nan}, "match_shift in .* is nan, not one number"),
        ({"match_shift": np.array(1j)}, "match_shift in .* is 1j, not one number"),
        ({"match_scale": 1e200}, r"match_scale in .* is 1e\+200, not one number of float32"),
        (
            {"image_ids": np.array([7, None, 11], object)},
            "model.npz cannot be read .*; write it again with numpy.savez and plain arrays",
        ),
    ],
)
def test_embeddings_that_do_not_fit_together(tmp_path, changes, message):
    with pytest.raises(UserError, match=message):
        arrays.load_embeddings(saved(tmp_path, **changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image_embeddings": [[1.0, 2.0], [3.0]]}, "in <arrays> are not a NumPy ar"),
        ({"image_ids": np.array([7, 3, "c.jpg"], object)}, "row 2 holds 'c.jpg'"),
        ({"image_ids": np.array([7, None, 3], object)}, "row 1 holds None"),
        ({"image_log_sigma": np.ones((3, 2, 4))}, r"have shape \[3, 2, 4\]; they are \[N, D\]"),
    ],
)
def test_arrays_of_a_mapping_that_do_not_fit_together(changes, message):
    with pytest.raises(UserError, match=message):
        arrays.load_embeddings(make_arrays() | changes)


def test_files_that_are_no_npz(tmp_path):
    with pytest.raises(UserError, match=r"no file '.*none.npz'"):
        arrays.load_embeddings(tmp_path / "none.npz")
    whole = saved(tmp_path).read_bytes()
    (tmp_path / "short.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="short.npz is not an npz file or is truncated"):
        arrays.load_embeddings(tmp_path / "short.npz")
    for name, content in (("model.csv", b"id,x,y\n7,0.5,1\n"), ("model.h5", b"\x89HDF\r\n\x1a\n")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match=f"{name} .*begins with {re.escape(repr(content))}"):
            arrays.load_embeddings(tmp_path / name)
    damaged = bytearray(whole)
    at = whole.index(make_arrays()["image_embeddings"].tobytes())
    damaged[at] ^= 255
    (tmp_path / "damaged.npz").write_bytes(damaged)
    with pytest.raises(UserError, match="damaged.npz cannot be read .*CRC"):
        arrays.load_embeddings(tmp_path / "damaged.npz")


def ids(**changes):
    found = {"image_ids": IMAGE_IDS, "caption_ids": CAPTION_IDS} | changes
    return {name: value for name, value in found.items() if value is not None}


def test_scores_are_mapped_or_read_from_one_file(tmp_path):
    matrix = np.arange(15.0).reshape(3, 5)
    np.save(tmp_path / "scores.npy", matrix)
    np.savez(tmp_path / "ids.npz", **ids())
    np.savez(tmp_path / "scores.npz", scores=matrix, **ids())
    mapped = arrays.load_scores(tmp_path / "scores.npy", tmp_path / "ids.npz")
    assert isinstance(mapped.matrix, np.memmap)
    for found in (mapped, arrays.load_scores(tmp_path / "scores.npz")):
        np.testing.assert_array_equal(found.matrix, matrix)
        np.testing.assert_array_equal(found.image_ids, IMAGE_IDS)
        np.testing.assert_array_equal(found.caption_ids, CAPTION_IDS)


@pytest.mark.parametrize(
    ("matrix", "known", "message"),
    [
        (np.ones((3, 5)), None, "is a bare matrix: use `ids` to name the npz file"),
        (np.ones((5, 3)), ids(), r"are \[5, 3\] for 3 image_ids and 5 .*, so save the transpose"),
        (np.ones((3, 4)), ids(), r"are \[3, 4\] for 3 image_ids and 5 .* columns captions\.$"),
        (np.ones((3, 5), int), ids(), "scores in .* are int64; save them as float32"),
        (np.ones((3, 5)), ids(caption_ids=None), r"no 'caption_ids'; it holds \['image_ids'\]"),
        (np.ones((3, 5)), ids(image_ids=np.array([1, 1, 2])), "image_ids in .*: id 1 occurs twice"),
        (
            np.array([None, 1]),
            ids(),
            "scores.npy cannot be read .*; write it again with numpy.save",
        ),
    ],
)
def test_scores_that_do_not_fit(tmp_path, matrix, known, message):
    np.save(tmp_path / "scores.npy", matrix)
    if known is not None:
        np.savez(tmp_path / "ids.npz", **known)
        known = tmp_path / "ids.npz"
    with pytest.raises(UserError, match=message):
        arrays.load_scores(tmp_path / "scores.npy", known)


def test_a_score_that_is_not_finite_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(array_checks, "_ROWS_AT_A_TIME", 2)
    matrix = np.ones((3, 5), np.float32)
    matrix[2, 3] = np.inf
    with pytest.raises(UserError, match="image 11 with caption 71 in <arrays> is inf"):
        arrays.load_scores({"scores": matrix, **ids()})


def test_files_of_scores(tmp_path):
    with pytest.raises(UserError, match=r"no file '.*none.npy'"):
        arrays.load_scores(tmp_path / "none.npy", ids())
    (tmp_path / "text.npy").write_text("hello")
    with pytest.raises(UserError, match=r"text.npy cannot be read \(EOF.*; write it again"):
        arrays.load_scores(tmp_path / "text.npy", ids())
    np.save(tmp_path / "whole.npy", np.ones((3, 5)))
    (tmp_path / "short.npy").write_bytes((tmp_path / "whole.npy").read_bytes()[:-8])
    with pytest.raises(UserError, match="short.npy cannot be read"):
        arrays.load_scores(tmp_path / "short.npy", ids())
    with pytest.raises(UserError, match="`ids` belongs to a matrix in a .npy file"):
        arrays.load_scores({"scores": np.ones((3, 5)), **ids()}, ids())
    with pytest.raises(UserError, match=r"no 'scores'; it holds \['caption_ids', 'image_ids'\]"):
        arrays.load_scores(ids())


def test_tensors_of_torch_with_gradients_and_other_types():
    torch = pytest.importorskip("torch")
    ids, vectors = torch.arange(3), torch.tensor([[0.5, 1], [2, 3], [4, 5]])
    types = (torch.float16, torch.bfloat16, torch.float8_e4m3fn)
    for tensor in (vectors, vectors.requires_grad_(), *map(vectors.to, types)):
        found = arrays.load_embeddings({"image_ids": ids, "image_embeddings": tensor})
        assert (found.image_ids.dtype, found.images.dtype) == (np.int64, np.float32)
        np.testing.assert_array_equal(found.images, vectors.detach().numpy())


def test_masked_arrays_are_refused():
    masked = np.ma.masked_greater(np.array([[1.0, 9.0], [2.0, 3.0], [4.0, 5.0]]), 8)
    for given in (masked, list(masked)):
        with pytest.raises(UserError, match="image_embeddings in .*: row 0 has masked values"):
            arrays.load_embeddings({"image_ids": IMAGE_IDS, "image_embeddings": given})
    unmasked = {"image_ids": IMAGE_IDS[1:], "image_embeddings": masked[1:]}
    assert arrays.load_embeddings(unmasked).images[0, 1] == 3

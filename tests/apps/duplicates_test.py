"""Near duplicates of an index, against slow loops, and their page and table."""

import csv
import io
import itertools
import pathlib

import numpy as np
import PIL.Image
import pytest

from tests.api.search.conftest import of_pixels, search  # noqa: F401
from xmodal.api.search.gallery import IndexGallery
from xmodal.apps import duplicates


def draw_vectors(count=60, shape=(8,)):
    """Vectors, every tenth of which is a noisy copy of the one before."""
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(count, *shape)).astype(np.float32)
    noise = 0.01 * generator.normal(size=(count // 10, *shape))
    vectors[1::10] = vectors[0::10] + noise
    return vectors


@pytest.mark.parametrize("shape", [(8,), (3, 8)])
def test_all_pairs_above_a_threshold(shape, monkeypatch):
    monkeypatch.setattr(duplicates, "_BLOCK", 7)
    vectors = draw_vectors(shape=shape)
    flat = vectors.mean(axis=1) if len(shape) == 2 else vectors
    flat = flat / np.linalg.norm(flat, axis=1, keepdims=True)
    every = {(i, j): flat[i] @ flat[j] for i, j in itertools.combinations(range(60), 2)}
    expected = sorted((pair for pair in every if every[pair] >= 0.5), key=lambda x: -every[x])
    threshold, pairs = duplicates.find_pairs(vectors, 0.5)
    assert threshold == 0.5
    assert [(int(a), int(b)) for a, b, _ in pairs] == expected
    assert len(expected) > 20
    np.testing.assert_allclose(pairs[:, 2], [every[x] for x in expected], rtol=1e-5)


def test_the_default_threshold_is_above_what_random_pairs_have():
    vectors = draw_vectors(1000, (64,))
    threshold, pairs = duplicates.find_pairs(vectors)
    assert 0.5 < threshold < 0.75
    assert sorted(map(tuple, pairs[:, :2])) == [(n, n + 1) for n in range(0, 1000, 10)]
    # A model whose cosines are all high has a higher one.
    assert duplicates.find_pairs(vectors + 1)[0] > 0.8


def test_groups_are_linked_pairs(tmp_path):
    vectors = np.eye(6, dtype=np.float32)
    vectors[3] = [0.99, 0, 0, 0.1, 0, 0]
    vectors[5] = [0.9, 0, 0, 0.3, 0, 0]  # Close to 3, less to 0.
    vectors[4] = vectors[1]
    (tmp_path / "own").mkdir()
    names = [str(tmp_path / "own" / f"{n}.png") for n in range(6)]
    for number in (0, 1, 3, 4):  # The fifth was deleted.
        PIL.Image.new("RGB", (900, 600), (40 * number, 0, 0)).save(names[number])
    line, files = duplicates.make_duplicates(
        IndexGallery(names, vectors, folder=str(tmp_path)), 0.97
    )
    assert line == "3 pairs in 2 groups, cosine at least 0.970"
    rows = list(csv.DictReader(io.StringIO(files["duplicates.csv"])))
    found = [row["group"] + pathlib.Path(row["file"]).stem for row in rows]
    assert found == ["11", "14", "20", "23", "25"]  # The most similar group is first.
    assert float(rows[0]["cosine"]) == 1
    page = files["duplicates.html"]
    assert page.count("<img") == 4
    assert page.count("900 x 600 · /own") == 4
    assert pathlib.Path(names[3]).as_uri() in page


def test_the_command_finds_copies_in_an_index(of_pixels, search, tmp_path):  # noqa: F811
    photos, index = tmp_path / "photos", tmp_path / "index"
    photos.mkdir()
    generator = np.random.default_rng(0)
    for number in range(5):
        pixels = generator.integers(0, 256, (40, 40, 3), np.uint8)
        PIL.Image.fromarray(pixels).save(photos / f"{number}.png")
    (photos / "copy.png").write_bytes((photos / "3.png").read_bytes())
    search("build", f"--model={of_pixels}", f"--images={photos}", f"--output={index}")
    printed = search("duplicates", index, "--threshold=0.9", f"--output={tmp_path / 'found'}")
    assert printed.endswith(f"{tmp_path / 'found'}/duplicates.html\n")
    rows = list(csv.DictReader((tmp_path / "found/duplicates.csv").open()))
    cosines = {pathlib.Path(row["file"]).name: float(row["cosine"]) for row in rows}
    assert cosines["3.png"] == cosines["copy.png"] == pytest.approx(1)
    assert min(cosines.values()) >= 0.9

"""An index finds the best-scoring items, can be saved and loaded, and rejects invalid input."""

import json
import os
import re

import numpy as np
import pytest

import xmodal
from tests.api.tiny_dual_encoder import make_texts, save_run
from xmodal.api.exporting import export_model
from xmodal.api.search import index as index_module
from xmodal.api.search.gallery import IndexGallery


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return save_run(str(tmp_path_factory.mktemp("run") / "tiny"))


@pytest.fixture(scope="module")
def model(run):
    return xmodal.load(run)


def make_features(count=30):
    return np.random.default_rng(5).normal(size=(count, 5)).astype(np.float32)


def test_hits_are_the_best_by_the_model(model, tmp_path):
    features, texts = make_features(), make_texts(12)
    index = xmodal.Index.build(model, images=features, captions=texts)
    query = "the red star above a circle"
    scores = model.similarity(model.embed_images(features), model.embed_texts([query]))[:, 0]
    best = np.argsort(-scores, kind="stable")[:4]
    hits = index.query(query, top=4)
    assert [hit.row for hit in hits] == best.tolist()
    assert [hit.item for hit in hits] == [str(row) for row in best]
    assert [hit.rank for hit in hits] == [1, 2, 3, 4]
    np.testing.assert_allclose([hit.score for hit in hits], scores[best], atol=1e-6)
    found = index.query(texts[5], find="caption", top=1)[0]
    assert found.item == texts[5] or found.score == pytest.approx(1)
    assert len(index.query(image=features[3], find="caption", top=99)) == 12

    assert repr(index) == f"<xmodal.Index of {model.name}: 30 images, 12 captions>"
    index.save(tmp_path / "index")
    for again in (
        xmodal.Index.open(tmp_path / "index"),
        xmodal.Index.open(tmp_path / "index", model=model),
    ):
        assert again.query(query, top=4) == hits
    with pytest.raises(xmodal.UserError, match="already exists"):
        index.save(tmp_path / "index")


@pytest.mark.slow
def test_approximate_search_of_an_index(model, tmp_path):
    pytest.importorskip("faiss")
    features = make_features(2000)
    index = xmodal.Index.build(model, images=features, method="approximate", recall=0.9)
    quality = index.galleries["image"].quality
    assert 0.9 <= quality.recall <= 1
    assert quality.queries == "images"
    index.save(tmp_path / "index")
    again = xmodal.Index.open(tmp_path / "index", model=model)
    assert again.galleries["image"].quality == quality
    assert again.query("a star") == index.query("a star")
    exact = {hit.row for hit in again.query("a star", exact=True)}
    assert len(exact & {hit.row for hit in again.query("a star")}) >= 5


@pytest.mark.slow
def test_items_that_are_nearly_equal_are_searched_exactly(model, caplog, monkeypatch):
    """8-bit codes cannot tell them apart."""
    pytest.importorskip("faiss")
    vectors = np.ones((3000, 4), np.float32)
    vectors[1:] += 1e-5 * np.random.default_rng(0).normal(size=(2999, 4)).astype(np.float32)
    vectors[0] = -1  # The range of the codes.
    galleries = {"image": IndexGallery([str(row) for row in range(3000)], vectors)}
    monkeypatch.setattr(index_module, "embed_items", lambda *given: galleries)
    index = xmodal.Index.build(model, images=["any"], method="approximate")
    gallery = index.galleries["image"]
    assert (gallery.lists, gallery.quality) == (None, None)
    assert re.search(r"finds 0\.\d+ of the exact top 10 images, .*: search is exact", caplog.text)
    hits = index.query_vectors(vectors[7:8], "caption", top=3)
    assert 0 not in [hit.row for hit in hits[0]]


def test_another_model_and_damage_are_refused(run, model, tmp_path):
    index = xmodal.Index.build(model, captions=["a star", "the circle"])
    index.save(tmp_path / "index")
    card = tmp_path / "index" / "index.json"
    content = json.loads(card.read_text())
    assert (content["model"], content["step"]) == (run, 3)
    # Its text tower is the same.
    with pytest.raises(xmodal.UserError, match="not embedded by .* step 5"):
        xmodal.Index.open(tmp_path / "index", model=xmodal.load(run, step=5))
    vectors = tmp_path / "index" / "caption.npy"
    saved = vectors.read_bytes()
    vectors.write_bytes(saved[:-3] + bytes([saved[-3] ^ 1]) + saved[-2:])
    with pytest.raises(xmodal.UserError, match="caption.npy is damaged .*: build the index again"):
        xmodal.Index.open(tmp_path / "index")
    with pytest.raises(xmodal.UserError, match="is not an index: index.json is missing"):
        xmodal.Index.open(tmp_path)


@pytest.mark.slow
def test_an_index_remembers_its_step_even_if_the_run_is_moved_or_a_bundle(search, tmp_path):
    run = save_run(str(tmp_path / "run"), steps=(0, 3, 5))
    for step in (0, 5):
        index = xmodal.Index.build(xmodal.load(run, step=step), captions=["a star"])
        index.save(tmp_path / f"index_{step}")
        assert xmodal.Index.open(tmp_path / f"index_{step}").model.step == step
    export_model(run, tmp_path / "bundle", step=5, platforms=["cpu"])
    os.rename(run, tmp_path / "moved")
    for place in ("moved", "bundle"):
        given = (f"--index={tmp_path / 'index_5'}", f"--model={tmp_path / place}")
        assert "a star" in search("query", *given, "a star")
    with pytest.raises(SystemExit, match="not embedded by .*bundle"):
        search("query", f"--index={tmp_path / 'index_0'}", f"--model={tmp_path / 'bundle'}", "a")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda index: index.query("a", top=2.5), "top is 2.5; it must be an integer of at least"),
        (
            lambda index: index.query_vectors(np.ones((1, 3)), "caption"),
            r"Queries of shape \[1, 3\] cannot be compared with items of shape \[1, 4\]",
        ),
        (lambda index: index.query("a", find="image"), r"has no image; it has \['caption'\]"),
    ],
)
def test_mistakes_are_named(model, call, message):
    index = xmodal.Index.build(model, captions=["a star"])
    with pytest.raises(xmodal.UserError, match=message):
        call(index)


def test_the_commands(run, model, search, tmp_path):
    np.save(tmp_path / "features.npy", make_features())
    (tmp_path / "captions.txt").write_text("a star\n\nthe circle\n")
    place = tmp_path / "index"
    printed = search(
        "build", f"--model={run}", f"--images={tmp_path / 'features.npy'}",
        f"--captions={tmp_path / 'captions.txt'}", f"--output={place}",
    )  # fmt: skip
    assert "images: 30 items, exact search" in printed
    assert "captions: 2 items, exact search" in printed
    hits = xmodal.Index.open(place, model=model).query("a star", top=3)
    table = search("query", f"--index={place}", "a star", "--top=3").splitlines()
    assert table.pop() == f"score: {model.similarity_name}"
    assert [line.split()[-1] for line in table] == [hit.item for hit in hits]
    found = json.loads(
        search("query", f"--index={place}", "a star", "--find=caption", "--format=json")
    )
    assert found["query"] == "a star"
    assert found["hits"][0]["item"] == "a star"
    noted = json.loads(search("query", f"--index={place}", "狗", "--format=json"))
    assert noted["notes"][0].startswith("The model knows no word of the query")
    np.save(tmp_path / "one.npy", make_features()[4])
    search(
        "query", f"--index={place}", f"--image={tmp_path / 'one.npy'}", f"--output={tmp_path / 'a'}"
    )
    assert (tmp_path / "a").read_text().splitlines()[0].split()[-1].endswith("features.npy#4")


def test_what_cannot_be_read_is_named(search, tmp_path):
    (tmp_path / "list.txt").write_text("missing.jpg\n")
    with pytest.raises(SystemExit, match="^Error: .*lists 1 files that are missing"):
        search("build", "--model=M", "--output=O", f"--images={tmp_path / 'list.txt'}")
    (tmp_path / "bomb.pgm").write_bytes(b"P5 60000 60000 255\n" + bytes(9))
    with pytest.raises(SystemExit, match="^Error: .*picture: Image size .* exceeds limit"):
        search("query", "--index=I", f"--image={tmp_path / 'bomb.pgm'}")

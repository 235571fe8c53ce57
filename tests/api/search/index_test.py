"""An index finds the best-scoring items, can be saved and loaded, and rejects invalid input."""

import json

import numpy as np
import pytest

import xmodal
from tests.api.tiny_dual_encoder import make_texts, save_run


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
    similar = index.query(like=("image", 3), find="caption")
    embedded_again = index.query(image=features[3], find="caption")
    assert [hit.row for hit in similar] == [hit.row for hit in embedded_again]
    scores = [[hit.score for hit in each] for each in (similar, embedded_again)]
    np.testing.assert_allclose(*scores, atol=1e-6)
    with pytest.raises(xmodal.UserError, match="the index has 30 images"):
        index.query(like=("image", 30))

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
def test_approximate_search_of_an_index(model, tmp_path, monkeypatch):
    pytest.importorskip("faiss")
    monkeypatch.setattr("xmodal.api.search.index._WORTH_LISTS", 2000)
    features = make_features(2000)
    index = xmodal.Index.build(model, images=features, recall=0.9)
    recall = index.galleries["image"].recall
    assert 0.9 <= recall <= 1
    index.save(tmp_path / "index")
    again = xmodal.Index.open(tmp_path / "index", model=model)
    assert again.galleries["image"].recall == recall
    assert again.query("a star") == index.query("a star")
    similar = again.query(like=("image", 4), top=10)
    assert len(similar) == 10
    assert 4 not in {hit.row for hit in similar}
    exact = xmodal.Index.build(model, images=features, recall=1)
    assert exact.galleries["image"].lists is None
    rows = [{hit.row for hit in each.query("a star")} for each in (exact, again)]
    assert len(set.intersection(*rows)) >= 5


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
    printed = search("query", f"--index={place}", f"--image={tmp_path / 'one.npy'}")
    assert printed.splitlines()[0].split()[-1].endswith("features.npy#4")

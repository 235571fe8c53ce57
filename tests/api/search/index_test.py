"""An index finds the best-scoring items, can be saved and loaded, and rejects invalid input."""

import base64
import gc
import io
import json
import os
import re
import subprocess
import sys
import weakref

import jax
import numpy as np
import PIL.Image
import pytest

import xmodal
from tests.api.tiny_dual_encoder import SECTION, TEXT, WORDS, make_texts, make_weights, save_run
from xmodal.api.exporting import export_model
from xmodal.api.model import Model
from xmodal.api.search import approximate, exact, formats
from xmodal.api.search.gallery import IndexGallery
from xmodal.api.search.hits import Hit
from xmodal.core.mesh import make_mesh
from xmodal.data.pixels.images import ImageConfig
from xmodal.data.text.text_config import TextConfig
from xmodal.data.text.tokenizers import make_tokenizer
from xmodal.models import make_dual_encoder


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return save_run(str(tmp_path_factory.mktemp("run") / "tiny"))


@pytest.fixture(scope="module")
def model(run):
    return xmodal.load(run)


def make_features(count=30):
    return np.random.default_rng(5).normal(size=(count, 5)).astype(np.float32)


def test_an_index_goes_when_nobody_uses_it(model):
    index = xmodal.Index.build(model, images=make_features())
    index.query("a star", top=1)
    reference = weakref.ref(index)
    del index
    gc.collect()
    assert reference() is None


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
    path = tmp_path / "index" / "image_lists.faiss"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(
        xmodal.UserError, match="image_lists.faiss is damaged or truncated, its bytes"
    ):
        xmodal.Index.open(tmp_path / "index", model=model)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["images", "captions"])
def test_items_that_are_nearly_equal_are_searched_exactly(model, caplog, monkeypatch, kind):
    """8-bit codes cannot tell them apart: the effort has a bound, and so has the memory."""
    pytest.importorskip("faiss")
    vectors = np.ones((3000, 4), np.float32)
    vectors[1:] += 1e-5 * np.random.default_rng(0).normal(size=(2999, 4)).astype(np.float32)
    vectors[0] = -1  # The range of the codes.
    gathered = []
    rescore = exact.Scorer.rescore
    monkeypatch.setattr(
        exact.Scorer, "rescore", lambda *a: (gathered.append(a[2].size), rescore(*a))[1]
    )
    monkeypatch.setattr(approximate, "_NUMBERS", 2**14)
    galleries = {kind[:-1]: IndexGallery([str(row) for row in range(3000)], vectors)}
    index = xmodal.Index.of_galleries(model, galleries, method="approximate", recall=0.95)
    assert max(gathered) <= 2**14
    gallery = index.galleries[kind[:-1]]
    assert (gallery.lists, gallery.quality) == (None, None)
    assert re.search(rf"finds 0\.\d+ of the exact top 10 {kind}, .*: search is exact", caplog.text)
    hits = index.query_vectors(vectors[7:8], "caption" if kind == "images" else "image", top=3)
    assert 0 not in [hit.row for hit in hits[0]]


def test_damaged_lists_are_refused(model, tmp_path):
    pytest.importorskip("faiss")
    index = xmodal.Index.build(model, images=make_features(200), method="approximate")
    index.save(tmp_path / "index")
    card, path = tmp_path / "index" / "index.json", tmp_path / "index" / "image_lists.faiss"
    content = json.loads(card.read_text())
    del content["checksums"]  # Whoever changes a file can change its checksum.
    card.write_text(json.dumps(content))
    whole = path.read_bytes()
    path.write_bytes(whole[:300])
    with pytest.raises(xmodal.UserError, match="image_lists.faiss is damaged .*: build the index"):
        xmodal.Index.open(tmp_path / "index", model=model)
    path.write_bytes(whole)
    assert xmodal.Index.open(tmp_path / "index", model=model).query("a star")
    record = content["galleries"]["image"]
    for wrong in ({"effort": {"probes": "x"}}, {"effort": {"probes": 0}}, {"dataset": "coco"}):
        card.write_text(json.dumps(content | {"galleries": {"image": record | wrong}}))
        with pytest.raises(xmodal.UserError, match="is damaged .*its (effort|dataset) is"):
            xmodal.Index.open(tmp_path / "index", model=model)
    card.write_text(json.dumps(content))
    np.save(tmp_path / "index" / "image.npy", np.zeros((200, 4)))
    with pytest.raises(xmodal.UserError, match=r"its embeddings are float64 \[200, 4\]"):
        xmodal.Index.open(tmp_path / "index", model=model)


def test_another_model_and_damage_are_refused(run, model, tmp_path):
    index = xmodal.Index.build(model, captions=["a star", "the circle"])
    index.save(tmp_path / "index")
    card = tmp_path / "index" / "index.json"
    content = json.loads(card.read_text())
    assert (content["model"], content["step"]) == (run, 3)
    # Its text side is the same.
    with pytest.raises(xmodal.UserError, match="not embedded by .* step 5"):
        xmodal.Index.open(tmp_path / "index", model=xmodal.load(run, step=5))
    vectors = tmp_path / "index" / "caption.npy"
    saved = vectors.read_bytes()
    for damaged in (saved[:-1], saved[:-3] + bytes([saved[-3] ^ 1]) + saved[-2:]):
        vectors.write_bytes(damaged)
        with pytest.raises(xmodal.UserError, match="index.* is damaged .*: build the index again"):
            xmodal.Index.open(tmp_path / "index")
    vectors.write_bytes(saved)
    earlier = {key: content[key] for key in content if key != "checksums"}
    card.write_text(json.dumps(earlier))
    assert xmodal.Index.open(tmp_path / "index").query("a star") == index.query("a star")
    card.write_text(json.dumps({key: content[key] for key in content if key != "weights"}))
    with pytest.raises(xmodal.UserError, match=r"is damaged \('weights'\)"):
        xmodal.Index.open(tmp_path / "index")
    for wrong in ({"model": 3}, {"step": "5"}, {"galleries": {"caption": 3}}, {"checksums": [3]}):
        card.write_text(json.dumps(content | wrong))
        with pytest.raises(xmodal.UserError, match="is damaged .*: build the index again"):
            xmodal.Index.open(tmp_path / "index")
    card.write_text(json.dumps(content))
    (tmp_path / "index" / "caption_left_out.json").write_text("[3]")
    with pytest.raises(xmodal.UserError, match="caption_left_out.json holds a list"):
        xmodal.Index.open(tmp_path / "index")
    (tmp_path / "index" / "caption_left_out.json").unlink()
    card.write_text(json.dumps(content | {"version": 7}))
    with pytest.raises(xmodal.UserError, match="'xmodal index' of version 7; this xmodal reads"):
        xmodal.Index.open(tmp_path / "index")
    card.write_text(json.dumps(earlier))
    (tmp_path / "index" / "caption.json").write_text('["a star"]')
    with pytest.raises(xmodal.UserError, match="2 embeddings and 1 names of 2"):
        xmodal.Index.open(tmp_path / "index")
    with pytest.raises(xmodal.UserError, match="is not an index: index.json is missing"):
        xmodal.Index.open(tmp_path)


def test_a_model_that_reads_texts_otherwise_is_told_from_another(tmp_path):
    """Such as SigLIP's, with punctuation and without, as two libraries read it."""

    def make(**changes):
        params, state = ({"text": tree["text"]} for tree in make_weights())
        encoders = make_dual_encoder(SECTION | {"image": None})
        tokenizer = make_tokenizer(TextConfig(**TEXT | changes), WORDS)
        mesh = make_mesh(jax.devices())
        return Model("tiny", encoders, params, state, mesh=mesh, tokenizer=tokenizer)

    xmodal.Index.build(make(), captions=["a star", "the circle"]).save(tmp_path / "index")
    xmodal.Index.open(tmp_path / "index", model=make())
    for changes in ({"separators": "."}, {"max_length": 2}, {"unknown": "drop"}):
        with pytest.raises(xmodal.UserError, match="not embedded by tiny"):
            xmodal.Index.open(tmp_path / "index", model=make(**changes))


def test_a_model_of_images_alone_is_told_from_another(tmp_path):
    def make(seed):
        params, state = ({"image": tree["image"]} for tree in make_weights(seed))
        encoders = make_dual_encoder(SECTION | {"text": None})
        mesh, images = make_mesh(jax.devices()), ImageConfig(size=0)
        return Model(f"seed {seed}", encoders, params, state, mesh=mesh, images=images)

    features = make_features()
    index = xmodal.Index.build(make(0), images=features)
    index.save(tmp_path / "index")
    again = xmodal.Index.open(tmp_path / "index", model=make(0))
    assert again.query(image=features[3]) == index.query(image=features[3])
    with pytest.raises(xmodal.UserError, match="not embedded by seed 1"):
        xmodal.Index.open(tmp_path / "index", model=make(1))


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
        found = search(
            "query", f"--index={tmp_path / 'index_5'}", f"--model={tmp_path / place}", "a star"
        )
        assert found.splitlines()[-2].split()[-2:] == ["a", "star"]
    # No TensorFlow is loaded with a run, and with a bundle none of training's libraries either.
    code = (
        "import sys, xmodal\n"
        "index = xmodal.Index.open(sys.argv[1], model=sys.argv[2])\n"
        "print([hit.item for hit in index.query('a star')])\n"
        "print([name for name in sys.argv[3:] if name in sys.modules])"
    )
    training = ("flax", "optax", "orbax", "ml_collections")
    for place, more in (("moved", ()), ("bundle", training)):
        absent = ("tensorflow", *more)
        command = [sys.executable, "-c", code, tmp_path / "index_5", tmp_path / place, *absent]
        alone = subprocess.run(command, check=True, capture_output=True, text=True)
        assert alone.stdout.splitlines() == ["['a star']", "[]"]
    with pytest.raises(SystemExit, match="not embedded by .*bundle"):
        search("query", f"--index={tmp_path / 'index_0'}", f"--model={tmp_path / 'bundle'}", "a")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda index: index.query(), "Pass either a text or an image as the"),
        (lambda index: index.query("a", image=np.ones(5)), "Pass either a text or an image"),
        (lambda index: index.query(""), "The query '' is empty"),
        (lambda index: index.query(" \t", rerank=3), "is empty: pass a text with words"),
        (lambda index: index.query("\N{ZERO WIDTH SPACE}", find="caption"), "is empty"),
        (lambda index: index.query("a", top=0), "top is 0; it must be an integer of at lea"),
        (lambda index: index.query("a", top=2.5), "top is 2.5; it must be an integer"),
        (lambda index: index.query("a", top=-1, rerank=3), "top is -1; it must be an integer"),
        (
            lambda index: index.query_vectors(np.ones((1, 3)), "caption"),
            r"Queries of shape \[1, 3\] cannot be compared with items of shape \[1, 4\]",
        ),
        (
            lambda index: index.query_vectors(np.full((2, 4), np.nan), "caption"),
            "2 of 2 query embeddings are not finite",
        ),
        (lambda index: index.query_vectors(np.ones((1, 4)), "captions"), "Did you mean 'caption'"),
        (lambda index: index.query("a", find="image"), r"has no image; it has \['caption'\]"),
        (lambda index: xmodal.Index.build(index.model), "There is nothing to index"),
        (
            lambda index: xmodal.Index.build(index.model, captions=["a"], method="x"),
            "method is 'x'",
        ),
        (lambda index: xmodal.Index.build(index.model, captions=["a"], recall=2), "recall is 2"),
        (
            lambda index: xmodal.Index.build(index.model, captions="a star"),
            "captions='a star': pass several captions; put one in a list",
        ),
        (lambda index: xmodal.Index.build(index.model, images=None), "images='None': pass several"),
    ],
)
def test_mistakes_are_named(model, call, message):
    index = xmodal.Index.build(model, captions=["a star"])
    with pytest.raises(xmodal.UserError, match=message):
        call(index)


def test_items_come_from_any_iterable(model):
    captions = ["a star", "the circle"]
    index = xmodal.Index.build(model, captions=captions)
    for given in ((each for each in captions), dict.fromkeys(captions), np.array(captions)):
        assert xmodal.Index.build(model, captions=given).query("a star") == index.query("a star")
    assert index.query_vectors(np.zeros((0, 4)), "caption") == []


def test_embeddings_of_a_diverged_model_are_refused():
    params, state = make_weights()
    params["text"]["encoder"]["table"][4] = np.nan  # "a"
    encoders, tokenizer = make_dual_encoder(SECTION), make_tokenizer(TextConfig(**TEXT), WORDS)
    diverged = Model("x", encoders, params, state, mesh=make_mesh(), tokenizer=tokenizer)
    with pytest.raises(xmodal.UserError, match="1 of 2 caption embeddings are not finite"):
        xmodal.Index.build(diverged, captions=["the star", "a star"])


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
    with pytest.raises(SystemExit, match="The query '  ' is empty"):
        search("query", f"--index={place}", "  ")
    note = "The model knows no word of the query"
    assert search("query", f"--index={place}", "qwzx").splitlines()[-1].startswith(f"note: {note}")
    noted = json.loads(search("query", f"--index={place}", "狗", "--format=json"))
    assert noted["notes"][0].startswith(note)
    page = f"--output={tmp_path / 'page.html'}"
    search("query", f"--index={place}", "qwzx", "--format=html", page)
    assert note in (tmp_path / "page.html").read_text()
    np.save(tmp_path / "one.npy", make_features()[4])
    search(
        "query", f"--index={place}", f"--image={tmp_path / 'one.npy'}", f"--output={tmp_path / 'a'}"
    )
    assert (tmp_path / "a").read_text().splitlines()[0].split()[-1].endswith("features.npy#4")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["build", "--model=M", "--output=O"], "There is nothing to index: use --images"),
        (["build", "--model=M", "--output=O", "--images=nowhere"], "neither a folder nor a file"),
        (["build", "--model=M", "--output=O", "--images=."], r"--images=\. has no picture"),
        (
            ["build", "--model=M", "--output=O", "--images=list.txt"],
            "lists 1 files that are missing",
        ),
        (["build", "--model=M", "--output=O", "--captions=empty.txt"], "empty.txt is empty"),
        (["build", "--model=M", "--output=O", "--captions=x"], "--captions=x is not a file"),
        (
            ["build", "--model=M", "--output=O", "--dataset=coco", "--captions=x"],
            "--dataset already provides",
        ),
        (["query", "--index=I"], "Use either a text or --image"),
        (["query", "--index=I", "a", "--format=html"], "--format=html needs --output"),
        (["query", "--index=I", "--image=list.txt"], "list.txt cannot be read as a picture"),
        (["query", "--index=I", "--image=bomb.pgm"], "picture: Image size .* exceeds limit"),
        (["query", "--index=I", "a"], "I is not an index"),
    ],
)
def test_mistakes_on_the_command_line(arguments, message, search, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "list.txt").write_text("missing.jpg\n")
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "bomb.pgm").write_bytes(b"P5 60000 60000 255\n" + bytes(9))
    with pytest.raises(SystemExit, match=f"^Error: .*{message}"):
        search(*arguments)


def test_the_page_holds_its_pictures():
    pictures = [PIL.Image.fromarray(np.full((300, 900, 3), shade, np.uint8)) for shade in (10, 200)]
    hits = [Hit(1, 1, "<b>.png", 0.75), Hit(2, 0, "other.png", 0.5)]
    page = formats.as_page("a & b", hits, lambda hit: pictures[hit.row], pictures[0])
    text = page.to_html()
    assert "<h1>a &amp; b</h1>" in text
    assert "&lt;b&gt;.png" in text
    assert not re.search(r"https?:|<script|<link", text)
    encoded = re.findall(r'src="data:image/jpeg;base64,([^"]+)"', text)
    shades = []
    for each in encoded:
        image = PIL.Image.open(io.BytesIO(base64.b64decode(each)))
        assert image.size == (320, 107)
        shades.append(np.asarray(image).mean().round())
    assert shades == [10, 200, 10]

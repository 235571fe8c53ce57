"""An index behind HTTP: answers, and requests that are wrong."""

import functools
import http.client
import io
import json
import pathlib
import signal
import threading
import urllib.request
import webbrowser

import numpy as np
import PIL.Image
import pytest

import xmodal
from tests.api.search.pictures_test import draw_noise, save_pictures
from tests.api.search.serving import serving
from xmodal.api import web_server
from xmodal.api.search import items, server


@pytest.fixture(scope="module")
def index(of_pixels, tmp_path_factory):
    paths = save_pictures(tmp_path_factory.mktemp("photos") / "all")
    return xmodal.Index.build(
        xmodal.load(of_pixels), images=[str(path) for path in paths], captions=["a star", "a moon"]
    )


def send(address, method, path, body=None, headers=None):
    """Returns the status and the JSON of the answer."""
    answer = fetch(address, method, path, body, headers)
    assert answer.getheader("Content-Type") == "application/json; charset=utf-8"
    return answer.status, json.loads(answer.read())


def fetch(address, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection(*address, timeout=60)
    connection.request(method, path, body, headers or {})
    return connection.getresponse()


@pytest.fixture(scope="module")
def address(index):
    with serving(index, url="https://search.example.org") as found:
        yield found


@pytest.fixture(scope="module")
def ask(address):
    return functools.partial(send, address)


def rows_of(found):
    return [(hit["item"], hit["score"]) for hit in found["hits"]]


def test_answers_are_those_of_the_index(index, ask):
    status, found = ask("GET", "/search?text=a+star&top=2")
    assert (status, found["query"], len(found["hits"])) == (200, "a star", 2)
    assert rows_of(found) == [(hit.item, hit.score) for hit in index.query("a star", top=2)]
    assert {hit["definition"] for hit in found["hits"]} == {index.model.similarity_name}
    captions = ask("GET", "/search?text=a+star&find=caption")[1]
    assert captions["hits"][0]["item"] == "a star"
    path = index.galleries["image"].names[2]
    status, found = ask("POST", "/search?top=1", pathlib.Path(path).read_bytes())
    assert (status, rows_of(found)[0][0]) == (200, path)


def test_items_find_similar_ones_but_not_themselves(index, ask, monkeypatch):
    monkeypatch.setattr(index.model, "embed_images", None)  # Their embeddings are in the index.
    status, found = ask("GET", "/similar/image/2?top=2")
    assert (status, found["query"]) == (200, index.galleries["image"].names[2])
    scores = index.model.similarity(*[index.galleries["image"].vectors] * 2)[2]
    best = [row for row in np.argsort(-scores, kind="stable") if row != 2][:2]
    assert [hit["row"] for hit in found["hits"]] == best
    assert [hit["rank"] for hit in found["hits"]] == [1, 2]
    captions = ask("GET", "/similar/image/2?find=caption")[1]
    assert rows_of(captions) == [
        (hit.item, hit.score) for hit in index.query(like=("image", 2), find="caption")
    ]
    for path in ("/similar/image/4", "/similar/sound/0", "/similar/image/-1"):
        assert ask("GET", path)[0] == 404
    assert ask("GET", "/similar/image/0?text=a")[0] == 400


def test_pictures_are_sent_upright_and_small_or_as_they_are(of_pixels, tmp_path):
    exif, picture = PIL.Image.Exif(), PIL.Image.fromarray(draw_noise(1)[0]).resize((1200, 900))
    exif[0x0112] = 6
    paths = [tmp_path / name for name in ("turned.jpg", "other.tif", "lost.png", "damaged.png")]
    picture.save(paths[0], exif=exif)
    for path in paths[1:]:
        picture.save(path)
    index = xmodal.Index.build(xmodal.load(of_pixels), images=list(map(str, paths)))
    paths[2].unlink()
    paths[3].write_bytes(paths[3].read_bytes()[:900])

    def size_of(path):
        answer = fetch(address, "GET", path)
        assert answer.getheader("Cache-Control") == "private, max-age=86400"
        assert answer.getheader("Content-Type") == "image/jpeg"
        return PIL.Image.open(io.BytesIO(answer.read())).size

    with serving(index) as address:
        assert [size_of(f"/thumbnail/{row}") for row in (0, 1)] == [(360, 480), (480, 360)]
        assert fetch(address, "GET", "/image/0").read() == paths[0].read_bytes()
        assert size_of("/image/1") == (1200, 900)
        for path, status in (("/thumbnail/2", 404), ("/image/9", 404), ("/thumbnail/3", 400)):
            assert send(address, "GET", path)[0] == status


def test_pictures_of_a_dataset_are_shown(of_pixels, few_shapes, search, tmp_path):
    flags = {"dataset": "crisscrossed_shapes", "config": "images", "split": "test"}
    flags |= {"data_dir": few_shapes, "model": of_pixels, "output": tmp_path / "index"}
    search("build", *(f"--{key}={value}" for key, value in flags.items()))
    index = xmodal.Index.open(tmp_path / "index")
    stored = items.open_split(index.galleries["image"].dataset).pictures(np.array([3]))[0]
    with serving(index) as address:
        assert fetch(address, "GET", "/image/3").read() == stored
        assert fetch(address, "GET", "/thumbnail/3").status == 200


def test_the_page_opens_in_the_browser_of_this_machine(of_pixels, search, monkeypatch, tmp_path):
    def open_browser(address):
        """A browser in its own thread, as it is a process of its own."""

        def visit():
            with urllib.request.urlopen(address) as answer:
                seen.append(answer.read())
            signal.raise_signal(signal.SIGINT)

        threading.Thread(target=visit).start()

    seen = []
    monkeypatch.setattr(webbrowser, "open", open_browser)
    xmodal.Index.build(xmodal.load(of_pixels), captions=["a star"]).save(tmp_path / "mine")
    printed = search("serve", f"--index={tmp_path / 'mine'}", "--port=0", "--open")
    assert printed.startswith(f"{tmp_path / 'mine'} is served at http://127.0.0.1:")
    assert b"<title>mine</title>" in seen[0]


@pytest.mark.parametrize(
    ("request_", "status", "message"),
    [
        (("GET", "/search?top=2"), 400, "Pass either a text or an image"),
        (("GET", "/search?text=a&k=3"), 400, "Unknown name 'k' in the address; known: ['find'"),
        (("GET", "/search?text=a&top=2000"), 400, "top is 2000; it must be at most 1000"),
        (("GET", "/nothing"), 404, "there is no such page or item"),
    ],
)
def test_wrong_requests_have_an_answer(ask, request_, status, message):
    found, answer = ask(*request_)
    assert found == status
    assert message in answer["error"]


def test_a_query_that_fails_has_an_answer_and_so_has_the_next(index, ask, monkeypatch):
    def fail(*args, **kwargs):
        raise MemoryError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(index, "query", fail)
        assert ask("GET", "/search?text=a") == (
            500,
            {"error": "the query failed; see the server's log"},
        )
    assert ask("GET", "/search?text=a")[0] == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example:PORT"}, 400),
        ({"Origin": "http://evil.example"}, 403),
        ({"Host": "search.example.org"}, 200),
    ],
)
def test_other_names_and_other_sites_are_refused(address, headers, status):
    headers = {key: each.replace("PORT", str(address[1])) for key, each in headers.items()}
    found, answer = send(address, "GET", "/search?text=a", headers=headers)
    assert found == status
    assert ("hits" in answer) == (status == 200)


def test_a_large_picture_and_a_used_port_are_refused(index, monkeypatch):
    monkeypatch.setattr(server, "_LARGEST", 10)
    with serving(index) as address:
        assert send(address, "POST", "/search", bytes(11))[0] == 413
        for method in ("GET", "POST"):
            chunks = iter([bytes(6), bytes(6)])
            assert send(address, method, "/search?text=a", chunks)[0] == 411
        with pytest.raises(xmodal.UserError, match="Cannot listen at 127.0.0.1:"):
            web_server.listen(*address)

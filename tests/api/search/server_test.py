"""An index behind HTTP: answers, and requests that are wrong."""

import functools
import http.client
import json
import pathlib

import pytest

import xmodal
from tests.api.search.pictures_test import save_pictures
from tests.api.search.serving import serving
from xmodal.api.search import server


@pytest.fixture(scope="module")
def index(of_pixels, tmp_path_factory):
    paths = save_pictures(tmp_path_factory.mktemp("photos") / "all")
    return xmodal.Index.build(
        xmodal.load(of_pixels), images=[str(path) for path in paths], captions=["a star", "a moon"]
    )


def send(address, method, path, body=None, headers=None):
    """Returns the status and the JSON of the answer."""
    connection = http.client.HTTPConnection(*address, timeout=60)
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    assert answer.getheader("Content-Type") == "application/json; charset=utf-8"
    return answer.status, json.loads(answer.read())


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


@pytest.mark.parametrize(
    ("request_", "status", "message"),
    [
        (("GET", "/search?top=2"), 400, "Pass either a text or an image"),
        (("GET", "/search?text=a&k=3"), 400, "Unknown name 'k' in the address; known: ['find'"),
        (("GET", "/search?text=a&top=2000"), 400, "top is 2000; it must be at most 1000"),
        (("GET", "/"), 404, "there is only /search"),
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
        with pytest.raises(xmodal.UserError, match="Cannot listen at 127.0.0.1:"):
            server.serve(index, "index", *address)

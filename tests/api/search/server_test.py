"""An index behind HTTP: answers, and requests that are wrong."""

import http.client
import json
import pathlib
import threading

import pytest

import xmodal
from tests.api.search.pictures_test import save_pictures
from xmodal.api.search import server


@pytest.fixture(scope="module")
def index(of_pixels, tmp_path_factory):
    paths = save_pictures(tmp_path_factory.mktemp("photos") / "all")
    return xmodal.Index.build(
        xmodal.load(of_pixels), images=[str(path) for path in paths], captions=["a star", "a moon"]
    )


@pytest.fixture(scope="module")
def ask(index):
    """Sends a request; returns the status and the JSON of the answer."""
    with server.make_server(index, "127.0.0.1", 0) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()

        def send(method, path, body=None, headers=None):
            connection = http.client.HTTPConnection(*listening.server_address, timeout=60)
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            assert answer.getheader("Content-Type") == "application/json; charset=utf-8"
            return answer.status, json.loads(answer.read())

        yield send
        listening.shutdown()
        thread.join()


def rows_of(found):
    return [(hit["item"], hit["score"]) for hit in found["hits"]]


def test_answers_are_those_of_the_index(index, ask):
    status, found = ask("GET", "/search?text=a+star&top=2")
    assert (status, found["query"], len(found["hits"])) == (200, "a star", 2)
    assert rows_of(found) == [(hit.item, hit.score) for hit in index.query("a star", top=2)]
    assert {hit["definition"] for hit in found["hits"]} == {index.model.similarity_name}
    assert rows_of(ask("GET", "/search?text=a+star&top=2&rerank=0")[1]) == rows_of(found)
    captions = ask("GET", "/search?text=a+star&find=caption")[1]
    assert captions["hits"][0]["item"] == "a star"
    path = index.galleries["image"].names[2]
    status, found = ask("POST", "/search?top=1", pathlib.Path(path).read_bytes())
    assert (status, rows_of(found)[0][0]) == (200, path)


@pytest.mark.parametrize(
    ("request_", "status", "message"),
    [
        (("GET", "/search?top=2"), 400, "text is missing"),
        (("GET", "/search?text=&top=2"), 400, "text is missing"),
        (("GET", "/search?text=a&top=2&text=b"), 400, "text occurs twice"),
        (("GET", "/search?text=a&top="), 400, "top= must be from 1 to 1000"),
        (("GET", "/search?text=a&top=0"), 400, "top=0 must be from 1 to 1000"),
        (("GET", f"/search?text=a&top={'9' * 5_000}"), 400, "must be from 1 to 1000"),
        (("GET", "/search?text=a&k=3"), 400, "unknown: ['k']; known: ['find'"),
        (("GET", "/search?text=a&find=video"), 400, "The index has no video"),
        (("GET", "/search?text=a&rerank=-1"), 400, "rerank=-1 must be from 0 to 1000"),
        (("GET", "/search?text=a&rerank=0&first_stage_weight=1"), 400, "is an option of rerank"),
        (("GET", "/search?text=a&rerank=3&first_stage_weight=x"), 400, "must be a number"),
        (("GET", "/search?text=a&rerank=3&first_stage_weight=1"), 400, "has no pair scorer"),
        (("GET", "/"), 404, "there is only /search"),
        (("GET", "ftp://[/search?text=a"), 404, "there is only /search"),
        (("POST", "/search", b"no picture"), 400, "0"),
        (("POST", "/search?text=a", b"no picture"), 400, "either a text or an image"),
    ],
)
def test_wrong_requests_have_an_answer(ask, request_, status, message):
    found, answer = ask(*request_)
    assert found == status
    assert message in answer["error"]


def test_a_query_that_fails_has_an_answer_and_a_line_in_the_log(index, ask, monkeypatch, caplog):
    def fail(*args, **kwargs):
        raise MemoryError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(index, "query", fail)
        assert ask("GET", "/search?text=a") == (
            500,
            {"error": "the query failed; see the server's log"},
        )
    assert "A query failed." in caplog.text
    assert "out of memory" in caplog.text
    assert ask("GET", "/search?text=a")[0] == 200


def test_a_client_that_hangs_up_is_no_error(index, capsys):
    with server.make_server(index, "127.0.0.1", 0) as listening:
        for error in (ConnectionResetError("gone"), BrokenPipeError("gone"), ValueError("wrong")):
            try:
                raise error
            except Exception:
                listening.handle_error(None, ("127.0.0.1", 1))
    printed = capsys.readouterr().err
    assert "ValueError: wrong" in printed
    assert "gone" not in printed


def test_a_large_picture_and_a_used_port_are_refused(index, monkeypatch, ask):
    monkeypatch.setattr(server, "_LARGEST", 10)
    assert ask("POST", "/search", bytes(11))[0] == 413
    assert ask("POST", "/search", headers={"Content-Length": "9" * 5_000})[0] == 413
    with (
        server.make_server(index, "127.0.0.1", 0) as listening,
        pytest.raises(xmodal.UserError, match="Cannot listen at 127.0.0.1:"),
    ):
        server.make_server(index, *listening.server_address)

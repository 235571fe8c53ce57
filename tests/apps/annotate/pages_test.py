"""Requests that the server must reject, sent to a real server."""

import pytest

from tests.apps.annotate.server import Client, links, serving
from tests.apps.annotate.small_studies import make_study, pairs
from xmodal.apps.annotate.raters import end_rater, invite

SCRIPT = "<script>document.title='owned'</script><img src=x onerror=alert(1)> & \"more\""
CAPTIONS = [
    (10, SCRIPT, 1),
    (20, "plain", 2),
    (30, "another", 3),
]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    units = [*pairs("sits", (10, 1), (20, 2), (30, 3), (10, 2), (20, 3), (30, 1))]
    return make_study(tmp_path_factory.mktemp("study") / "study", units, CAPTIONS)


@pytest.fixture(scope="module")
def server(study):
    with serving(study) as running:
        yield running


@pytest.fixture
def rater(study, server):
    (link,) = links(study, server, 1).values()
    return Client(server.address).join(link)


def answers(study):
    with study.reading() as connection:
        rows = connection.execute("SELECT unit, rater, value FROM answers ORDER BY rater, unit")
        return [tuple(row) for row in rows]


def test_tokens_of_another_study_and_of_raters_who_have_ended(study, server, tmp_path):
    other = make_study(tmp_path / "other", pairs("sits", (10, 1)), CAPTIONS)
    (foreign,) = invite(other, 1).values()
    assert Client(server.address).get(f"/join/{foreign}")[0].status == 403
    cookie = f"xmodal_{study.settings.id}={foreign}"
    assert Client(server.address).get("/rate", cookie=cookie)[0].status == 403
    ((name, link),) = links(study, server, 1).items()
    client = Client(server.address).join(link)
    place = client.place()
    end_rater(study, name)
    before = answers(study)
    assert client.post(place)[0].status == 403
    assert client.get(place)[0].status == 403
    assert client.place() == "/end"
    assert "Your part has ended" in client.get("/end")[1]
    assert answers(study) == before


def test_posts_from_other_sites(study, rater):
    place, before = rater.place(), answers(study)
    assert rater.post(place, origin="https://evil.example")[0].status == 403
    assert answers(study) == before


def test_bodies_that_are_too_long_or_no_answer(study, rater):
    place, before = rater.place(), answers(study)
    assert rater.post(place, "answer=3&more=" + "x" * 5000)[0].status == 413
    for body in ("answer=6", b"\xff\x00", "answer=3&answer=4"):
        response, text = rater.post(place, body)
        assert response.status == 422, body
        assert "Move the slider" in text
    assert answers(study) == before


def test_a_caption_is_text_and_nothing_else(study, server):
    seen = set()
    (link,) = links(study, server, 1).values()
    client = Client(server.address).join(link)
    while (place := client.place()) != "/end":
        response, text = client.get(place)
        policy = response.getheader("content-security-policy")
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "<script>doc" not in text
        assert "<img src=x" not in text
        seen.add("&lt;script&gt;document.title=&#39;owned&#39;&lt;/script&gt;" in text)
        client.post(place, "answer=4.5")
    assert seen == {True, False}

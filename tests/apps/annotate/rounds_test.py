"""A whole round over HTTP: many raters at once, a kill of the server, and labels."""

import concurrent.futures
import http.client
import time

import numpy as np
import pytest

from data_prep.cxc.cxc_files import read_cxc_file
from data_prep.cxc.rating_files import METHOD, SIDES
from tests.apps.annotate.server import Client, links, serving
from xmodal.apps.annotate.labels import aggregate
from xmodal.apps.annotate.studies import make
from xmodal.apps.annotate.study_file import StudyFile

RATERS = 8
FLAGS = {
    "dataset": "crisscrossed_shapes", "config": "images", "split": "test", "manual_dir": "",
    "raters_per_item": RATERS, "lease_minutes": 30.0, "per_rater": None, "seed": 0,
    "similarity": None, "ratings": ["sts", "sis", "sits"], "numbers": False,
}  # fmt: skip
# The ids of the captions and images of the split.
IDS = {"caption": range(875, 1000), "image": range(175, 200)}


def read(study, query):
    with study.reading() as connection:
        return [tuple(row) for row in connection.execute(query)]


def stored(study):
    rows = read(
        study,
        "SELECT r.name, a.unit, a.number, a.value FROM answers a JOIN raters r ON r.id = a.rater",
    )
    return {(name, f"/item/{unit}/{number}"): float(value) for name, unit, number, value in rows}


def answer_of(name, place):
    _, _, *numbers = place.split("/")
    draw = np.random.default_rng((int(name.removeprefix("rater")), *map(int, numbers)))
    return float(draw.integers(0, 51)) / 10


def answer_all(name, client, acknowledged):
    """Answers every question, with new tries while the server is gone."""
    while True:
        try:
            place = client.place()
            if place == "/end":
                return
            answer = answer_of(name, place)
            response, _ = client.post(place, f"answer={answer}")
            assert response.status == 303
            acknowledged[name, place] = answer
        except (OSError, http.client.HTTPException):
            time.sleep(0.02)


@pytest.mark.slow
def test_a_round_of_ratings_loses_no_acknowledged_answer(few_shapes, tmp_path):
    rng = np.random.default_rng(1)
    (tmp_path / "pairs").mkdir()
    for task, sides in (("sts", "cc"), ("sis", "ii"), ("sits", "ci")):
        kinds = [{"c": "caption", "i": "image"}[side] for side in sides]
        pairs = np.stack([rng.choice(IDS[kind], 4, replace=False) for kind in kinds], axis=1)
        rows = [
            f"{a},{b},{m}" for (a, b), m in zip(pairs, ("one", "one", "two", "two"), strict=True)
        ]
        text = "\n".join([",".join((*SIDES[task], METHOD)), *rows, ""])
        (tmp_path / "pairs" / f"{task}_test.csv").write_text(text)
    path = tmp_path / "cxc.study"
    places = {"study": str(path), "data_dir": few_shapes, "pairs": tmp_path / "pairs"}
    make("cxc", FLAGS | places)
    study, acknowledged = StudyFile(path), {}

    with serving(study) as server, concurrent.futures.ThreadPoolExecutor(RATERS) as pool:
        names = links(study, server, RATERS)
        clients = {name: Client(server.address).join(link) for name, link in names.items()}
        working = [pool.submit(answer_all, *each, acknowledged) for each in clients.items()]
        for most in (20, 60):
            while len(acknowledged) < most:
                for each in working:
                    if each.done():
                        each.result()  # Raises the error of a rater.
                time.sleep(0.001)
            server.kill()
            sent = dict(acknowledged)
            assert sent.items() <= stored(study).items()
            server.start()
        for each in working:
            each.result()
    found = stored(study)
    assert found == {key: answer_of(*key) for key in found}
    assert acknowledged.items() <= found.items()
    assert len(found) == 12 * RATERS

    aggregate([study], tmp_path / "labels")
    labels, expected = {}, {}
    for task in ("sts", "sis", "sits"):
        columns = read_cxc_file(tmp_path / "labels" / f"{task}_test.csv", task)
        rows = zip(*(columns[name].tolist() for name in columns), strict=True)
        labels |= {(task, left, right): (score, method) for left, right, score, method in rows}
    for unit, number, kind, left, right, note in read(
        study, "SELECT unit, number, kind, left_id, right_id, note FROM questions"
    ):
        ratings = [found[name, f"/item/{unit}/{number}"] for name in names]
        expected[kind, left, right] = (pytest.approx(np.mean(ratings), abs=0.0051), note)
    assert labels == expected

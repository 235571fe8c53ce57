"""Whole rounds: three raters in real browsers, kills in between, and labels."""

import numpy as np
import pytest

from data_prep.cxc.cxc_files import read_cxc_file
from data_prep.cxc.rating_files import METHOD, SIDES
from tests.apps.annotate.server import links, serving
from tests.apps.annotate.simulated_raters import SimulatedRater, another_browser, kill_browser
from xmodal.apps.annotate.labels import aggregate
from xmodal.apps.annotate.studies import make
from xmodal.apps.annotate.study_file import StudyFile

FLAGS = {
    "dataset": "crisscrossed_shapes",
    "config": "images",
    "split": "test",
    "manual_dir": "",
    "raters_per_item": 3,
    "lease_minutes": 30.0,
    "per_rater": None,
    "seed": 0,
    "similarity": None,
}


@pytest.fixture(scope="module")
def split(few_shapes):
    from xmodal import data

    section = {"dataset": "crisscrossed_shapes", "data_dir": few_shapes, "text": {}}
    images = {"config": "images", "image": {"size": 1}}
    return data.eval_split(section | images, split="test")


def make_study(tmp_path, few_shapes, kind, **options):
    path = tmp_path / f"{kind}.study"
    make(kind, FLAGS | {"study": str(path), "data_dir": few_shapes} | options)
    return StudyFile(path)


def questions(study):
    with study.reading() as connection:
        return {
            (row["unit"], row["number"]): dict(row)
            for row in connection.execute("SELECT * FROM questions")
        }


def stored(study):
    with study.reading() as connection:
        return {
            (row["name"], row["unit"], row["number"]): row["value"]
            for row in connection.execute(
                "SELECT r.name, a.unit, a.number, a.value FROM answers a JOIN raters r "
                "ON r.id = a.rater"
            )
        }


def run_round(study, chromium, answer_of):
    """Three raters answer everything; a browser and the server are killed in the meantime.

    Returns name -> (unit, number) -> answer, as the raters remember it.
    """
    with serving(study) as server:
        by_name = links(study, server, 3)
        doomed = another_browser(chromium)
        browsers = dict(zip(by_name, (chromium, doomed, chromium), strict=True))
        sizes = dict(zip(by_name, ("desktop", "desktop", "phone"), strict=True))
        people = {
            name: SimulatedRater(browsers[name], link, sizes[name])
            for name, link in by_name.items()
        }

        def answers(name, most=1000):
            return people[name].answer_all(lambda place: answer_of(name, place), most)

        def remembered():
            return {
                (name, *place): answer
                for name, rater in people.items()
                for place, answer in rater.given.items()
            }

        first, second, third = people
        for _ in range(2):  # all three concurrently, taking turns
            for name in people:
                answers(name, most=1)
        # The second rater's browser dies with an answer chosen but not sent.
        place = people[second].place
        people[second].choose(answer_of(second, place))
        kill_browser(doomed)
        assert set(stored(study)) == set(remembered())
        given = people[second].given
        people[second] = SimulatedRater(chromium, by_name[second])
        people[second].given = given
        assert people[second].place == place
        # The server dies while two raters look at a question, and the third sends an answer.
        place = people[third].place
        people[third].choose(answer_of(third, place))
        server.kill()
        with people[third].page.expect_event("requestfailed"):
            people[third].page.keyboard.press("Enter")
        # Its page of errors would interrupt the next one.
        people[third].page.wait_for_url("chrome-error://chromewebdata/")
        server.start()
        assert set(stored(study)) == set(remembered())
        people[third].open()
        assert people[third].place == place
        assert answers(first, most=1) == 1  # the page is older than the server
        for name in people:
            answers(name)
            assert people[name].page.url == f"{server.address}/end"
            assert people[name].page.inner_text("h1") == "Thank you, that was all"
        for rater in people.values():
            rater.page.close()
        assert set(stored(study)) == set(remembered())
        return {name: rater.given for name, rater in people.items()}


@pytest.mark.slow
def test_a_round_of_ratings(few_shapes, split, chromium, tmp_path):
    rng = np.random.default_rng(1)
    ids = {"caption": split.caption_ids, "image": split.image_ids}
    (tmp_path / "pairs").mkdir()
    for task, sides in (
        ("sts", ("caption", "caption")),
        ("sis", ("image", "image")),
        ("sits", ("caption", "image")),
    ):
        pairs = np.stack([rng.choice(ids[side], 4, replace=False) for side in sides], axis=1)
        rows = [
            f"{a},{b},{m}" for (a, b), m in zip(pairs, ("one", "one", "two", "two"), strict=True)
        ]
        text = "\n".join([",".join((*SIDES[task], METHOD)), *rows, ""])
        (tmp_path / "pairs" / f"{task}_test.csv").write_text(text)
    study = make_study(
        tmp_path, few_shapes, "cxc", pairs=tmp_path / "pairs", ratings=["sts", "sis", "sits"]
    )

    def answer_of(name, place):
        draw = np.random.default_rng((int(name[-1]), *place))
        return float(draw.integers(0, 51)) / 10

    given = run_round(study, chromium, answer_of)
    assert {name: len(answers) for name, answers in given.items()} == dict.fromkeys(given, 12)
    aggregate(study, tmp_path / "labels")
    asked = questions(study)
    found = {}
    for task in ("sts", "sis", "sits"):
        columns = read_cxc_file(tmp_path / "labels" / f"{task}_test.csv", task)
        rows = zip(*(columns[name].tolist() for name in columns), strict=True)
        found |= {(task, left, right): (score, method) for left, right, score, method in rows}
    expected = {}
    for place, question in asked.items():
        ratings = [given[name][place] for name in given]
        key = question["kind"], question["left_id"], question["right_id"]
        expected[key] = (pytest.approx(sum(ratings) / 3, abs=0.0051), question["note"])
    assert found == expected

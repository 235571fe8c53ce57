"""Whole rounds: three raters in real browsers, kills in between, labels, and an evaluation."""

import collections
import json

import numpy as np
import pytest

from data_prep.cxc.cxc_files import read_cxc_file
from tests.apps.annotate.server import links, serving
from tests.apps.annotate.simulated_raters import SimulatedRater, another_browser, kill_browser
from xmodal.api.evaluating import evaluate
from xmodal.apps.analysis.ratings.rated_files import format_rows
from xmodal.apps.analysis.votes import count_votes
from xmodal.apps.annotate.aggregating import aggregate
from xmodal.apps.annotate.making import make
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


@pytest.fixture(scope="module")
def models(split, tmp_path_factory):
    """Two models that see noisy scenes."""
    folder = tmp_path_factory.mktemp("models")
    rng = np.random.default_rng(5)
    scenes = rng.normal(size=(len(split.image_ids), 8))
    for name in ("a", "b"):
        np.savez(
            folder / f"{name}.npz",
            image_ids=split.image_ids,
            image_embeddings=(scenes + rng.normal(size=scenes.shape)).astype(np.float32),
            caption_ids=split.caption_ids,
            caption_embeddings=(
                scenes[split.caption_rows] + rng.normal(size=(len(split.caption_ids), 8))
            ).astype(np.float32),
            similarity="cosine",
        )
    return [str(folder / f"{name}.npz") for name in ("a", "b")]


def make_study(tmp_path, few_shapes, kind, **options):
    path = tmp_path / f"{kind}.study"
    make(kind, FLAGS | {"study": str(path), "data_dir": few_shapes} | options)
    return StudyFile(path)


def cosines(model):
    """[captions, images]."""
    saved = np.load(model)
    images, captions = (
        saved[f"{kind}_embeddings"] / np.linalg.norm(saved[f"{kind}_embeddings"], axis=1)[:, None]
        for kind in ("image", "caption")
    )
    return captions @ images.T


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
def test_a_round_of_ratings(few_shapes, split, models, chromium, tmp_path):
    rng = np.random.default_rng(1)
    ids = {"caption": split.caption_ids, "image": split.image_ids}
    (tmp_path / "pairs").mkdir()
    for task, sides in (
        ("sts", ("caption", "caption")),
        ("sis", ("image", "image")),
        ("sits", ("caption", "image")),
    ):
        pairs = np.stack([rng.choice(ids[side], 4, replace=False) for side in sides], axis=1)
        text = format_rows(task, pairs, np.array(["one", "one", "two", "two"]))
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
    evaluation = evaluate(
        embeddings=models[0], annotations=tmp_path / "labels", bootstrap_samples=10
    )
    # The positives are the pairs rated at least 3 and the original pairs.
    good = {
        (left, right)
        for (task, left, right), (score, _) in found.items()
        if task == "sits" and score >= 3
    }
    assert good
    good |= set(zip(split.caption_ids.tolist(), split.caption_image_ids.tolist(), strict=True))
    hits = [
        (int(split.caption_ids[np.argmax(row)]), int(image)) in good
        for image, row in zip(split.image_ids, cosines(models[0]).T, strict=True)
    ]
    assert evaluation.metrics["cxc/i2t/recall@1"] == pytest.approx(100 * np.mean(hits))


@pytest.mark.slow
def test_a_round_of_candidates(few_shapes, split, models, chromium, tmp_path):
    study = make_study(
        tmp_path,
        few_shapes,
        "eccv",
        models=models,
        images=3,
        captions=3,
        top=1,
        per_hit=5,
        qualification=0,
        pass_share=0.9,
    )
    asked = questions(study)

    def answer_of(name, place):
        if golden := asked[place]["golden"]:
            return {"yes": "weak_yes", "no": "no"}[golden]
        draw = np.random.default_rng((int(name[-1]), *place))
        return str(draw.choice(["yes", "weak_yes", "weak_no", "no"]))

    given = run_round(study, chromium, answer_of)
    assert all(set(answers) == set(asked) for answers in given.values())
    aggregate(study, tmp_path / "labels", human_only=True)
    settings = study.settings
    positives = {"image_to_caption": {}, "caption_to_image": {}}
    for place, question in asked.items():
        caption, image = question["left_id"], question["right_id"]
        votes = [given[name][place] in ("yes", "weak_yes") for name in given]
        if question["golden"] or sum(votes) < 2:
            continue
        if image in settings.image_queries:
            positives["image_to_caption"].setdefault(str(image), []).append(caption)
        if caption in settings.caption_queries:
            positives["caption_to_image"].setdefault(str(caption), []).append(image)
    assert all(positives.values())
    for name, expected in positives.items():
        found = json.loads((tmp_path / "labels" / f"eccv_{name}.json").read_text())
        assert found == {query: sorted(items) for query, items in expected.items()}
    # The board has these queries, and the model's rank for each equals that of a slow loop.
    evaluation = evaluate(
        embeddings=models[1], annotations=tmp_path / "labels", bootstrap_samples=10
    )
    scores = dict(zip(split.caption_ids.tolist(), cosines(models[1]), strict=True))
    first = [
        int(split.image_ids[np.argmax(scores[int(query)])]) in items
        for query, items in positives["caption_to_image"].items()
    ]
    assert evaluation.metrics["eccv/t2i/recall@1"] == pytest.approx(100 * np.mean(first))


@pytest.mark.slow
def test_a_round_of_preferences(few_shapes, models, chromium, tmp_path):
    study = make_study(tmp_path, few_shapes, "preference", models=models, examples=4, labels=None)
    asked = questions(study)
    with serving(study) as server:
        given = collections.defaultdict(dict)
        sides = set()
        for name, link in links(study, server, 3).items():
            rater = SimulatedRater(chromium, link)
            while place := rater.place:
                shown = [
                    int(source.rpartition("/")[2])
                    for source in rater.page.eval_on_selector_all(
                        "figure img", "all => all.map(e => e.src)"
                    )
                ]
                ends = asked[place]["left_id"], asked[place]["right_id"]
                assert sorted(shown) == sorted(ends)
                sides.add(tuple(shown) == ends)
                best = int(name[-1]) * place[0] % 3
                if best == 2:
                    rater.send("both_bad")
                else:
                    rater.send(("left", "right")[shown.index(ends[best])])
                given[asked[place]["about"]][name] = ("better", "worse", "both_bad")[best]
            rater.page.close()
    assert sides == {True, False}
    aggregate(study, tmp_path / "labels")
    lines = (tmp_path / "labels" / "votes.csv").read_text().splitlines()
    assert lines[0] == "example,answer,rater,left_model"
    rows = [line.split(",") for line in lines[1:]]
    found = collections.defaultdict(dict)
    for example, answer, rater, _ in rows:
        found[int(example)][rater] = answer
    assert found == given
    assert {model for *_, model in rows} == {"a", "b"}
    (vote,) = count_votes(("all", example, answer) for example, answer, *_ in rows).values()
    majorities = [collections.Counter(answers.values()) for answers in given.values()]
    assert vote.shares["better"] == 100 * np.mean([m["better"] >= 2 for m in majorities])

"""Positives computed from answers, for small studies and for the released lists."""

import json

import pytest

from tests.apps.annotate.small_studies import make_study, raters
from xmodal.apps.annotate.assignment_queue import AssignmentQueue, Place
from xmodal.apps.annotate.labels import aggregate, positives_of_queries, read_added
from xmodal.apps.annotate.study_file import (
    StudyQuestion,
    StudyUnit,
)
from xmodal.evals.labels.annotations import read_lists


def match(caption, image, golden=None):
    return StudyQuestion("match", caption, image, golden=golden)


def answer(queue, rater, answers):
    """Answers the next question, by pair."""
    while isinstance(place := queue.next(rater), Place):
        question = queue.page(rater, place).question
        queue.save(rater, place, answers[question.left, question.right])


@pytest.fixture
def study(tmp_path):
    units = [
        StudyUnit((match(10, 1), match(10, 2), match(61, 6, "yes"), match(60, 1, "no"))),
        StudyUnit((match(20, 2), match(30, 1), match(51, 5, "yes"), match(60, 2, "no"))),
    ]
    return make_study(
        tmp_path / "study",
        units,
        kind="eccv",
        raters_per_item=1,
        image_queries=(1, 2),
        caption_queries=(10, 20),
    )


GOOD = {(61, 6): "yes", (51, 5): "weak_yes", (60, 1): "no", (60, 2): "weak_no"}


def read(folder):
    names = ("image_to_caption", "caption_to_image")
    return [json.loads((folder / f"eccv_{name}.json").read_text()) for name in names]


def test_positives_are_yes_and_weak_yes_and_unseen_originals(study, tmp_path):
    answers = {(10, 1): "weak_no", (10, 2): "weak_yes", (20, 2): "yes", (30, 1): "yes"}
    (rater,) = raters(study, 1)
    answer(AssignmentQueue(study), rater, answers | GOOD)
    report = aggregate(study, tmp_path / "labels")
    # The rater saw and rejected the original pair (10, 1); nobody saw (11, 1).
    assert read(tmp_path / "labels") == [
        {"1": [11, 30], "2": [10, 20, 21]},
        {"10": [2], "20": [2]},
    ]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in report.splitlines()]
    assert ["captions of an image", "2", "5", "2.50"] in cells
    aggregate(study, tmp_path / "human", human_only=True)
    assert read(tmp_path / "human") == [{"1": [30], "2": [10, 20]}, {"10": [2], "20": [2]}]
    (tmp_path / "wrong.txt").write_text("20\n11\n")
    aggregate(study, tmp_path / "left", without=str(tmp_path / "wrong.txt"))
    assert read(tmp_path / "left") == [{"1": [30], "2": [10, 21]}, {"10": [2]}]


def released_pairs(folder, name):
    """(caption, image) of the two released lists."""

    def pairs(file):
        queries, items = read_lists(folder / f"{name}_{file}.json")
        return zip(queries.tolist(), items.tolist(), strict=True)

    i2t = {(caption, image) for image, caption in pairs("image_to_caption")}
    return i2t, set(pairs("caption_to_image"))


@pytest.mark.slow
def test_cxc_as_a_sixth_annotator(real_data):
    """Table 3: CxC has 1,895 positive images and 8,906 captions of the queries of ECCV Caption."""
    i2t, t2i = released_pairs(real_data / "eccv_caption", "eccv")
    queries = {image for _, image in i2t}, {caption for caption, _ in t2i}
    added = read_added(str(real_data), "test")
    assert len(added) == 35_585
    found = positives_of_queries(added, *queries)
    assert {direction: sum(map(len, lists.values())) for direction, lists in found.items()} == {
        "i2t": 8_906,
        "t2i": 1_895,
    }

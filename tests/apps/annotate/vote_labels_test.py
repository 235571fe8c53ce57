"""Votes of raters who saw the two models in both orders."""

import json

from tests.apps.annotate.small_studies import make_study, raters
from xmodal.apps.analysis.votes import count_votes
from xmodal.apps.annotate.assignment_queue import AssignmentQueue, Place
from xmodal.apps.annotate.labels import aggregate
from xmodal.apps.annotate.study_file import StudyQuestion, StudyUnit


def preference(left, right, about, *groups):
    note = json.dumps(list(groups)) if groups else ""
    return StudyUnit((StudyQuestion("preference", left, right, about=about, note=note),))


def vote(study, choose):
    queue = AssignmentQueue(study)
    for rater in raters(study, 3):
        while isinstance(place := queue.next(rater), Place):
            question = queue.page(rater, place).question
            queue.save(rater, place, choose(rater, question))


def left_or_right(question, picture):
    return "left" if question.left == picture else "right"


def test_votes_are_about_the_first_model_wherever_it_stood(tmp_path):
    groups = ("Story", "Visible")
    units = [preference(1, 2, 10, *groups), preference(3, 4, 20, *groups[:1])]
    study = make_study(
        tmp_path / "study",
        units,
        kind="preference",
        raters_per_item=3,
        first="cmcm",
        second="cmca",
    )

    def choose(rater, question):
        # The picture of the first model wins for caption 10; two of three call caption 20 bad.
        if question.about == 10:
            return left_or_right(question, 1)
        return left_or_right(question, 4) if rater.name == "rater1" else "both_bad"

    vote(study, choose)
    aggregate(study, tmp_path / "labels")
    header, *rows = (tmp_path / "labels" / "votes.csv").read_text().splitlines()
    names = header.split(",")
    assert names == ["example", "answer", "rater", "left_model", "group"]
    rows = [dict(zip(names, row.split(","), strict=True)) for row in rows]
    assert {row["left_model"] for row in rows} <= {"cmcm", "cmca"}
    found = count_votes((row.get("group", "all"), row["example"], row["answer"]) for row in rows)
    # Caption 10 has both groups, and is still one of two captions.
    assert found["all"].examples == 2
    shares = {name: share for name, share in found["all"].shares.items() if share}
    assert shares == {"better": 50, "both_bad": 50}
    assert list(found) == ["Story", "Visible", "all"]
    assert found["Visible"].shares["better"] == 100
    assert found["Story"].examples == 2

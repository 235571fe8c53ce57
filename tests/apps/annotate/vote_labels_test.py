"""Votes of raters who saw the two models in both orders."""

import csv
import sys

import pytest

from tests.apps.annotate.small_studies import make_study, raters
from xmodal.apps.analysis import bradley_terry
from xmodal.apps.analysis.votes import count_votes
from xmodal.apps.annotate.assignment_queue import AssignmentQueue, Place
from xmodal.apps.annotate.labels import aggregate
from xmodal.apps.annotate.study_file import Proposal, StudyQuestion, StudyUnit


def preference(left, right, about):
    return StudyUnit((StudyQuestion("preference", left, right, about=about),))


def found(caption, **pictures):
    return [Proposal(caption, picture, name, "t2i", 1) for name, picture in pictures.items()]


def vote(study, choose):
    queue = AssignmentQueue(study)
    for rater in raters(study, 3):
        while isinstance(place := queue.next(rater), Place):
            question = queue.page(rater, place).question
            queue.save(rater, place, choose(rater, question))


def left_or_right(question, picture):
    return "left" if question.left == picture else "right"


def test_votes_are_about_the_first_model_wherever_it_stood(tmp_path):
    study = make_study(
        tmp_path / "study",
        [preference(1, 2, 10), preference(3, 4, 20)],
        proposals=[*found(10, cmcm=1, cmca=2), *found(20, cmcm=3, cmca=4)],
        kind="preference",
        raters_per_item=3,
        groups={"10": ["Story", "Visible"], "20": ["Story"]},
    )

    def choose(rater, question):
        # The picture of the first model wins for caption 10; two of three call caption 20 bad.
        if question.about == 10:
            return left_or_right(question, 1)
        return left_or_right(question, 4) if rater.name == "rater1" else "both_bad"

    vote(study, choose)
    aggregate([study], tmp_path / "labels")
    header, *rows = (tmp_path / "labels" / "votes.csv").read_text().splitlines()
    names = header.split(",")
    assert names[:5] == ["example", "answer", "rater", "left_model", "group"]
    rows = [dict(zip(names, row.split(","), strict=True)) for row in rows]
    assert {row["left_model"] for row in rows} <= {"cmcm", "cmca"}
    counted = count_votes((row.get("group", "all"), row["example"], row["answer"]) for row in rows)
    # Caption 10 has both groups, and is still one of two captions.
    assert counted["all"].examples == 2
    shares = {name: share for name, share in counted["all"].shares.items() if share}
    assert shares == {"better": 50, "both_bad": 50}
    assert list(counted) == ["Story", "Visible", "all"]
    assert counted["Visible"].shares["better"] == 100
    assert counted["Story"].examples == 2


def test_an_answer_counts_for_all_models_that_found_its_pictures(tmp_path, monkeypatch, capsys):
    """Five systems: A and D find one picture, B and C another, E a third for caption 20 alone."""
    pictures = {name: 2 if name in "BC" else 1 for name in "ABCDE"}
    study = make_study(
        tmp_path / "study",
        [preference(1, 2, 10), preference(1, 2, 20), preference(1, 3, 20), preference(2, 3, 20)],
        proposals=[*found(10, **pictures), *found(20, **pictures | {"E": 3})],
        kind="preference",
        raters_per_item=3,
    )
    best = {10: [1], 20: [2, 3]}  # 2 beats 1, and 3 ties with 2

    def choose(rater, question):
        good = [each for each in (question.left, question.right) if each in best[question.about]]
        return left_or_right(question, good[0]) if len(good) == 1 else "both_good"

    vote(study, choose)
    aggregate([study], tmp_path / "labels")
    path = tmp_path / "labels" / "votes.csv"
    rows = list(csv.DictReader(path.open()))
    assert {row["group"] for row in rows} == {"all"}
    seen = {(r["first_model"], r["second_model"], r["example"], r["answer"]) for r in rows}
    assert {each for each in seen if each[2] == "10"} == {
        *[(a, b, "10", "better") for a, b in ("AB", "AC")],
        *[(a, b, "10", "worse") for a, b in ("BD", "CD", "BE", "CE")],
        *[(a, b, "10", "same") for a, b in ("AD", "AE", "BC", "DE")],
    }
    assert {each[:2] for each in seen if each[3] == "both_good"} == {("B", "E"), ("C", "E")}
    monkeypatch.setattr(sys, "argv", ["bradley_terry", f"--preferences={path}"])
    bradley_terry.main()
    lines = capsys.readouterr().out.splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    counts = {name: numbers for name, _, *numbers in cells}
    assert counts["A"] == counts["D"] == ["2.0", "3.0", "0.0", "3.0"]
    assert counts["E"] == ["4.0", "0.0", "2.0", "2.0"]
    # Ties are half a win: B has 3 of A, D and E in caption 20, and loses caption 10.
    wins = [(a, b) for a, b in ("AB", "AC", "DB", "DC", "EB", "EC") for _ in range(2)]
    wins += [(a, b) for a, b in ("BA", "BD", "CA", "CD", "EA", "ED") for _ in range(2)]
    ties = ["AD", "AE", "BC", "DE", "AD", "BC", "BE", "CE"]
    wins += [pair for a, b in ties for pair in ((a, b), (b, a))]
    expected = bradley_terry.bradley_terry(wins)
    assert {name: float(score) for name, score, *_ in cells} == pytest.approx(expected, abs=0.006)

"""Units, raters and answers: quotas, leases, corrections, and many raters at once."""

import collections
import random

import pytest

from tests.apps.annotate.small_studies import Clock, make_study, raters, sts_units
from xmodal.apps.annotate.assignment_queue import AssignmentQueue, NotAssignedError, Place, Rest
from xmodal.apps.annotate.study_file import StudyQuestion, StudyUnit


def stored(study):
    with study.reading() as connection:
        return {
            (row["unit"], row["number"], row["rater"]): row["value"]
            for row in connection.execute("SELECT * FROM answers")
        }


def test_two_raters_at_once_do_not_get_the_last_place(tmp_path):
    study = make_study(tmp_path / "study", sts_units(1), raters_per_item=1, lease_minutes=10)
    clock = Clock()
    queue = AssignmentQueue(study, clock)
    first, second = raters(study, 2)
    place = queue.next(first)
    assert queue.next(second) is Rest.WAITING
    clock.now += 9 * 60
    queue.page(first, place)  # renews the lease
    clock.now += 9 * 60
    assert queue.next(second) is Rest.WAITING
    clock.now += 2 * 60
    assert queue.next(second) == place
    with pytest.raises(NotAssignedError, match="went to somebody else"):
        queue.save(first, place, "1")
    queue.save(second, place, "4")
    assert queue.next(first) is Rest.FINISHED
    assert stored(study) == {(1, 0, second.id): "4.0"}


def test_the_same_answer_again_changes_nothing_and_the_last_one_can_be_corrected(tmp_path):
    study = make_study(tmp_path / "study", sts_units(3), raters_per_item=2)
    queue = AssignmentQueue(study)
    rater, other = raters(study, 2)
    first = queue.next(rater)
    for _ in range(3):
        queue.save(rater, first, "3")
    with study.reading() as connection:
        assert connection.execute("SELECT done FROM units WHERE id = 1").fetchone()["done"] == 1
    second = queue.next(rater)
    assert queue.page(rater, second).previous == first
    assert queue.page(rater, first).answer == "3.0"
    queue.save(rater, first, "4")
    queue.save(rater, second, "1")
    queue.save(rater, first, "4")  # a late double click
    with pytest.raises(NotAssignedError, match="Only your last"):
        queue.save(rater, first, "5")
    with pytest.raises(NotAssignedError, match="not given to you"):
        queue.save(other, second, "1")
    assert stored(study) == {(1, 0, rater.id): "4.0", (2, 0, rater.id): "1.0"}


def matches(*golden, test=False, image=4):
    asked = [StudyQuestion("match", 10 + n, n + 1) for n in range(2)]
    known = [
        StudyQuestion("match", 30 + n, image, golden=answer) for n, answer in enumerate(golden)
    ]
    return StudyUnit((*known, *asked), test=test)


def test_no_rater_sees_a_pair_twice_golden_or_not(tmp_path):
    """Few pairs in many sets, golden or candidates, against a slow list of all pairs seen."""
    draw = random.Random(0)
    known = [(10 * n, n) for n in range(1, 7)]

    def make(pairs, *golden, test=False):
        asked = (StudyQuestion("match", *pair, golden=draw.choice(golden)) for pair in pairs)
        return StudyUnit(tuple(asked), test=test)

    units = [make([(60, 1), known[5]], "yes", "no", test=True)]
    some = [draw.sample(known[:5], draw.randint(1, 2)) for _ in range(14)]
    units += [make(pairs, "yes", "no", None, None) for pairs in some]
    study = make_study(tmp_path / "study", units, kind="eccv", raters_per_item=2, pass_share=0)
    queue, people = AssignmentQueue(study), raters(study, 5)
    shown = [{(q.left, q.right) for q in unit.questions} for unit in units]
    seen, done = {rater.id: set() for rater in people}, collections.Counter()
    turns = [rater for rater in people for _ in range(20)]
    draw.shuffle(turns)

    def possible(rater):
        undone = [at for at in range(1, 15) if done[at] < 2]
        return [at for at in undone if not shown[at] & seen[rater.id]]

    for rater in turns:
        place = queue.next(rater)
        if not isinstance(place, Place):
            assert place is Rest.FINISHED
            assert not possible(rater)
            continue
        at = place.unit - 1
        assert at == 0 or at in possible(rater)
        page = queue.page(rater, place)
        rest = [other for other in possible(rater) if other != at and not shown[other] & shown[at]]
        assert page.remaining == 1 + len(rest)
        for _ in units[at].questions:  # the whole set in one turn
            queue.save(rater, queue.next(rater), "yes")
        assert not shown[at] & seen[rater.id]
        seen[rater.id] |= shown[at]
        done[at] += at > 0
    assert all(queue.next(rater) is Rest.FINISHED for rater in people)


def answer_all(queue, rater, answers):
    for answer in answers:
        queue.save(rater, queue.next(rater), answer)


def test_those_who_fail_the_qualification_get_nothing_else(tmp_path):
    study = make_study(
        tmp_path / "study",
        [StudyUnit(matches("yes", "no").questions[:2], test=True), matches("yes", image=5)],
        kind="eccv",
        pass_share=1.0,
        raters_per_item=1,
    )
    queue = AssignmentQueue(study)
    bad, good = raters(study, 2)
    answer_all(queue, bad, ["yes", "yes"])
    with study.reading() as connection:
        states = connection.execute("SELECT state FROM raters ORDER BY id").fetchall()
    assert [row["state"] for row in states] == ["unqualified", "active"]
    page = queue.page(good, queue.next(good))
    assert (page.finished, page.remaining) == (0, 2)
    answer_all(queue, good, ["weak_yes", "no"])
    assert queue.next(good) == Place(2, 0)
    page = queue.page(good, Place(2, 0))
    assert (page.finished, page.remaining) == (1, 1)

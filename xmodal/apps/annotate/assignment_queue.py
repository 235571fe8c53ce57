"""Hands out units to raters and takes their answers.

A unit belongs to a rater from its first page until the lease ends; each page and answer renews it.
An unfinished unit whose lease has ended may go to someone else; its answers are kept.
"""

import enum
import secrets
import sqlite3
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from xmodal.apps.annotate.questions import KINDS, is_right
from xmodal.apps.annotate.raters import Rater
from xmodal.apps.annotate.study_file import StudyFile, StudyQuestion
from xmodal.core.errors import UserError

_SWAP = {"left": "right", "right": "left"}
# Answers of a page about a left and a right item -> about the first and the second model's.
_BETTER = {"left": "better", "right": "worse"}
_PAGE = {stored: page for page, stored in _BETTER.items()}

# Whether a lease runs. One that ends later than a new one is from before the clock was set back.
_RUNS = "(a.expires > :now AND a.expires <= :now + :lease)"
# Whether a unit needs more raters than those who finished it, and others whose leases run.
_ROOM = f"""(u.done + (SELECT count(*) FROM assignments a WHERE a.unit = u.id AND a.state = 'open'
  AND {_RUNS} AND a.rater != :rater) < :need)"""
# The next unit: the qualification first, then those that still need raters. No rater sees a pair
# twice, golden or not, which also excludes the rater's own units.
_NEXT = """
SELECT u.id FROM units u WHERE (u.test OR (:may AND u.done < :need AND {room}))
  AND NOT EXISTS (
    SELECT 1 FROM questions q JOIN questions old ON old.pair = q.pair
    JOIN assignments a ON a.unit = old.unit WHERE q.unit = u.id AND a.rater = :rater
  )
ORDER BY u.test DESC, u.stage, u.done DESC, u.position, u.id LIMIT 1
"""
# The unit that a rater began, unless its lease ended and others have finished it.
_HELD = f"""
SELECT a.unit FROM assignments a JOIN units u ON u.id = a.unit
WHERE a.rater = :rater AND a.state = 'open' AND (u.test OR {_RUNS} OR (u.done < :need AND {_ROOM}))
ORDER BY a.unit LIMIT 1
"""
_QUESTION = f"""
SELECT q.*, n.value, n.wrong_caption, n.because, a.state, a.shown, a.swapped,
  ({_RUNS} OR u.test OR (u.done < :need AND {_ROOM})) AS room,
  (SELECT count(*) FROM questions o WHERE o.unit = q.unit) AS questions
FROM assignments a JOIN units u ON u.id = a.unit JOIN questions q ON q.unit = a.unit
LEFT JOIN answers n ON (n.unit, n.number, n.rater) = (q.unit, q.number, a.rater)
WHERE (q.unit, q.number, a.rater) = (:unit, :number, :rater)
"""
_COUNTS = """
SELECT (SELECT count(*) FROM assignments WHERE rater = :rater AND state != 'open') AS finished,
  (SELECT count(*) FROM assignments a JOIN units u ON u.id = a.unit
   WHERE NOT u.test AND a.rater = :rater) AS own,
  (SELECT count(*) FROM units WHERE test = 0 AND done < :need)
  - (SELECT count(DISTINCT u.id) FROM assignments a JOIN questions old ON old.unit = a.unit
     JOIN questions q ON q.pair = old.pair JOIN units u ON u.id = q.unit
     WHERE a.rater = :rater AND u.test = 0 AND u.done < :need) AS rest
"""


_ANSWERED = """
SELECT q.golden, u.test, n.value FROM questions q JOIN units u ON u.id = q.unit
LEFT JOIN answers n ON (n.unit, n.number, n.rater) = (q.unit, q.number, :rater) WHERE
"""


class NotAssignedError(UserError):
    """A page or an answer of a unit that the rater does not hold."""


class Rest(enum.Enum):
    """Why there is nothing to hand out."""

    FINISHED = "finished"
    WAITING = "waiting"  # Others hold the last units, and may give them back.
    ENDED = "ended"
    UNQUALIFIED = "unqualified"


class Place(NamedTuple):
    """The place of a question in a study.

    Attributes:
      unit: id of the unit.
      number: number of the question in it, starting at 0.
    """

    unit: int
    number: int


class Remarks(NamedTuple):
    """What a rater may add to an answer.

    Attributes:
      wrong_caption: whether the caption itself is wrong or makes no sense.
      because: why the answer was chosen; "" if not told.
    """

    wrong_caption: bool = False
    because: str = ""


class HandedPage(NamedTuple):
    """A question as one rater sees it.

    Attributes:
      place: place of the question.
      question: the question, with its two items in the order of the page.
      questions: number of questions in the unit.
      answer: the rater's earlier answer, as shown on the page; None for a new question.
      remarks: what the rater added to it.
      finished: number of units that the rater has finished.
      remaining: number of units that the rater may still get, including this one.
      previous: the question that the rater answered last and may correct.
    """

    place: Place
    question: StudyQuestion
    questions: int
    answer: str | None
    remarks: Remarks
    finished: int
    remaining: int
    previous: Place | None


_NO_REMARKS = Remarks()


class AssignmentQueue:
    """Gives raters their next questions and stores their answers."""

    def __init__(self, study: StudyFile, clock: Callable[[], float] = time.time) -> None:
        """Hands out the units of a study; `clock` returns seconds since 1970."""
        self._study, self._clock = study, clock

    def next(self, rater: Rater) -> Place | Rest:
        """Returns the rater's next question, the same one until it is answered."""
        if rater.state != "active":
            return Rest(rater.state)
        with self._study.changing():
            limit = self._study.settings.per_rater
            may = limit is None or self._one(rater, _COUNTS)["own"] < limit
            found = self._one(rater, _HELD)
            if found is None and (new := self._one(rater, _NEXT.format(room=_ROOM), may=may)):
                found = new
                self._run(
                    rater,
                    "INSERT INTO assignments (unit, rater, expires, shown, swapped) SELECT :unit, "
                    ":rater, 0, 0, kind = 'preference' AND :coin FROM questions WHERE "
                    "(unit, number) = (:unit, 0)",
                    unit=new[0],
                    coin=secrets.randbelow(2),
                )
            if found is None:
                waits = may and self._one(rater, _NEXT.format(room="TRUE"), may=may)
                return Rest.WAITING if waits else Rest.FINISHED
            # A running lease is left unchanged, so that looking at a page costs no write.
            self._renew(rater, found[0], unless=_RUNS)
            (first,) = self._one(
                rater,
                "SELECT min(q.number) FROM questions q WHERE q.unit = :unit AND NOT EXISTS (SELECT "
                "1 FROM answers n WHERE (n.unit, n.number, n.rater) = (q.unit, q.number, :rater))",
                unit=found[0],
            )
            return Place(found[0], first)

    def page(self, rater: Rater, place: Place) -> HandedPage:
        """Returns a question that the rater holds, or answered last.

        Raises:
          NotAssignedError: this rater does not have the question.
        """
        with self._study.changing():
            row, last = self._find(rater, place), self._last_answered(rater)
            _check(row, place, last)
            self._renew(rater, place.unit)
            counts, limit = self._one(rater, _COUNTS), self._study.settings.per_rater
        remaining = counts["rest"] if limit is None else min(counts["rest"], limit - counts["own"])
        ends, value = (row["left_id"], row["right_id"]), _PAGE.get(row["value"], row["value"])
        if row["swapped"]:
            ends, value = ends[::-1], _SWAP.get(value, value)
        return HandedPage(
            place=place,
            question=StudyQuestion(row["kind"], *ends, row["about"], row["golden"], row["note"]),
            questions=row["questions"],
            answer=value,
            remarks=Remarks(bool(row["wrong_caption"]), row["because"] or ""),
            finished=counts["finished"],
            remaining=remaining + (row["state"] == "open"),
            previous=None if last == place else last,
        )

    def save(self, rater: Rater, place: Place, answer: str, remarks: Remarks = _NO_REMARKS) -> None:
        """Stores an answer from a page; storing the same answer again has no effect.

        Raises:
          NotAssignedError: the rater does not hold the question, or no longer takes part.
          BadAnswer: the answer is not valid for the question.
        """
        with self._study.changing():
            row = self._find(rater, place)
            value = KINDS[row["kind"]].read(answer)
            value = _SWAP.get(value, value) if row["swapped"] else value
            value = _BETTER.get(value, value)
            if (value, *remarks) == (row["value"], row["wrong_caption"], row["because"]):
                return
            _check(row, place, self._last_answered(rater))
            self._run(
                rater,
                "INSERT INTO answers VALUES (:unit, :number, :rater, :value, "
                "max(:now - :shown, 0.0), :now, :wrong_caption, :because) ON CONFLICT DO UPDATE "
                "SET (value, at, wrong_caption, because) = "
                "(excluded.value, excluded.at, excluded.wrong_caption, excluded.because)",
                **place._asdict(),
                **remarks._asdict(),
                value=value,
                shown=row["shown"],
            )
            self._renew(rater, place.unit)
            self._judge(rater, place.unit, is_new=row["state"] == "open")

    def _judge(self, rater: Rater, unit: int, *, is_new: bool) -> None:
        """Ends a unit whose questions are all answered, and judges the rater's qualification."""
        rows = self._run(rater, f"{_ANSWERED} q.unit = :unit", unit=unit).fetchall()
        if any(row["value"] is None for row in rows):
            return
        wrong = any(row["golden"] and not is_right(row["golden"], row["value"]) for row in rows)
        state = "check" if wrong and not rows[0]["test"] else "finished"
        self._run(rater, "UPDATE assignments SET state = :state WHERE (unit, rater) = "
                  "(:unit, :rater)", state=state, unit=unit)  # fmt: skip
        if is_new:
            self._run(rater, "UPDATE units SET done = done + 1 WHERE id = :unit", unit=unit)
        asked = self._run(rater, f"{_ANSWERED} u.test").fetchall()
        right = sum(is_right(row["golden"], row["value"]) for row in asked if row["value"])
        share = self._study.settings.pass_share
        if all(row["value"] for row in asked) and right < share * len(asked) - 1e-9:
            self._run(rater, "UPDATE raters SET state = 'unqualified' WHERE id = :rater")

    def _find(self, rater: Rater, place: Place) -> sqlite3.Row:
        """The rater's assignment of a question, with the question and its answer."""
        if rater.state != "active":
            raise NotAssignedError("Your part in this study has ended.")
        if (row := self._one(rater, _QUESTION, **place._asdict())) is None:
            raise NotAssignedError("This question was not given to you.")
        return row

    def _renew(self, rater: Rater, unit: int, unless: str = "FALSE") -> None:
        """Renews a lease, unless a condition in SQL holds."""
        self._run(
            rater,
            "UPDATE assignments AS a SET expires = :now + :lease, shown = :now "
            f"WHERE (unit, rater) = (:unit, :rater) AND NOT ({unless})",
            unit=unit,
        )

    def _last_answered(self, rater: Rater) -> Place | None:
        # Not by time, because the clock may be set back.
        sql = "SELECT unit, number FROM answers WHERE rater = :rater ORDER BY rowid DESC LIMIT 1"
        row = self._one(rater, sql)
        return Place(*row) if row else None

    def _run(self, rater: Rater, sql: str, **values: Any) -> sqlite3.Cursor:
        settings = self._study.settings
        values |= {"rater": rater.id, "now": self._clock(), "need": settings.raters_per_item}
        values["lease"] = 60 * settings.lease_minutes
        return self._study.connection.execute(sql, values)

    def _one(self, rater: Rater, sql: str, **values: Any) -> Any:
        return self._run(rater, sql, **values).fetchone()


def _check(row: sqlite3.Row, place: Place, last: Place | None) -> None:
    """Raises an error if a question may not be answered, or not again."""
    if row["state"] == "open":
        if not row["room"]:
            raise NotAssignedError("This question took too long; it went to somebody else.")
    elif row["state"] not in ("finished", "check") or place != last:
        raise NotAssignedError("Only your last answer can be changed.")

"""Hands out units to raters and takes their answers.

A unit belongs to a rater from its first page until the lease ends; each page and answer renews it.
An unfinished unit whose lease has ended may go to someone else; its answers are kept.
"""

import dataclasses
import enum
import secrets
import sqlite3
import time
from collections.abc import Callable

from xmodal.apps.annotate.golden import judge_unit, qualifies
from xmodal.apps.annotate.questions import KINDS
from xmodal.apps.annotate.raters import Rater
from xmodal.apps.annotate.study_file import StudyFile, StudyQuestion, is_closed
from xmodal.core.errors import UserError

_SWAP = {"left": "right", "right": "left"}
# Answers of a page about a left and a right item -> about the first and the second model's.
_BETTER = {"left": "better", "right": "worse"}
_PAGE = {stored: page for page, stored in _BETTER.items()}

# Units that still need raters and do not show the rater any pair twice, golden or not, which also
# excludes the rater's own units. Units of other raters count while their leases run. A lease that
# ends later than a new one is from before the clock was set back.
_RUNS = "expires > :now AND expires <= :now + :lease"
_NEXT = """
SELECT u.id FROM units u
WHERE u.test = 0 AND u.stage = :stage AND u.done < :need
  AND NOT EXISTS (
    SELECT 1 FROM questions q JOIN questions old ON old.pair = q.pair
    JOIN assignments a ON a.unit = old.unit
    WHERE q.unit = u.id AND a.rater = :rater
  )
  {room}
ORDER BY u.done DESC, u.position, u.id LIMIT 1
"""
_ROOM = f"""AND u.done + (
    SELECT count(*) FROM assignments a
    WHERE a.unit = u.id AND a.state = 'open' AND {_RUNS} AND a.rater != :rater
  ) < :need"""
_TEST = """
SELECT u.id FROM units u
WHERE u.test AND NOT EXISTS (SELECT 1 FROM assignments a WHERE a.unit = u.id AND a.rater = :rater)
ORDER BY u.id LIMIT 1
"""


class NotAssignedError(UserError):
    """A page or an answer of a unit that the rater does not hold."""


class Rest(enum.Enum):
    """Why there is nothing to hand out."""

    FINISHED = "finished"
    WAITING = "waiting"  # Others hold the last units, and may give them back.
    ENDED = "ended"
    UNQUALIFIED = "unqualified"
    CLOSED = "closed"


@dataclasses.dataclass(frozen=True)
class Place:
    """A question of a unit.

    Attributes:
      unit: id of the unit.
      number: number of the question in it, starting at 0.
    """

    unit: int
    number: int


@dataclasses.dataclass(frozen=True)
class HandedPage:
    """A question as one rater sees it.

    Attributes:
      place: place of the question.
      question: the question, with its two items in the order of the page.
      questions: number of questions in the unit.
      answer: the rater's earlier answer, as shown on the page; None for a new question.
      finished: number of units that the rater has finished.
      remaining: number of units that the rater may still get, including this one.
      previous: the question that the rater answered last and may correct.
    """

    place: Place
    question: StudyQuestion
    questions: int
    answer: str | None
    finished: int
    remaining: int
    previous: Place | None


class HandOut:
    """Gives raters their next questions and stores their answers."""

    def __init__(self, study: StudyFile, clock: Callable[[], float] = time.time) -> None:
        """Hands out the units of a study; `clock` returns seconds since 1970."""
        self._study, self._settings, self._clock = study, study.settings, clock
        with study.reading() as connection:
            rows = connection.execute("SELECT DISTINCT stage FROM units WHERE NOT test ORDER BY 1")
            self._stages = [row["stage"] for row in rows]

    def next(self, rater: Rater) -> Place | Rest:
        """Returns the rater's next question, the same one until it is answered."""
        if rater.state != "active":
            return Rest(rater.state)
        return self._study.change(lambda connection: self._next(connection, rater))

    def _next(self, connection: sqlite3.Connection, rater: Rater) -> Place | Rest:
        if is_closed(connection):
            return Rest.CLOSED
        unit = self._held(connection, rater) or self._take(connection, rater)
        if unit is None:
            return self._rest(connection, rater)
        (number,) = connection.execute(
            "SELECT min(q.number) FROM questions q WHERE q.unit = :unit AND NOT EXISTS (SELECT "
            "1 FROM answers a WHERE (a.unit, a.number, a.rater) = (q.unit, q.number, :rater))",
            {"unit": unit, "rater": rater.id},
        ).fetchone()
        # A running lease is left unchanged, so that looking at a page costs no write.
        self._renew(connection, rater, unit, unless=_RUNS)
        return Place(unit, number)

    def page(self, rater: Rater, place: Place) -> HandedPage:
        """Returns a question that the rater holds, or answered last.

        Raises:
          NotAssignedError: this rater does not have the question.
        """
        return self._study.change(lambda connection: self._page(connection, rater, place))

    def _page(self, connection: sqlite3.Connection, rater: Rater, place: Place) -> HandedPage:
        row = self._find(connection, rater, place)
        self._check(connection, rater, place, row)
        self._renew(connection, rater, place.unit)
        question = _read_question(connection, place)
        value = _read_answer(connection, rater, place)
        (questions,) = connection.execute(
            "SELECT count(*) FROM questions WHERE unit = ?", (place.unit,)
        ).fetchone()
        finished, remaining = self._progress(connection, rater)
        last = _last_answered(connection, rater)
        if value is not None and question.kind == "preference":
            value = _PAGE.get(value, value)
        if row["swapped"]:
            question = dataclasses.replace(question, left=question.right, right=question.left)
            value = value and _SWAP.get(value, value)
        is_open = row["state"] == "open"
        return HandedPage(
            place=place,
            question=question,
            questions=questions,
            answer=value,
            finished=finished,
            remaining=remaining + is_open,
            previous=None if last == place else last,
        )

    def save(self, rater: Rater, place: Place, answer: str) -> None:
        """Stores an answer from a page; storing the same answer again has no effect.

        Raises:
          NotAssignedError: the rater does not hold the question, or no longer takes part.
          BadAnswer: the answer is not valid for the question.
        """
        self._study.change(lambda connection: self._save(connection, rater, place, answer))

    def _save(
        self, connection: sqlite3.Connection, rater: Rater, place: Place, answer: str
    ) -> None:
        row = self._find(connection, rater, place)
        kind = _read_question(connection, place).kind
        value = KINDS[kind].read(answer)
        if row["swapped"]:
            value = _SWAP.get(value, value)
        if kind == "preference":
            value = _BETTER.get(value, value)
        if value == _read_answer(connection, rater, place):
            return
        self._check(connection, rater, place, row)
        now = self._clock()
        connection.execute(
            "INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET value = "
            "excluded.value, at = excluded.at",
            (place.unit, place.number, rater.id, value, max(now - row["shown"], 0.0), now),
        )
        self._renew(connection, rater, place.unit)
        self._judge(connection, rater, place.unit, row["state"])

    def _held(self, connection: sqlite3.Connection, rater: Rater) -> int | None:
        """The unit that the rater began, unless its lease ended and others have finished it."""
        row = connection.execute(
            "SELECT a.unit FROM assignments a JOIN units u ON u.id = a.unit WHERE a.rater = :rater "
            f"AND a.state = 'open' AND (u.test OR ({_RUNS}) OR (u.done < :need {_ROOM})) "
            "ORDER BY a.unit LIMIT 1",
            self._values(rater),
        ).fetchone()
        return row and row["unit"]

    def _take(self, connection: sqlite3.Connection, rater: Rater) -> int | None:
        values = self._values(rater)
        row = connection.execute(_TEST, values).fetchone()
        if row is None and self._may_take(connection, rater):
            row = self._find_next(connection, rater, _ROOM)
        if row is None:
            return None
        (kind,) = connection.execute(
            "SELECT kind FROM questions WHERE unit = ? AND number = 0", (row["id"],)
        ).fetchone()
        swapped = kind == "preference" and secrets.randbelow(2)
        connection.execute(
            "INSERT INTO assignments (unit, rater, expires, shown, swapped) VALUES (?, ?, 0, 0, ?)",
            (row["id"], rater.id, swapped),
        )
        return row["id"]

    def _may_take(self, connection: sqlite3.Connection, rater: Rater) -> bool:
        limit = self._settings.per_rater
        return limit is None or _count(connection, rater) < limit

    def _rest(self, connection: sqlite3.Connection, rater: Rater) -> Rest:
        if not self._may_take(connection, rater):
            return Rest.FINISHED
        return Rest.WAITING if self._find_next(connection, rater, "") else Rest.FINISHED

    def _find_next(
        self, connection: sqlite3.Connection, rater: Rater, room: str
    ) -> sqlite3.Row | None:
        # Stage by stage, so that the index of units skips finished ones.
        for stage in self._stages:
            values = self._values(rater) | {"stage": stage}
            if row := connection.execute(_NEXT.format(room=room), values).fetchone():
                return row
        return None

    def _find(self, connection: sqlite3.Connection, rater: Rater, place: Place) -> sqlite3.Row:
        """The rater's assignment of a question."""
        if rater.state != "active":
            raise NotAssignedError("Your part in this study has ended.")
        if is_closed(connection):
            raise NotAssignedError("This study is closed and takes no more answers.")
        row = connection.execute(
            f"SELECT a.state, a.shown, a.swapped, ({_RUNS}) OR u.test OR (u.done < :need "
            f"{_ROOM}) AS room FROM assignments a JOIN units u ON u.id = a.unit "
            "JOIN questions q ON q.unit = a.unit AND q.number = :number "
            "WHERE a.unit = :unit AND a.rater = :rater",
            self._values(rater) | dataclasses.asdict(place),
        ).fetchone()
        if row is None:
            raise NotAssignedError("This question was not given to you.")
        return row

    def _check(
        self, connection: sqlite3.Connection, rater: Rater, place: Place, row: sqlite3.Row
    ) -> None:
        """Raises an error if a question may not be answered, or not again."""
        if row["state"] == "open":
            if not row["room"]:
                raise NotAssignedError("This question took too long; it went to somebody else.")
        elif row["state"] not in ("finished", "check") or place != _last_answered(
            connection, rater
        ):
            raise NotAssignedError("Only your last answer can be changed.")

    def _renew(
        self, connection: sqlite3.Connection, rater: Rater, unit: int, unless: str = "FALSE"
    ) -> None:
        """Renews a lease, unless a condition in SQL holds."""
        connection.execute(
            "UPDATE assignments SET expires = :now + :lease, shown = :now "
            f"WHERE (unit, rater) = (:unit, :rater) AND NOT ({unless})",
            self._values(rater) | {"unit": unit},
        )

    def _judge(self, connection: sqlite3.Connection, rater: Rater, unit: int, before: str) -> None:
        """Updates whether a unit is finished after its answers changed."""
        state = judge_unit(connection, rater.id, unit)
        if state is None:
            return
        connection.execute(
            "UPDATE assignments SET state = ? WHERE (unit, rater) = (?, ?)", (state, unit, rater.id)
        )
        if before == "open":
            connection.execute("UPDATE units SET done = done + 1 WHERE id = ?", (unit,))
        if not qualifies(connection, rater.id, self._settings.pass_share):
            connection.execute("UPDATE raters SET state = 'unqualified' WHERE id = ?", (rater.id,))

    def _progress(self, connection: sqlite3.Connection, rater: Rater) -> tuple[int, int]:
        """Units finished, and those that the rater may still take."""
        (finished,) = connection.execute(
            "SELECT count(*) FROM assignments WHERE rater = ? AND state != 'open'", (rater.id,)
        ).fetchone()
        (rest,) = connection.execute(
            "SELECT (SELECT count(*) FROM units WHERE test = 0 AND done < :need) - "
            "(SELECT count(DISTINCT u.id) FROM assignments a "
            "JOIN questions old ON old.unit = a.unit JOIN questions q ON q.pair = old.pair "
            "JOIN units u ON u.id = q.unit "
            "WHERE a.rater = :rater AND u.test = 0 AND u.done < :need)",
            self._values(rater),
        ).fetchone()
        if self._settings.per_rater is not None:
            rest = min(rest, self._settings.per_rater - _count(connection, rater))
        return finished, rest

    def _values(self, rater: Rater) -> dict[str, float]:
        return {
            "rater": rater.id,
            "now": self._clock(),
            "need": self._settings.raters_per_item,
            "lease": 60 * self._settings.lease_minutes,
        }


def _read_question(connection: sqlite3.Connection, place: Place) -> StudyQuestion:
    row = connection.execute(
        "SELECT * FROM questions WHERE (unit, number) = (?, ?)", (place.unit, place.number)
    ).fetchone()
    return StudyQuestion(
        row["kind"], row["left_id"], row["right_id"], row["about"], row["golden"], row["note"]
    )


def _read_answer(connection: sqlite3.Connection, rater: Rater, place: Place) -> str | None:
    row = connection.execute(
        "SELECT value FROM answers WHERE (unit, number, rater) = (?, ?, ?)",
        (place.unit, place.number, rater.id),
    ).fetchone()
    return row and row["value"]


def _last_answered(connection: sqlite3.Connection, rater: Rater) -> Place | None:
    # Not by time, because the clock may be set back.
    row = connection.execute(
        "SELECT unit, number FROM answers WHERE rater = ? ORDER BY rowid DESC LIMIT 1",
        (rater.id,),
    ).fetchone()
    return Place(**row) if row else None


def _count(connection: sqlite3.Connection, rater: Rater) -> int:
    """Units of a rater, without the qualification."""
    (number,) = connection.execute(
        "SELECT count(*) FROM assignments a JOIN units u ON u.id = a.unit "
        "WHERE NOT u.test AND a.rater = ?",
        (rater.id,),
    ).fetchone()
    return number

"""Golden pairs, whose answers are known in advance, and their consequences.

As in ECCV Caption, a wrong answer does not reject anything by itself: the author of the study
reviews the unit and accepts or rejects it. A rejected unit goes to another rater.
"""

import dataclasses
import sqlite3

from xmodal.apps.annotate.study_file import StudyFile
from xmodal.core.errors import UserError

# Known answer -> answers that agree with it.
_RIGHT = {"yes": ("yes", "weak_yes"), "no": ("weak_no", "no")}
POSITIVE = _RIGHT["yes"]


@dataclasses.dataclass(frozen=True)
class Doubt:
    """A unit with a wrong answer to a golden pair.

    Attributes:
      unit: its id.
      rater: name of the rater.
      wrong: "caption 17, image 4: no instead of yes", for every wrong golden pair.
    """

    unit: int
    rater: str
    wrong: tuple[str, ...]


def is_right(golden: str, answer: str) -> bool:
    """Returns whether an answer agrees with the known one, "yes" or "no"."""
    return answer in _RIGHT[golden]


def judge_unit(connection: sqlite3.Connection, rater: int, unit: int) -> str | None:
    """Returns the state of a unit from its answers: None, "finished", or "check" for review."""
    rows = _rows(connection, "q.unit = ?", rater, unit)
    if any(row["value"] is None for row in rows):
        return None
    wrong = any(row["golden"] and not is_right(row["golden"], row["value"]) for row in rows)
    return "check" if wrong and not rows[0]["test"] else "finished"


def qualifies(connection: sqlite3.Connection, rater: int, share: float) -> bool:
    """Returns whether a rater passes the qualification; True until it is complete."""
    rows = _rows(connection, "u.test", rater)
    if any(row["value"] is None for row in rows):
        return True
    right = sum(is_right(row["golden"], row["value"]) for row in rows)
    return right >= share * len(rows) - 1e-9


def find_doubts(study: StudyFile) -> list[Doubt]:
    """Returns the units that are waiting for a decision."""
    with study.reading() as connection:
        waiting = connection.execute(
            "SELECT a.unit, a.rater, r.name FROM assignments a JOIN raters r ON r.id = a.rater "
            "WHERE a.state = 'check' ORDER BY a.unit, a.rater"
        ).fetchall()
        return [
            Doubt(unit, name, tuple(
                f"caption {row['left_id']}, image {row['right_id']}: {row['value']} instead of "
                f"{row['golden']}"
                for row in _rows(connection, "q.unit = ?", rater, unit)
                if row["golden"] and not is_right(row["golden"], row["value"])
            ))
            for unit, rater, name in waiting
        ]  # fmt: skip


def decide(study: StudyFile, unit: int, rater: str, *, accept: bool) -> None:
    """Accepts or rejects a unit that is waiting for a decision."""
    with study.changing() as connection:
        changed = connection.execute(
            "UPDATE assignments SET state = ? WHERE unit = ? AND state = 'check' "
            "AND rater = (SELECT id FROM raters WHERE name = ?)",
            ("accepted" if accept else "rejected", unit, rater),
        )
        if not changed.rowcount:
            raise UserError(
                f"Unit {unit} of {rater!r} is not waiting for a decision; `xmodal annotate "
                f"review --study={study.path}` lists those that are."
            )
        if not accept:
            connection.execute("UPDATE units SET done = done - 1 WHERE id = ?", (unit,))


def _rows(
    connection: sqlite3.Connection, where: str, rater: int, *values: int
) -> list[sqlite3.Row]:
    """Questions with the rater's answers, None if there is none yet."""
    return connection.execute(
        "SELECT q.*, u.test, a.value FROM questions q JOIN units u ON u.id = q.unit LEFT JOIN "
        "answers a ON (a.unit, a.number, a.rater) = (q.unit, q.number, ?) "
        f"WHERE {where} ORDER BY q.unit, q.number",
        (rater, *values),
    ).fetchall()

"""Raters and their links. A study stores only token hashes, so its file gives no access."""

import dataclasses
import hashlib
import secrets
import sqlite3

from xmodal.apps.annotate.study_file import StudyFile
from xmodal.core.errors import UserError


@dataclasses.dataclass(frozen=True)
class Rater:
    """A rater of a study.

    Attributes:
      id: number of the rater.
      name: the rater's name in reports.
      state: `active`, `ended` (by the author of the study) or `unqualified`.
    """

    id: int
    name: str
    state: str


def invite(study: StudyFile, count: int) -> dict[str, str]:
    """Adds raters; returns name -> token, which is not stored and only its rater should know."""

    def add(connection: sqlite3.Connection) -> dict[str, str]:
        tokens = {}
        (known,) = connection.execute("SELECT count(*) FROM raters").fetchone()
        for number in range(known + 1, known + count + 1):
            token = secrets.token_urlsafe(32)
            connection.execute(
                "INSERT INTO raters (name, token_hash) VALUES (?, ?)",
                (f"rater{number}", _hash(token)),
            )
            tokens[f"rater{number}"] = token
        return tokens

    return study.change(add)


def find_rater(study: StudyFile, token: str) -> Rater | None:
    """Returns the rater with a token; None if there is none, as for another study's token."""
    with study.reading() as connection:
        row = connection.execute(
            "SELECT id, name, state FROM raters WHERE token_hash = ?", (_hash(token),)
        ).fetchone()
    return Rater(**row) if row else None


def end_rater(study: StudyFile, name: str) -> None:
    """Ends a rater's participation: the answers are kept, an unfinished unit goes to another rater.

    Raises:
      UserError: no rater has this name.
    """

    def end(connection: sqlite3.Connection) -> None:
        found = connection.execute("UPDATE raters SET state = 'ended' WHERE name = ?", (name,))
        if not found.rowcount:
            raise UserError(f"{study.path} has no rater {name!r}; known: {_names(connection)}.")
        connection.execute(
            "UPDATE assignments SET expires = 0 WHERE state = 'open' AND rater = (SELECT id FROM "
            "raters WHERE name = ?)",
            (name,),
        )

    study.change(end)


def _names(connection: sqlite3.Connection) -> str:
    rows = connection.execute("SELECT name FROM raters ORDER BY id").fetchall()
    return ", ".join(row["name"] for row in rows) or "none yet"


def _hash(token: str) -> bytes:
    # The token is 256 random bits and cannot be guessed, so salt or a slow hash would not help.
    return hashlib.sha256(token.encode()).digest()

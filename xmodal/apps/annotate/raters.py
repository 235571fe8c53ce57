"""Raters and their links. A study stores only token hashes, so its file gives no access."""

import hashlib
import secrets
from typing import NamedTuple

from xmodal.apps.annotate.study_file import StudyFile
from xmodal.core.errors import UserError


class Rater(NamedTuple):
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
    """Adds raters; returns name -> token, of which the study stores only a hash."""

    with study.changing() as connection:
        (known,) = connection.execute("SELECT count(*) FROM raters").fetchone()
        names = [f"rater{number}" for number in range(known + 1, known + count + 1)]
        tokens = {name: secrets.token_urlsafe(32) for name in names}
        connection.executemany(
            "INSERT INTO raters (name, token_hash) VALUES (?, ?)",
            [(name, _hash(token)) for name, token in tokens.items()],
        )
    return tokens


def find_rater(study: StudyFile, token: str) -> Rater | None:
    """Returns the rater with a token; None if there is none, as for another study's token."""
    sql = "SELECT id, name, state FROM raters WHERE token_hash = ?"
    return next((Rater(*row) for row in study.rows(sql, _hash(token))), None)


def end_rater(study: StudyFile, name: str) -> None:
    """Ends a rater's part: the answers are kept, an unfinished unit goes to another rater."""

    with study.changing() as connection:
        found = connection.execute("UPDATE raters SET state = 'ended' WHERE name = ?", (name,))
        if not found.rowcount:
            known = [row["name"] for row in connection.execute("SELECT name FROM raters")]
            raise UserError(f"{study.path} has no rater {name!r}; known: {', '.join(known)}.")
        connection.execute(
            "UPDATE assignments SET expires = 0 WHERE state = 'open' AND rater = (SELECT id FROM "
            "raters WHERE name = ?)",
            (name,),
        )


def _hash(token: str) -> bytes:
    # The token is 256 random bits and cannot be guessed, so salt or a slow hash would not help.
    return hashlib.sha256(token.encode()).digest()

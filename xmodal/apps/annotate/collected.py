"""The answers of a study, for aggregation."""

import dataclasses
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from xmodal.apps.annotate.study_file import StudyFile
from xmodal.core.result_files import csv_text

_Key = TypeVar("_Key", bound=Hashable)
# States of a unit whose answers count, once enough raters have finished it.
_COUNTED = ("finished", "accepted")


@dataclasses.dataclass(frozen=True)
class Answer:
    """One answer of one rater.

    Attributes:
      unit: id of the unit.
      number: number of the question in it.
      rater: name of the rater.
      kind: key of `KINDS`.
      left: id of the left item; of a preference study, the picture of the first model.
      right: id of the right one.
      about: id of the caption above them, or None.
      golden: the known answer, or None.
      note: note of the question.
      value: the answer: a number such as "3.5", or a word.
      seconds: time from the last view of the page to the first answer.
      swapped: whether the right item was shown on the left.
      state: state of the unit: `open`, `finished`, `check`, `accepted` or `rejected`.
      test: whether the unit is the qualification.
      complete: whether enough raters have finished the unit.
    """

    unit: int
    number: int
    rater: str
    kind: str
    left: int
    right: int
    about: int | None
    golden: str | None
    note: str
    value: str
    seconds: float
    swapped: bool
    state: str
    test: bool
    complete: bool

    @property
    def counts(self) -> bool:
        """Whether labels are made from the answer."""
        return self.complete and self.state in _COUNTED and not (self.test or self.golden)


def read_answers(study: StudyFile) -> list[Answer]:
    """Returns all answers, in the order of the questions and raters."""
    with study.reading() as connection:
        rows = connection.execute(
            "SELECT a.unit, a.number, r.name AS rater, q.kind, q.left_id AS left, "
            'q.right_id AS "right", q.about, q.golden, q.note, a.value, a.seconds, s.swapped, '
            "s.state, u.test, u.done - (SELECT count(*) FROM assignments c WHERE c.unit = u.id AND "
            "c.state = 'check') >= :need AS complete "
            "FROM answers a JOIN questions q ON q.unit = a.unit AND q.number = a.number "
            "JOIN units u ON u.id = a.unit JOIN raters r ON r.id = a.rater "
            "JOIN assignments s ON s.unit = a.unit AND s.rater = a.rater "
            "ORDER BY a.unit, a.number, r.id",
            {"need": study.settings.raters_per_item},
        ).fetchall()
    flags = ("swapped", "test", "complete")
    return [Answer(**{**dict(row), **{name: bool(row[name]) for name in flags}}) for row in rows]


def group(answers: Iterable[Answer], key: Callable[[Answer], _Key]) -> dict[_Key, list[Answer]]:
    """Returns answers by a key, in order."""
    groups: dict[_Key, list[Answer]] = {}
    for answer in answers:
        groups.setdefault(key(answer), []).append(answer)
    return groups


def question_of(answer: Answer) -> tuple[int, int]:
    """Returns the unit and the number of the question of an answer."""
    return answer.unit, answer.number


def format_answers(answers: Iterable[Answer]) -> str:
    """Returns all answers as a CSV file."""
    names = [field.name for field in dataclasses.fields(Answer)]
    return csv_text([names, *([getattr(each, name) for name in names] for each in answers)])

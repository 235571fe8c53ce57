"""The answers of a study, for aggregation."""

import dataclasses
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from xmodal.apps.annotate.study_file import StudyFile
from xmodal.core.result_files import csv_text

_Key = TypeVar("_Key", bound=Hashable)


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
        is_taken = self.state in ("finished", "accepted") and not (self.test or self.golden)
        return self.complete and is_taken

    @property
    def question(self) -> tuple[int, int]:
        """The unit and the number of the question."""
        return self.unit, self.number


_NAMES = [field.name for field in dataclasses.fields(Answer)]


def read_answers(study: StudyFile) -> list[Answer]:
    """Returns all answers, in the order of the questions and raters."""
    with study.reading() as connection:
        rows = connection.execute(
            "SELECT a.unit, a.number, r.name, q.kind, q.left_id, q.right_id, q.about, q.golden, "
            "q.note, a.value, a.seconds, s.swapped, s.state, u.test, u.done - (SELECT count(*) "
            "FROM assignments c WHERE c.unit = u.id AND c.state = 'check') >= :need "
            "FROM answers a JOIN questions q ON q.unit = a.unit AND q.number = a.number "
            "JOIN units u ON u.id = a.unit JOIN raters r ON r.id = a.rater "
            "JOIN assignments s ON s.unit = a.unit AND s.rater = a.rater "
            "ORDER BY a.unit, a.number, r.id",
            {"need": study.settings.raters_per_item},
        ).fetchall()
    flags = ("swapped", "test", "complete")
    named = (dict(zip(_NAMES, row, strict=True)) for row in rows)
    return [Answer(**{**each, **{name: bool(each[name]) for name in flags}}) for each in named]


def group(answers: Iterable[Answer], key: Callable[[Answer], _Key]) -> dict[_Key, list[Answer]]:
    """Returns answers by a key, in order."""
    groups: dict[_Key, list[Answer]] = {}
    for answer in answers:
        groups.setdefault(key(answer), []).append(answer)
    return groups


def format_answers(answers: Iterable[Answer]) -> str:
    """Returns all answers as a CSV file."""
    return csv_text([_NAMES, *([getattr(each, name) for name in _NAMES] for each in answers)])

"""The answers of a study, and the review of units with wrong answers to golden pairs.

As in ECCV Caption, a wrong answer to a pair whose answer is known does not reject anything by
itself: the author of the study reviews the unit and accepts or rejects it. A rejected unit goes to
another rater.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from xmodal.apps.annotate.questions import is_right
from xmodal.apps.annotate.study_file import StudyFile
from xmodal.core.errors import UserError

_Key = TypeVar("_Key", bound=Hashable)


class Answer(NamedTuple):
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
      swapped: 1 if the right item was shown on the left, else 0.
      state: state of the unit: `open`, `finished`, `check`, `accepted` or `rejected`.
      test: 1 if the unit is the qualification, else 0.
      complete: 1 if enough raters have finished the unit, else 0.
      wrong_caption: 1 if the rater calls the caption itself wrong, else 0.
      because: the rater's reason; "" if not told.
      study: name of the study.
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
    swapped: int
    state: str
    test: int
    complete: int
    wrong_caption: int = 0
    because: str = ""
    study: str = ""

    @property
    def counts(self) -> bool:
        """Whether labels are made from the answer."""
        is_taken = self.state in ("finished", "accepted") and not (self.test or self.golden)
        return bool(self.complete) and is_taken

    @property
    def question(self) -> tuple[str, str, int | None, int, int]:
        """The kind, note and items, which are equal for the same question in another study.

        CxC rates a pair once for every sampling method, and some pairs of images in both orders.
        """
        return self.kind, self.note, self.about, self.left, self.right

    @property
    def is_wrong(self) -> bool:
        """Whether the answer to a golden pair is wrong."""
        return self.golden is not None and not is_right(self.golden, self.value)


def read_all_answers(studies: Sequence[StudyFile]) -> list[Answer]:
    """Returns the answers of several studies, whose raters get the names `STUDY/RATER`."""
    answers = [answer for study in studies for answer in read_answers(study)]
    if len(studies) == 1:
        return answers
    return [answer._replace(rater=f"{answer.study}/{answer.rater}") for answer in answers]


def read_answers(study: StudyFile) -> list[Answer]:
    """Returns all answers, in the order of the questions and raters."""
    rows = study.rows(
        "SELECT a.unit, a.number, r.name, q.kind, q.left_id, q.right_id, q.about, q.golden, "
        "q.note, a.value, a.seconds, s.swapped, s.state, u.test, u.done - (SELECT count(*) "
        "FROM assignments c WHERE c.unit = u.id AND c.state = 'check') >= ?, "
        "a.wrong_caption, a.because, ? FROM answers a "
        "JOIN questions q ON q.unit = a.unit AND q.number = a.number "
        "JOIN units u ON u.id = a.unit JOIN raters r ON r.id = a.rater "
        "JOIN assignments s ON s.unit = a.unit AND s.rater = a.rater "
        "ORDER BY a.unit, a.number, r.id",
        study.settings.raters_per_item,
        study.name,
    )
    return [Answer(*row) for row in rows]


def group(answers: Iterable[Answer], key: Callable[[Answer], _Key]) -> dict[_Key, list[Answer]]:
    """Returns answers by a key, in order."""
    groups: dict[_Key, list[Answer]] = {}
    for answer in answers:
        groups.setdefault(key(answer), []).append(answer)
    return groups


def find_doubts(answers: Iterable[Answer]) -> dict[tuple[int, str], str]:
    """Returns (unit, rater) -> its wrong golden answers, of units that wait for a decision."""
    wrong = (answer for answer in answers if answer.state == "check" and answer.is_wrong)
    return {
        place: "; ".join(
            f"caption {x.left}, image {x.right}: {x.value} instead of {x.golden}" for x in own
        )
        for place, own in group(wrong, lambda answer: (answer.unit, answer.rater)).items()
    }


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

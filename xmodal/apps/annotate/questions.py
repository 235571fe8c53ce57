"""Kinds of questions: the items they show, their instructions, and the possible answers."""

import dataclasses
import pathlib
import re
import tomllib
from collections.abc import Mapping, Sequence

from xmodal.core.errors import UserError

POSITIVE = ("yes", "weak_yes")
"""Answers that call a pair a match."""
_RATING = re.compile(r"[0-4](?:\.\d{1,2})?|5(?:\.0{1,2})?", re.ASCII)


class BadAnswer(UserError):
    """An answer that is not valid for its question."""


@dataclasses.dataclass(frozen=True)
class QuestionKind:
    """A kind of question.

    Attributes:
      sides: "caption" or "image", of the left and of the right item.
      names: their names on the page.
      title: title of the page.
      ask: the question itself.
      guide: sentences of the instructions.
      answers: value -> label of a choice; None for a slider from 0 to 5.
      scale: labels of the integers 0 to 5 of a slider.
      symmetric: whether (a, b) and (b, a) are the same pair.
      about: whether a caption is shown above both items.
      remarks: whether raters may call the caption wrong, and give a reason for their answer.
    """

    sides: Sequence[str]
    names: Sequence[str]
    title: str
    ask: str
    guide: Sequence[str]
    answers: Mapping[str, str] | None = None
    scale: Sequence[str] = ()
    symmetric: bool = False
    about: bool = False
    remarks: bool = False

    def read(self, answer: str) -> str:
        """Returns an answer in its stored form: a value of `answers`, or a number such as "3.5"."""
        if self.answers is not None:
            if answer not in self.answers:
                raise BadAnswer(f"Choose one of the {len(self.answers)} answers.")
            return answer
        if not _RATING.fullmatch(answer):
            raise BadAnswer("Move the slider first.")
        return str(float(answer))


def is_right(golden: str, answer: str) -> bool:
    """Returns whether an answer agrees with the known one, "yes" or "no"."""
    return (golden == "yes") == (answer in POSITIVE)


_TEXTS = (pathlib.Path(__file__).parent / "questions.toml").read_text(encoding="utf-8")
KINDS = {name: QuestionKind(**entry) for name, entry in tomllib.loads(_TEXTS).items()}
"""Kind of question -> its sides, wording and answers."""

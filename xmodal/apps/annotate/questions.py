"""Kinds of questions: the items they show, their instructions, and the possible answers."""

import dataclasses
import re
from collections.abc import Mapping

from xmodal.core.errors import UserError

_RATING = re.compile(r"[0-4](?:\.\d{1,2})?|5(?:\.0{1,2})?", re.ASCII)


class BadAnswer(UserError):
    """An answer that is not valid for its question."""


@dataclasses.dataclass(frozen=True)
class QuestionKind:
    """A kind of question.

    Attributes:
      sides: "caption" or "image", of the left and of the right item.
      title: title of the page.
      ask: the question itself.
      guide: sentences of the instructions.
      answers: value -> label of a choice; None for a slider from 0 to 5.
      scale: labels of the integers 0 to 5 of a slider.
      symmetric: whether (a, b) and (b, a) are the same pair.
      about: whether a caption is shown above both items.
    """

    sides: tuple[str, str]
    title: str
    ask: str
    guide: tuple[str, ...]
    answers: Mapping[str, str] | None = None
    scale: tuple[str, ...] = ()
    symmetric: bool = False
    about: bool = False

    def read(self, answer: str) -> str:
        """Returns an answer in its stored form: a value of `answers`, or a number such as "3.5"."""
        if self.answers is not None:
            if answer not in self.answers:
                raise BadAnswer(f"Choose one of the {len(self.answers)} answers.")
            return answer
        if not _RATING.fullmatch(answer):
            raise BadAnswer("Move the slider to a place from 0 to 5.")
        return str(float(answer))


_SLIDER = (
    "Put the slider where the pair belongs; places between two numbers are welcome.",
    "Judge by content, not by style, length or quality.",
)
# All but the highest of two scenes.
_SCENES = (
    "Nothing in common",
    "Only the topic is the same",
    "Some details are the same, the scenes are not",
    "Roughly the same scene, important details differ",
    "Mostly the same scene, only unimportant details differ",
)

# The first three are the tasks of Crisscrossed Captions and the fourth is that of ECCV Caption; the
# fifth is used for table 6 of the CMCM paper. The wording is ours; the scales are the papers'.
KINDS: Mapping[str, QuestionKind] = {
    "sts": QuestionKind(
        sides=("caption", "caption"),
        title="Two captions",
        ask="How similar are the scenes that these two captions describe?",
        guide=("Picture the scene behind each caption, then compare the two scenes.", *_SLIDER),
        scale=(*_SCENES, "The same scene"),
        symmetric=True,
    ),
    "sis": QuestionKind(
        sides=("image", "image"),
        title="Two pictures",
        ask="How similar are the scenes in these two pictures?",
        guide=("Look at the people and things, the action, and the place.", *_SLIDER),
        scale=(*_SCENES, "Almost the same picture"),
        symmetric=True,
    ),
    "sits": QuestionKind(
        sides=("caption", "image"),
        title="A caption and a picture",
        ask="How well does the caption describe the picture?",
        guide=("Read the caption first, then see how much of it the picture shows.", *_SLIDER),
        scale=(
            "Nothing to do with the picture",
            "Only the topic is the same",
            "Some details fit, the scene does not",
            "Comes close, but does not describe this picture",
            "Describes a part of the picture",
            "Describes the picture perfectly",
        ),
    ),
    "match": QuestionKind(
        sides=("caption", "image"),
        title="A caption for a picture",
        ask="Does the caption describe the picture?",
        guide=(
            "Yes means that everything in the caption is true of the picture. The picture may "
            "show more than the caption says.",
            "If only a small part of the caption is wrong or cannot be seen, choose one of the "
            "two answers in the middle, the one that is nearer to the truth.",
            "Some pairs have known answers. They show whether a set of pairs was done with care.",
        ),
        answers={
            "yes": "Yes, all of it",
            "weak_yes": "Yes, most of it",
            "weak_no": "No, most of it does not fit",
            "no": "No, not at all",
        },
    ),
    "preference": QuestionKind(
        sides=("image", "image"),
        title="Two pictures for a text",
        ask="Which of the two pictures goes better with the text?",
        guide=(
            "Imagine the text with each of the pictures beside it.",
            "Two good pictures, or two bad ones, need no winner.",
        ),
        answers={
            "left": "The left one",
            "right": "The right one",
            "both_good": "Both are good",
            "both_bad": "Both are bad",
        },
        about=True,
    ),
}

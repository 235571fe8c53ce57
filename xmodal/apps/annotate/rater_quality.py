"""How well raters agree with each other and with golden pairs."""

import operator
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import krippendorff
import numpy as np

from xmodal.apps.annotate.answers import Answer, group
from xmodal.apps.annotate.questions import KINDS, POSITIVE
from xmodal.core.files import csv_text

# Choices as numbers; those of `match` are ordered.
_NUMBERS = {"no": 0, "weak_no": 1, "weak_yes": 2, "yes": 3}
_NUMBERS |= {"worse": 0, "better": 1, "both_good": 2, "both_bad": 3}
_BY_QUESTION = operator.attrgetter("question")
_Level = Literal["nominal", "ordinal", "interval"]
_HEAD = (
    *("rater", "answers", "median_seconds", "golden", "golden_right"),
    *("units_to_check", "units_rejected", "agreement"),
)
_LEVELS: Mapping[str, _Level] = {"match": "ordinal", "preference": "nominal"}


def compute_alphas(answers: Iterable[Answer]) -> dict[str, dict[str, float]]:
    """Returns Krippendorff's alpha of every kind of question.

    Golden pairs, the qualification and rejected units are left out.

    Returns:
      Kind -> level of measurement -> alpha, NaN if no question has two answers, or all answers are
      the same. Sliders are `interval`; the four answers about a match are `ordinal`, and
      `nominal` as yes and no.
    """
    asked = _compared(answers)
    found: dict[str, dict[str, float]] = {}
    for kind, of_kind in group(asked, lambda answer: answer.kind).items():
        level = _LEVELS.get(kind, "interval")
        found[kind] = {level: _alpha(_matrix(of_kind), level)}
        if kind == "match":
            yes = _matrix(of_kind)
            yes[~np.isnan(yes)] = yes[~np.isnan(yes)] >= _NUMBERS["weak_yes"]
            found[kind]["nominal"] = _alpha(yes, "nominal")
    return found


def quality_file(answers: Sequence[Answer]) -> str:
    """Returns a CSV file with a row per rater.

    `golden_right` is the share of golden pairs with a right answer. `agreement` is, of sliders, the
    correlation with the mean of the others; of choices, the share of answers that most of the
    others give, too (of matches, as yes or no), where these are not tied. Like `compute_alphas`, it
    leaves out golden pairs, the qualification and rejected units, the rater's and others'; it is
    empty where nobody else answered the same.
    """
    by_question = group(_compared(answers), _BY_QUESTION)
    rows = []
    for rater, own in group(answers, lambda answer: answer.rater).items():
        golden = [not a.is_wrong for a in own if a.golden]
        states = [*{a.unit: a.state for a in own}.values()]
        row = [rater, len(own), f"{statistics.median(a.seconds for a in own):.1f}", len(golden)]
        row += [f"{np.mean(golden):.3f}" if golden else "", states.count("check")]
        rows.append([*row, states.count("rejected"), _agreement(_compared(own), by_question)])
    return csv_text([_HEAD, *rows])


def _compared(answers: Iterable[Answer]) -> list[Answer]:
    """The answers that are compared with those of other raters."""
    return [a for a in answers if not a.golden and not a.test and a.state != "rejected"]


def number(answer: Answer) -> float:
    """Returns an answer as a number."""
    return float(_NUMBERS[answer.value] if KINDS[answer.kind].answers else answer.value)


def _matrix(answers: Sequence[Answer]) -> np.ndarray:
    """Numbers [raters, questions]; NaN for no answer."""
    raters = {name: row for row, name in enumerate(dict.fromkeys(a.rater for a in answers))}
    columns = {each: at for at, each in enumerate(dict.fromkeys(map(_BY_QUESTION, answers)))}
    matrix = np.full((len(raters), len(columns)), np.nan)
    for answer in answers:
        matrix[raters[answer.rater], columns[answer.question]] = number(answer)
    return matrix


def _alpha(matrix: np.ndarray, level: _Level) -> float:
    paired = matrix[:, (~np.isnan(matrix)).sum(axis=0) > 1]
    if not paired.size or np.nanmin(paired) == np.nanmax(paired):
        return float("nan")
    return float(krippendorff.alpha(reliability_data=paired, level_of_measurement=level))


def _agreement(mine: Sequence[Answer], by_question: Mapping[Any, list[Answer]]) -> str:
    own, others = [], []
    choices = bool(mine and KINDS[mine[0].kind].answers)
    for answer in mine:
        asked = by_question[answer.question]
        rest = [_comparable(each) for each in asked if each.rater != answer.rater]
        found = statistics.multimode(rest) if choices else [statistics.fmean(rest)] if rest else []
        if len(found) == 1:
            own.append(_comparable(answer))
            others.append(found[0])
    if choices and own:
        return f"{np.mean(np.equal(own, others)):.3f}"
    if len(own) < 2 or np.ptp(own) == 0 or np.ptp(others) == 0:
        return ""
    return f"{np.corrcoef(own, others)[0, 1]:.3f}"


def _comparable(answer: Answer) -> float:
    return float(answer.value in POSITIVE) if answer.kind == "match" else number(answer)

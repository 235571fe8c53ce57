"""Answers of a comparison of two models, in the format of `xmodal votes`."""

import json
from collections.abc import Iterable

from xmodal.apps.analysis.votes import ALL
from xmodal.apps.annotate.collected import Answer
from xmodal.apps.annotate.study_file import StudySettings
from xmodal.core.result_files import csv_text

_NO_GROUP = "none"


def vote_file(answers: Iterable[Answer], settings: StudySettings) -> str:
    """Returns a CSV file with a row per answer.

    If captions have groups, there are rows for every group of a caption and for the group `all`,
    in which a caption of several groups counts once.
    """
    header = ["example", "answer", "rater", "left_model"]
    rows: list[list[object]] = []
    grouped = False
    for answer in answers:
        if not answer.counts:
            continue
        left = settings.second if answer.swapped else settings.first
        row = [answer.about, answer.value, answer.rater, left]
        grouped |= bool(answer.note)
        groups = json.loads(answer.note) if answer.note else []
        rows.extend([*row, each] for each in (*(groups or [_NO_GROUP]), ALL))
    if not grouped:
        return csv_text([header, *(row[:-1] for row in rows if row[-1] == ALL)])
    return csv_text([[*header, "group"], *rows])

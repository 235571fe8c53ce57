"""Questions of a blind comparison of two models, as in table 6 of the CMCM paper.

A caption is shown with the first picture that each model finds, if they differ.
"""

import json
from typing import TYPE_CHECKING

import numpy as np

from xmodal.apps.annotate.candidates import best_items
from xmodal.apps.annotate.study_file import StudyQuestion, StudyUnit
from xmodal.core.errors import UserError

if TYPE_CHECKING:
    from xmodal.data import EvalSplit
    from xmodal.evals.scores.sources import Source


def draw_up(
    first: "Source",
    second: "Source",
    split: "EvalSplit",
    *,
    examples: int,
    labels: str | None,
    generator: np.random.Generator,
) -> tuple[list[StudyUnit], int]:
    """Returns a unit per caption, and for how many captions both models find the same picture.

    Args:
      first: the model that answers are about.
      second: the model it is compared with.
      split: captions and pictures.
      examples: largest number of captions to draw from those where the models differ.
      labels: column of 0 and 1 [N, R] whose names group the captions; None for no groups.
      generator: random generator for the draw.

    Raises:
      UserError: the models never differ, or there is no such column.
    """
    groups = None if labels is None else _read_groups(split, labels)
    best = [
        np.concatenate(best_items(model, split, "t2i", split.caption_ids, 1))
        for model in (first, second)
    ]
    different = np.flatnonzero(best[0] != best[1])
    if not len(different):
        raise UserError("Both models find the same picture for every caption: nothing to compare.")
    rows = generator.permutation(different)[:examples]
    units = [
        StudyUnit(
            (
                StudyQuestion(
                    "preference",
                    int(best[0][row]),
                    int(best[1][row]),
                    about=int(split.caption_ids[row]),
                    note="" if groups is None else json.dumps(groups[row]),
                ),
            ),
            position=position,
        )
        for position, row in enumerate(rows)
    ]
    return units, len(best[0]) - len(different)


def _read_groups(split: "EvalSplit", name: str) -> list[list[str]]:
    """Names of the labels of every caption."""
    column = split.labels.get(name)
    names = split.label_names.get(name)
    if column is None or names is None or column.ndim != 2:
        known = sorted(set(split.labels) & set(split.label_names))
        raise UserError(f"--labels={name} is not a column with named labels; known: {known}.")
    of_image = [[names[at] for at in np.flatnonzero(row)] for row in column]
    return [of_image[row] for row in split.caption_rows]

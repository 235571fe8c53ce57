"""Questions of a study like Crisscrossed Captions: pairs with a slider from 0 to 5."""

import pathlib
from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from xmodal.apps.analysis.ratings.rated_files import read_folder
from xmodal.apps.annotate.questions import KINDS
from xmodal.apps.annotate.study_file import StudyQuestion, StudyUnit
from xmodal.core.errors import UserError

if TYPE_CHECKING:
    from xmodal.data import EvalSplit


def draw_up(
    folder: str, split: "EvalSplit", ratings: Collection[str] | None, seed: int
) -> list[StudyUnit]:
    """Returns a unit per pair, numbered as in the files and assigned in random order by rating.

    Args:
      folder: folder of `{sts,sis,sits}_SPLIT.csv`, rated or not, as from
        `xmodal sample_pairs`.
      split: split with the captions and images of the pairs.
      ratings: any of `sts`, `sis` and `sits`; None for all that have a file.
      seed: seed of the order.

    Raises:
      FileNotFoundError: none of the files exists.
      UnexpectedFilesError: a file is damaged.
      UserError: a rating has no file, or a pair names an item that is not in the split.
    """
    rated = read_folder(pathlib.Path(folder), split.split, need_scores=False)
    if missing := sorted(set(ratings or ()) - set(rated)):
        raise UserError(f"{folder} has no pairs of {missing}; it has {sorted(rated)}.")
    ids = {"caption": split.caption_ids, "image": split.image_ids}
    units = []
    for stage, rating in enumerate(name for name in rated if ratings is None or name in ratings):
        pairs = rated[rating]
        sides = [np.asarray(side) for side in (pairs.left_ids, pairs.right_ids)]
        for kind, side in zip(KINDS[rating].sides, sides, strict=True):
            lost = np.setdiff1d(side, ids[kind])
            if len(lost):
                raise UserError(
                    f"{len(lost):,} of the {kind}s that {folder} pairs in {rating} are not in the "
                    f"split {split.split} of {split.name}, the first is {lost[0]}."
                )
        order = np.random.default_rng((seed, stage)).permutation(len(pairs))
        rows = (*sides, pairs.methods, order)
        for left, right, method, position in zip(*(row.tolist() for row in rows), strict=True):
            question = StudyQuestion(rating, left, right, note=method)
            units.append(StudyUnit((question,), stage=stage, position=position))
    return units

"""A few captions of a split and the images that they find."""

import numpy as np

from xmodal.evals.labels.ids import Positions
from xmodal.evals.labels.split import Split, name_image
from xmodal.evals.labels.types import Labels
from xmodal.evals.scores.score_rows import Scores


def find_examples(scores: Scores, labels: Labels, split: Split, count: int = 3) -> list[str]:
    """Returns a line of Markdown for each of a few captions: the image that it finds.

    The captions are evenly spaced in the labels. An image is named by its file, if the dataset has
    it, and by its first caption.

    Args:
      scores: scores of the captions and images of the labels.
      labels: labels in the order of the scores.
      split: split with the texts of the captions.
      count: largest number of captions.
    """
    captions = len(labels.caption_ids)
    count = min(count, captions)
    rows = (2 * np.arange(count) + 1) * captions // (2 * count)
    texts = Positions("caption", split.caption_ids)(labels.caption_ids)
    own_images = Positions("image", labels.image_ids).find(labels.caption_image_ids[rows])
    lines, has_files = [], "picture" in split.labels
    for row, own, of_row in zip(rows, own_images, scores.rows(rows), strict=True):
        order = np.argsort(-of_row, kind="stable")
        found = "its own image first"
        if order[0] != own:
            of_best = labels.caption_image_ids == labels.image_ids[order[0]]
            names = [name_image(split, labels.image_ids[order[0]])] if has_files else []
            if of_best.any():
                names.append(f'the image of "{split.caption_texts[texts[of_best.argmax()]]}"')
            named = ", ".join(names) or "another"
            found = f"{named} first"
            if own >= 0:  # In a part of a split, a caption's image may be missing.
                rank = 1 + int(np.flatnonzero(order == own)[0])
                found += f", its own at rank {rank:,} of {len(order):,}"
        lines.append(f'- "{split.caption_texts[texts[row]]}" finds {found}.')
    return lines

"""A few captions of a split, and the images that they find."""

import jax.numpy as jnp
import numpy as np

from xmodal.evals.inputs.sources import Embeddings
from xmodal.evals.split import Split
from xmodal.losses.similarity import make_similarity


def find_examples(source: Embeddings, split: Split, count: int = 3) -> list[str]:
    """Returns a line of Markdown for each of a few captions: the image that it finds.

    The captions are those at equal distances in the split. An image is named by its first caption.

    Args:
      source: embeddings of both sides; nothing is returned of others.
      split: with the images and captions of the source, in any order.
      count: captions, at most.
    """
    if source.images is None or source.captions is None:
        return []
    image_ids, captions = np.asarray(source.image_ids), len(split.caption_ids)
    count = min(count, captions)
    rows = (2 * np.arange(count) + 1) * captions // (2 * count)
    texts = source.captions[_places(np.asarray(source.caption_ids), split.caption_ids[rows])]
    prepare, score = make_similarity({"name": source.similarity}).scorer(source.parameters)
    scores = np.asarray(score(prepare(jnp.asarray(source.images)), prepare(jnp.asarray(texts))))
    lines = []
    for row, column in zip(rows, scores.T, strict=True):
        own = _places(image_ids, split.caption_image_ids[row : row + 1])[0]
        best = int(np.argmax(column))
        found = "its own image first"
        if best != own:
            rank = 1 + int(np.sum(column > column[own]))
            of_best = np.flatnonzero(split.caption_image_ids == image_ids[best])
            named = (
                f'the image of "{split.caption_texts[int(of_best[0])]}"'
                if len(of_best)
                else "another"
            )
            found = f"{named} first, its own at rank {rank:,} of {len(column):,}"
        lines.append(f'- "{split.caption_texts[int(row)]}" finds {found}.')
    return lines


def _places(ids: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Returns the positions of ids among others; all of them are there."""
    order = np.argsort(ids, kind="stable")
    return order[np.searchsorted(ids, wanted, sorter=order)]

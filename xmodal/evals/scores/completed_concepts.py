"""Captions labeled with the concepts of similar captions of the same split, as CVSE's authors do.

Wang et al., "Consensus-Aware Visual-Semantic Embedding for Image-Text Matching" (ECCV 2020), and
`label_complete` of the authors' code, BruceW91/CVSE. No ground truth is used, but the embedding of
a caption depends on all items of the split.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from xmodal.evals.scores.score_rows import top_items

if TYPE_CHECKING:
    from xmodal.evals.scores.embed import Batch, Items

OWN = "own"
RULES: Mapping[str, tuple[int, int]] = {"completed": (2, 1), "completed_flickr30k": (3, 3)}
"""Numbers of the nearest captions, and of those beside a caption in the list of its best image,
that count if the two sets have fewer than `_BESIDE` in common."""

_NEAREST, _BESIDE = 10, 3
_BLOCK = 1024  # Captions whose scores are computed at a time.
_READ_AT_A_TIME = 1000


class CompletedItems:
    """The items of a split, whose captions come with the token ids of similar captions."""

    def __init__(self, split: "Items", neighbors: np.ndarray) -> None:
        """Tokenizes all captions.

        Args:
          split: items with captions.
          neighbors: positions of the captions that label each caption, int [M, n].
        """
        self._split, self._neighbors = split, neighbors
        length = int(max(split.caption_lengths))
        batches = split.captions(_READ_AT_A_TIME, np.arange(len(neighbors)), length)
        self._ids = np.concatenate([np.asarray(batch["text_ids"]) for batch in batches])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._split, name)

    def captions(self, batch_size: int, rows: np.ndarray, length: int) -> Iterator["Batch"]:
        """See `embed.Items`; adds `text_label_ids` int32 [b, n T]."""
        batches = self._split.captions(batch_size, rows, length)
        for number, batch in enumerate(batches):
            at = rows[number * batch_size : (number + 1) * batch_size]
            labels = self._ids[self._neighbors[at]].reshape(len(at), -1)
            yield {**batch, "text_label_ids": labels}


def find_neighbors(images: np.ndarray, captions: np.ndarray, rule: str) -> np.ndarray:
    """Returns the positions of the captions that label each caption, itself first, int [M, n].

    They are those of the 10 most similar captions that are also among three neighbors in the
    ranking of all captions for the caption's best image: itself and the ones before and after it,
    or the first or last three. If fewer than three remain, see `RULES`; shorter lists are filled
    with the caption itself.

    Args:
      images: fused vectors [N, D], of unit length.
      captions: fused vectors [M, D].
      rule: a key of `RULES`.
    """
    (first, second), nearest, best = RULES[rule], [], []
    for start in range(0, len(captions), _BLOCK):
        block = captions[start : start + _BLOCK]
        best.append(np.argmax(block @ images.T, axis=1))
        scores, rows = block @ captions.T, np.arange(len(block))
        scores[rows, start + rows] = -np.inf
        nearest += [*top_items(scores, min(_NEAREST, len(captions) - 1))]
    beside = _find_beside(images, captions, np.concatenate(best))
    found = np.repeat(np.arange(len(captions))[:, None], 1 + max(_BESIDE, first + second), axis=1)
    for caption, (near, near_image) in enumerate(zip(nearest, beside, strict=True)):
        both = near[np.isin(near, near_image)]
        if len(both) < _BESIDE:
            both = np.concatenate([near[:first], near_image[:second]])
        found[caption, 1 : 1 + len(both)] = both
    return found


def _find_beside(images: np.ndarray, captions: np.ndarray, best: np.ndarray) -> np.ndarray:
    """The captions around each one in the ranking for its best image, int [M, min(3, M)].

    `best`: int [M], the best image of every caption.
    """
    count, beside = len(captions), min(_BESIDE, len(captions))
    found = np.empty((count, beside), np.int64)
    for image in np.unique(best):
        order = np.argsort(-(captions @ images[image]), kind="stable")
        own = np.flatnonzero(best == image)
        at = np.argsort(order)[own]
        begins = np.where(at < count - beside, np.maximum(at - 1, 0), count - beside)
        found[own] = order[begins[:, None] + np.arange(beside)]
    return found

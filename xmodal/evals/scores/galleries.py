"""Puts embeddings and scores in the order of a split."""

from typing import Protocol

import numpy as np

from xmodal.core.errors import UserError
from xmodal.evals.labels.ids import Positions
from xmodal.evals.scores.sources import Candidates, Embeddings, ScoreMatrix


def ids_of(source: Embeddings | ScoreMatrix | Candidates) -> dict[str, np.ndarray]:
    """Returns the ids of a source by kind, "image" and "caption"; a missing kind is left out."""
    ids = {"image": source.image_ids, "caption": source.caption_ids}
    return {kind: each for kind, each in ids.items() if each is not None}


class Ids(Protocol):
    """Items of a split by id: those of `Labels`, or of a prepared dataset."""

    @property
    def image_ids(self) -> np.ndarray:
        """Integers [N]."""

    @property
    def caption_ids(self) -> np.ndarray:
        """Integers [M]."""


def order_embeddings(source: Embeddings, labels: Ids) -> Embeddings:
    """Returns the embeddings in the order of the split; arrays in this order are not copied."""
    return source.take(*find_items(source, labels))


def find_items(
    source: Embeddings | ScoreMatrix, labels: Ids
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Returns the positions in a source of the images and of the captions of the split.

    None for those that are in this order, or that the source does not have.
    """
    found: list[np.ndarray | None] = []
    for kind, ids in (("image", labels.image_ids), ("caption", labels.caption_ids)):
        own = ids_of(source).get(kind)
        at = None if own is None or np.array_equal(own, ids) else Positions(kind, own).find(ids)
        if at is not None and (lacking := at < 0).any():
            raise UserError(
                f"{source.place} lacks {lacking.sum()} of the {len(ids)} {kind}s of the split, the "
                f"first is {kind} id {ids[lacking.argmax()]}: export all of them, with the ids of "
                "the dataset; if they are of another split, name it in `split`; with annotations, "
                "`partial` evaluates those that exist."
            )
        found.append(at)
    return found[0], found[1]

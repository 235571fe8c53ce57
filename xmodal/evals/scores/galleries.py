"""Checks the items of embeddings and scores and puts them in the order of a split."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from xmodal.core.errors import UserError
from xmodal.evals.labels.ids import Positions
from xmodal.evals.labels.types import Labels
from xmodal.evals.scores.sources import Candidates, Embeddings, ScoreMatrix

# Almost all items of another split are unknown; those of an incomplete export are known.
_ANOTHER_SPLIT = 0.1


def check_coverage(
    place: str, ids: Mapping[str, np.ndarray], labels: Labels, *, split: str, partial: bool
) -> dict[str, int]:
    """Returns how many items of a source are not in the split, by kind; they are ignored.

    Args:
      place: names the source in messages.
      ids: "image" and "caption" -> ids; a kind without ids is left out.
      labels: labels of the split.
      split: its name.
      partial: whether some items may be missing.
    """
    extra = {}
    for kind, wanted in (("image", labels.image_ids), ("caption", labels.caption_ids)):
        if kind not in ids:
            continue
        found = Positions(kind, ids[kind]).find(wanted) >= 0
        missing, count = len(wanted) - found.sum(), len(ids[kind])
        if found.mean() < _ANOTHER_SPLIT and not (partial and found.any()):
            raise UserError(
                f"{place} has {found.sum()} of the {len(wanted)} {kind}s of the {split} "
                f"split among its {count}: if it is from another split, name that split in `split`"
                + (", else pass `partial`." if found.any() else ".")
            )
        if missing and not partial:
            raise UserError(
                f"{place} lacks {missing} of the {len(wanted)} {kind}s of the {split} split, "
                f"the first is {kind} id {wanted[found.argmin()]}: export all of them, or pass "
                "`partial` for numbers on those that exist."
            )
        extra[kind] = count - int(found.sum())
    return extra


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
                "the prepared dataset."
            )
        found.append(at)
    return found[0], found[1]

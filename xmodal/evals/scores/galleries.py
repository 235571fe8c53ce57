"""Checks the items of embeddings and scores and puts them in the order of a split."""

import dataclasses
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from xmodal.core.errors import UserError
from xmodal.evals.labels.definitions import KINDS
from xmodal.evals.labels.ids import Positions
from xmodal.evals.labels.types import Labels
from xmodal.evals.scores.score_rows import MatrixScores
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

    Raises:
      UserError: items are missing although they may not be, or no item is in the split.
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


def find_items(place: str, kind: str, ids: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Returns the position, int64 [N], of every item of a split in a source.

    Args:
      place: names the source in messages.
      kind: "image" or "caption".
      ids: ids of the source.
      wanted: ids [N] of the split.

    Raises:
      UserError: the source lacks an item.
    """
    found = Positions(kind, ids).find(wanted)
    if (lacking := found < 0).any():
        raise UserError(
            f"{place} lacks {lacking.sum()} of the {len(wanted)} {kind}s of the split, the first "
            f"is {kind} id {wanted[lacking.argmax()]}: export all of them, with the ids of the "
            "prepared dataset."
        )
    return found


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
    at = _find(source, labels)
    moved = {
        kind: positions
        for kind, positions in at.items()
        if not _is_whole(positions, len(ids_of(source)[kind]))
    }
    if not moved:
        return source

    def move(kind: str, rows: np.ndarray | None) -> np.ndarray | None:
        return rows[moved[kind]] if rows is not None and kind in moved else rows

    return dataclasses.replace(
        source,
        image_ids=move("image", source.image_ids),
        images=move("image", source.images),
        caption_ids=move("caption", source.caption_ids),
        captions=move("caption", source.captions),
        pairs=source.pairs and source.pairs.take(at["image"], at["caption"]),
        predictions={
            task: predictions.take(at.get("image"), at.get("caption"))
            for task, predictions in source.predictions.items()
        },
        log_sigma={
            modality: rows[at[KINDS[modality]]] for modality, rows in source.log_sigma.items()
        },
        tokens=source.take_tokens(
            {modality: at[kind] for modality, kind in KINDS.items() if kind in at}
        ),
    )


def order_scores(source: ScoreMatrix, labels: Ids) -> MatrixScores:
    """Returns the scores in the order of the split; a matrix on disk stays there."""
    at = _find(source, labels)
    sizes = zip(("image", "caption"), source.matrix.shape, strict=True)
    return MatrixScores(
        source.matrix, *(None if _is_whole(at[kind], size) else at[kind] for kind, size in sizes)
    )


def _find(source: Embeddings | ScoreMatrix, labels: Ids) -> dict[str, np.ndarray]:
    """Position in the source of every item of the split, by kind."""
    wanted = {"image": np.asarray(labels.image_ids), "caption": np.asarray(labels.caption_ids)}
    return {
        kind: find_items(source.place, kind, ids, wanted[kind])
        for kind, ids in ids_of(source).items()
    }


def _is_whole(positions: np.ndarray, size: int) -> bool:
    return len(positions) == size and np.array_equal(positions, np.arange(size))

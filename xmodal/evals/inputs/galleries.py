"""From what a user handed over to a split's galleries: the items it must have, in its order."""

import dataclasses
from typing import Any

import numpy as np

from xmodal.config import UserError
from xmodal.evals.boards.positions import Positions
from xmodal.evals.boards.types import Labels
from xmodal.evals.inputs.arrays import SavedEmbeddings, SavedMatrix

# Items of another split are almost all unknown; an incomplete export is mostly known.
_ANOTHER_SPLIT = 0.1


@dataclasses.dataclass(frozen=True)
class Coverage:
    """Which items of one gallery were handed over.

    Attributes:
      kind: "image" or "caption".
      found: bool [N], by position in the split.
      extra: items handed over beyond the split; they play no part.
    """

    kind: str
    found: np.ndarray
    extra: int


def check_coverage(
    saved: SavedEmbeddings | SavedMatrix, labels: Labels, *, split: str, partial: bool
) -> list[Coverage]:
    """Compares the ids handed over with those of the split; a modality left out is not asked.

    Args:
      saved: embeddings or scores.
      labels: of the split.
      split: its name.
      partial: whether some items may be missing.

    Raises:
      UserError: items are missing and may not, or nothing fits.
    """
    coverages = []
    for kind, ids, wanted in _modalities(saved, labels):
        found = Positions(kind, ids).find(wanted) >= 0
        missing = len(wanted) - found.sum()
        if found.mean() < _ANOTHER_SPLIT and not (partial and found.any()):
            raise UserError(
                f"{saved.place} has {found.sum()} of the {len(wanted)} {kind}s of the {split} "
                f"split among its {len(ids)}: if it is of another split, say which by --split"
                + (", else pass --partial." if found.any() else ".")
            )
        if missing and not partial:
            raise UserError(
                f"{saved.place} lacks {missing} of the {len(wanted)} {kind}s of the {split} split, "
                f"the first is {kind} id {wanted[found.argmin()]}: export all of them, or pass "
                "--partial for numbers on what is there."
            )
        coverages.append(Coverage(kind, found, len(ids) - int(found.sum())))
    return coverages


def order_embeddings(
    saved: SavedEmbeddings, labels: Labels
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Embeddings of images and captions in the order of the split: one copy, or none."""
    arrays = {"image": saved.image, "caption": saved.captions}
    for kind, ids, wanted in _modalities(saved, labels):
        arrays[kind] = _take(arrays[kind], Positions(kind, ids)(wanted))
    return arrays["image"], arrays["caption"]


def order_scores(saved: SavedMatrix, labels: Labels) -> "np.ndarray | ReorderedMatrix":
    """Scores in the order of the split; a matrix on disk stays there."""
    rows, columns = (
        Positions(kind, ids)(wanted) for kind, ids, wanted in _modalities(saved, labels)
    )
    if _is_whole(rows, saved.matrix.shape[0]) and _is_whole(columns, saved.matrix.shape[1]):
        return saved.matrix
    return ReorderedMatrix(saved.matrix, rows, columns)


class ReorderedMatrix:
    """A matrix with rows and columns in another order, read where it is looked at.

    Attributes:
      shape: [N, M].
      dtype: of the numbers.
    """

    ndim = 2

    def __init__(self, matrix: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> None:
        self._matrix, self._rows, self._columns = matrix, rows, columns
        self.shape = len(rows), len(columns)
        self.dtype = matrix.dtype

    def __getitem__(self, at: tuple[Any, Any]) -> np.ndarray:
        """Numbers at two slices, or at two arrays of positions, one pair per number."""
        rows, columns = self._rows[at[0]], self._columns[at[1]]
        if isinstance(at[0], slice):
            return self._matrix[rows[:, None], columns]
        return self._matrix[rows, columns]

    @property
    def T(self) -> "ReorderedMatrix":
        """The transpose."""
        return ReorderedMatrix(self._matrix.T, self._columns, self._rows)


def _modalities(
    saved: SavedEmbeddings | SavedMatrix, labels: Labels
) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """(kind, ids handed over, ids of the split) of every modality that was handed over."""
    modalities = (
        ("image", saved.image_ids, np.asarray(labels.image_ids)),
        ("caption", saved.caption_ids, np.asarray(labels.caption_ids)),
    )
    return [modality for modality in modalities if modality[1] is not None]


def _take(array: np.ndarray, positions: np.ndarray) -> np.ndarray:
    return array if _is_whole(positions, len(array)) else array[positions]


def _is_whole(positions: np.ndarray, size: int) -> bool:
    return len(positions) == size and np.array_equal(positions, np.arange(size))

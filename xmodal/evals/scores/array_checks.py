"""Checks ids and numbers of arrays that other models made."""

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from xmodal.core.errors import UserError

_ROWS_AT_A_TIME = 1024  # Of a matrix that may be on disk.
_SMALLEST_SCORE = float(np.finfo(np.float64).tiny)
_SMALLEST_FLOAT = float(np.finfo(np.float32).tiny)
# Rounding of embeddings to float32 may change them by this part of their largest number.
_ROUNDING = 1e-5
LARGEST_ID = int(np.iinfo(np.int64).max)


def to_numpy(array: Any) -> np.ndarray:
    """Returns an array of any library, or a list of such arrays or of numbers, as a NumPy array.

    Raises:
      TypeError, ValueError, RuntimeError: of NumPy or of PyTorch, it cannot be one, or values are
        masked.
    """
    if isinstance(array, list | tuple | np.ma.MaskedArray):
        for row, each in enumerate(array):
            if np.ma.is_masked(each):
                raise ValueError(f"row {row} has masked values; fill them, or leave the items out")
    # PyTorch tensors may have gradients, be on a GPU, or be of a type that NumPy lacks.
    if hasattr(array, "detach"):
        array = array.detach().cpu()
        is_known = hasattr(np, str(array.dtype).removeprefix("torch."))
        array = array if is_known else array.float()
    elif isinstance(array, list | tuple):
        firsts = (each[0] if isinstance(each, list | tuple) and each else each for each in array)
        if not all(isinstance(each, int | float) for each in firsts):  # NumPy itself is faster.
            array = [to_numpy(each) for each in array]
    return np.asarray(array)


def find_wrong_id(ids: np.ndarray) -> str:
    """Returns the first of ids [N] that is not an integer of int64, with its row; "" if all are."""
    if ids.ndim != 1:
        return f"their shape is {list(ids.shape)}, not [N]"
    if np.issubdtype(ids.dtype, np.signedinteger):
        return ""
    for row, each in enumerate(ids.tolist()):
        if type(each) is not int or abs(each) > LARGEST_ID:
            return f"row {row} holds {each!r} ({ids.dtype})"
    return ""


def check_ids(ids: np.ndarray, place: str, name: str) -> np.ndarray:
    """Returns ids as int64 [N].

    Raises:
      UserError: they are not integers of int64, or one occurs twice.
    """
    if wrong := find_wrong_id(ids):
        raise UserError(f"{name} in {place}: {wrong}; ids are integers of int64, one per item.")
    if not len(ids):
        raise UserError(f"{name} in {place} are empty; leave out a modality that has no items.")
    unique, counts = np.unique(ids, return_counts=True)
    if len(unique) < len(ids):
        raise UserError(
            f"{name} in {place}: id {unique[counts > 1][0]} occurs twice, one of "
            f"{np.sum(counts > 1)} such ids; keep one row per item."
        )
    return ids.astype(np.int64)


def check_embeddings(
    array: np.ndarray, ids: np.ndarray, place: str, ids_name: str, name: str
) -> np.ndarray:
    """Returns embeddings as float32, or float64 if they are, one row for each of `ids`.

    Raises:
      UserError: their shape or type is wrong, or a value is not finite.
    """
    if array.dtype == np.dtype("V2"):
        array = array.view(ml_dtypes.bfloat16)  # npz files do not store its name.
    if array.dtype != ml_dtypes.bfloat16 and not np.issubdtype(array.dtype, np.floating):
        raise UserError(f"{name} in {place} are {array.dtype}; save them as floats.")
    if array.ndim not in (2, 3) or 0 in array.shape[1:]:
        raise UserError(
            f"{name} in {place} have shape {list(array.shape)}; embeddings are [N, D], or "
            "[N, K, D] with K per item."
        )
    if len(array) != len(ids):
        raise UserError(
            f"{place} has {len(array)} rows of {name} and {len(ids)} {ids_name}; every row needs "
            "its id."
        )
    with np.errstate(over="ignore"):
        broken = np.concatenate(
            [~np.isfinite(rows.astype(np.float32)).all(axis=-1) for rows in _blocks(array)]
        )
    broken = broken.reshape(len(ids), -1).any(axis=1)
    if broken.any():
        raise UserError(
            f"{name} in {place}: {broken.sum()} of {len(ids)} rows hold NaN or infinity in "
            f"float32, the first is id {ids[broken.argmax()]}; fix the model or leave these "
            "rows out."
        )
    return np.ascontiguousarray(array, np.float64 if array.dtype.itemsize >= 8 else np.float32)


def refuse_tiny(given: np.ndarray, ids: np.ndarray, place: str, name: str) -> None:
    """Raises an error if embeddings are so small that float32 would round them to zero.

    Args:
      given: floats [N, ...], finite in float32.
      ids: ids of the rows, or their numbers.
      place: names the file.
      name: name of the array.

    Raises:
      UserError: names the first such row.
    """
    if given.dtype.kind != "f":  # bfloat16 is exact in float32.
        return
    for start, rows in zip(range(0, len(given), _ROWS_AT_A_TIME), _blocks(given), strict=True):
        largest = np.abs(rows.astype(np.float64)).reshape(len(rows), -1).max(axis=1)
        lost = (largest > 0) & (largest < _SMALLEST_FLOAT / _ROUNDING)
        if lost.any():
            row = int(lost.argmax())
            raise UserError(
                f"{name} in {place}: the row of id {ids[start + row]} holds numbers up to "
                f"{largest[row]:.0e}, which float32 rounds to zero, so items would tie. "
                "Multiply all embeddings by one number."
            )


def check_scores(
    matrix: np.ndarray, image_ids: np.ndarray, caption_ids: np.ndarray, place: str
) -> None:
    """Raises an error if scores do not fit their ids, or could not be ranked.

    Raises:
      UserError: names the first score and its pair.
    """
    if not np.issubdtype(matrix.dtype, np.floating):
        raise UserError(
            f"The scores in {place} are {matrix.dtype}; save them as float32 or float64."
        )
    if matrix.dtype.itemsize > 8:
        raise UserError(f"The scores in {place} are {matrix.dtype}; save them as float64.")
    if matrix.shape != (len(image_ids), len(caption_ids)):
        turned = matrix.shape == (len(caption_ids), len(image_ids))
        raise UserError(
            f"The scores in {place} are {list(matrix.shape)} for {len(image_ids)} image_ids and "
            f"{len(caption_ids)} caption_ids; rows are images and columns captions"
            + (", so save the transpose." if turned else ".")
        )
    row = 0
    for rows in _blocks(matrix):
        # Smaller numbers would become zero, and tie.
        fits = np.isfinite(rows) & ((rows == 0) | (np.abs(rows) >= _SMALLEST_SCORE))
        if not fits.all():
            image, caption = np.argwhere(~fits)[0]
            raise UserError(
                f"The score of image {image_ids[row + image]} with caption "
                f"{caption_ids[caption]} in {place} is {rows[image, caption]}; scores must be "
                f"finite, and 0 or at least {_SMALLEST_SCORE:.0e}: save logits or logarithms."
            )
        row += len(rows)


def check_numbers(part: np.ndarray, what: str) -> None:
    """Raises an error if an array [N, C] is not one of finite numbers.

    Raises:
      UserError: `what` names the array.
    """
    if part.dtype != ml_dtypes.bfloat16 and part.dtype.kind not in "fiu":
        raise UserError(f"{what} are {part.dtype}, not numbers; save logits as floats.")
    with np.errstate(over="ignore"):
        finite = np.isfinite(part.astype(np.float32))
    if not finite.all():
        row = int(np.argwhere(~finite)[0][0])
        raise UserError(
            f"{what}: row {row} holds {part[~finite][0]}; the logits must be finite in float32."
        )


def _blocks(matrix: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, len(matrix), _ROWS_AT_A_TIME):
        yield matrix[start : start + _ROWS_AT_A_TIME]

"""Reads and writes the arrays of any model: embeddings, scores and candidates, in npz or npy files.

Ids are the dataset's own (COCO's caption and image ids); `galleries` puts the arrays in the order
of a split's labels.
"""

import io
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import ml_dtypes
import numpy as np
from etils import epath

from xmodal.core.errors import UserError
from xmodal.core.files import check_writable, write_file
from xmodal.core.untrusted.saved_arrays import DAMAGE, load_arrays
from xmodal.evals.labels.definitions import KINDS
from xmodal.evals.scores.galleries import ids_of
from xmodal.evals.scores.score_rows import count_not_finite
from xmodal.evals.scores.sources import LARGEST_SCORE, Candidates, Embeddings, ScoreMatrix
from xmodal.similarity import LATE_INTERACTIONS

DIRECTIONS = ("i2t", "t2i")
# Scalars that a similarity may need: scale and shift of PCME's match probability.
_NUMBERS = ("match_scale", "match_shift")
_ROWS_AT_A_TIME = 1024  # The matrix may be on disk.


def place_of(source: str | os.PathLike | Mapping) -> str:
    """Returns the name of a source in messages, its path."""
    return "<arrays>" if isinstance(source, Mapping) else os.fspath(source)


def read_file(place: str, read: Callable[[str], Any]) -> Any:
    """Returns what a function reads from a file, whose name is added to its errors."""
    try:
        return read(place)
    except FileNotFoundError as error:
        raise UserError(f"There is no file {place!r}.") from error
    except DAMAGE as error:
        raise UserError(
            f"{place} cannot be read ({first_line(error)}): write the file again, or pass arrays "
            "that NumPy can read."
        ) from error


def first_line(error: Exception) -> str:
    """Returns the first line of an error, without the long details that some libraries add."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


def to_numpy(array: Any) -> np.ndarray:
    """Returns an array of any library, or a list of such arrays or of numbers, as a NumPy array.

    Raises:
      TypeError, ValueError, RuntimeError: of NumPy or of PyTorch, it cannot be one, or values are
        masked.
    """
    # PyTorch tensors may have gradients, be on a GPU, or be of a type that NumPy lacks.
    if hasattr(array, "detach"):
        array = array.detach().cpu()
        is_known = hasattr(np, str(array.dtype).removeprefix("torch."))
        return np.asarray(array if is_known else array.float())
    if isinstance(array, list | tuple) and not all(isinstance(x, int | float) for x in array):
        return np.asarray([to_numpy(each) for each in array])
    if np.ma.is_masked(array):
        raise ValueError("it has masked values; fill them, or leave the items out")
    return np.asarray(array)


def _open_archive(path: str) -> Any:
    found = load_arrays(path)
    if isinstance(found, np.ndarray):
        raise ValueError("it is one array without a name")
    return found


class NamedArrays(Mapping[str, np.ndarray]):
    """The arrays of a file or a mapping by name, read when they are asked for.

    Attributes:
      place: names the source in messages.
    """

    def __init__(self, source: str | os.PathLike | Mapping) -> None:
        """Opens an npz file, or takes its arrays."""
        self.place = place_of(source)
        is_file = not isinstance(source, Mapping)
        self._source: Any = read_file(self.place, _open_archive) if is_file else source

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._source:
            raise UserError(f"{self.place} has no {name!r}; it holds {sorted(self)}.")
        return read_file(self.place, lambda _: to_numpy(self._source[name]))

    def __contains__(self, name: object) -> bool:
        return name in self._source

    def __iter__(self) -> Iterator[str]:
        return iter(self._source)

    def __len__(self) -> int:
        return len(self._source)

    def ids(self, name: str) -> np.ndarray:
        """Returns distinct ids, int64 [N]."""
        ids = self[name]
        if ids.ndim != 1 or ids.dtype.kind not in "iu" or not 0 < len(ids) == len(np.unique(ids)):
            raise UserError(
                f"{name} in {self.place} are {ids.dtype} {list(ids.shape)} with "
                f"{len(np.unique(ids))} different values; ids are integers, one per item, and "
                "none occurs twice."
            )
        return ids.astype(np.int64)

    def vectors(self, name: str, count: int, most: int = 3) -> np.ndarray:
        """Returns floats [N, D], or [N, K, D] if `most` is 3: float32, or float64 if they are."""
        array = self[name]
        if array.dtype == np.dtype("V2"):
            array = array.view(ml_dtypes.bfloat16)  # npz files do not store its name.
        is_float = array.dtype == ml_dtypes.bfloat16 or np.issubdtype(array.dtype, np.floating)
        fits = is_float and 2 <= array.ndim <= most and array.size and len(array) == count
        bad = 0
        if fits:
            dtype = np.float64 if array.dtype.itemsize >= 8 else np.float32
            array = np.ascontiguousarray(array, dtype)
            with np.errstate(over="ignore"):
                bad = count_not_finite(array.astype(np.float32, copy=False))
        if not fits or bad:
            rows = f", with numbers that are not finite in float32 in {bad} rows" if bad else ""
            raise UserError(
                f"{name} in {self.place} are {array.dtype} {list(array.shape)} for {count} items"
                f"{rows}; save finite floats [N, D]"
                f"{', or [N, K, D] with K per item' if most == 3 else ''}."
            )
        return array


def load_embeddings(source: str | os.PathLike | Mapping[str, np.ndarray]) -> Embeddings:
    """Reads `image_ids` [N], `image_embeddings` [N, D] or [N, K, D], and the same for captions.

    Args:
      source: npz file, or its arrays in a mapping. Embeddings of any float type are read,
        bfloat16 included. `similarity` (a name), `match_scale` and `match_shift` (numbers)
        are optional, and so are `image_log_sigma` [N, D] and `caption_log_sigma` [M, D].
    """
    arrays = NamedArrays(source)
    ids, vectors, log_sigma = {}, {}, {}
    for modality, kind in KINDS.items():
        names = f"{kind}_ids", f"{kind}_embeddings"
        if not {*names} & {*arrays}:
            continue
        ids[modality] = arrays.ids(names[0])
        count = len(ids[modality])
        vectors[modality] = arrays.vectors(names[1], count)
        if (spread := f"{kind}_log_sigma") in arrays:
            log_sigma[modality] = arrays.vectors(spread, count, most=2)
    if not ids:
        raise UserError(
            f"{arrays.place} holds {sorted(arrays)}, none of which is known; embeddings are "
            "expected under 'image_ids', 'image_embeddings', 'caption_ids', 'caption_embeddings'."
        )
    if len({each.shape[-1] for each in vectors.values()}) > 1:
        raise UserError(
            f"{arrays.place}: images have {vectors['image'].shape[-1]} dimensions and captions "
            f"{vectors['text'].shape[-1]}; both must come from one joint space."
        )
    return Embeddings(
        arrays.place, ids.get("image"), vectors.get("image"), ids.get("text"), vectors.get("text"),
        str(arrays["similarity"].item()) if "similarity" in arrays else "",
        {name: float(arrays[name].item()) for name in _NUMBERS if name in arrays},
        log_sigma=log_sigma,
    )  # fmt: skip


def load_scores(
    source: str | os.PathLike | Mapping[str, np.ndarray],
    ids: str | os.PathLike | Mapping[str, np.ndarray] | None = None,
) -> ScoreMatrix | Candidates:
    """Reads a matrix of scores, images by captions, or the scores of every query's candidates.

    Args:
      source: npy file [N, M], which is memory-mapped; or an npz file (or mapping) with `scores`,
        `image_ids` and `caption_ids`; or, instead of `scores`, with `i2t_candidates` and
        `i2t_scores` [N, K], ids of captions and their scores, a row per image, and
        `t2i_candidates` and `t2i_scores` [M, K], a row per caption, or only one direction, and
        optionally `score_definition`, a string.
      ids: npz file (or mapping) with `image_ids` and `caption_ids`, if they are not in `source`.
    """
    place = place_of(source)
    if place.endswith(".npy") != (ids is not None):
        raise UserError(
            f"{place} has {'its own ids' if ids is not None else 'no ids'}: `ids` names the npz "
            "file with the image_ids (rows) and caption_ids (columns) of a bare matrix, .npy."
        )
    arrays = NamedArrays(source if ids is None else ids)
    own = arrays.ids("image_ids"), arrays.ids("caption_ids")
    if ids is not None:
        matrix = read_file(place, lambda path: np.lib.format.open_memmap(path, mode="r"))
    elif any(f"{direction}_candidates" in arrays for direction in DIRECTIONS):
        return _read_candidates(arrays, *own)
    else:
        matrix = arrays["scores"]
    wanted = len(own[0]), len(own[1])
    fits = matrix.dtype.kind == "f" and matrix.dtype.itemsize <= 8 and matrix.shape == wanted
    starts = range(0, len(matrix) if fits else 0, _ROWS_AT_A_TIME)
    bad = sum(count_not_finite(matrix[start : start + _ROWS_AT_A_TIME]) for start in starts)
    if not fits or bad:
        raise UserError(
            f"The scores in {place} are {matrix.dtype} {list(matrix.shape)} for {wanted[0]} "
            f"image_ids and {wanted[1]} caption_ids, not finite for {bad} images; save finite "
            "float32 or float64, with a row per image and a column per caption."
        )
    return ScoreMatrix(place, *own, matrix)


def _read_candidates(arrays: NamedArrays, images: np.ndarray, captions: np.ndarray) -> Candidates:
    """The candidates of images and captions with these ids."""
    directions = {}
    for direction, queries in zip(DIRECTIONS, (images, captions), strict=True):
        if (name := f"{direction}_candidates") not in arrays:
            continue
        items, scores = arrays[name], arrays[f"{direction}_scores"]
        if (
            (items.dtype.kind not in "iu" or scores.dtype.kind != "f" or not items.size)
            or (items.ndim != 2 or items.shape != scores.shape or len(items) != len(queries))
            or (np.diff(np.sort(items, axis=1), axis=1) == 0).any()
            or not (np.abs(scores) < LARGEST_SCORE).all()
        ):
            raise UserError(
                f"{name} in {arrays.place} are {items.dtype} {list(items.shape)} and their scores "
                f"{scores.dtype} {list(scores.shape)} for {len(queries)} queries; save integer ids "
                f"[Q, K], no item twice in a row, and finite float scores below {LARGEST_SCORE:,}. "
                "Leave out items that were not scored."
            )
        directions[direction] = items.astype(np.int64), scores
    key = "score_definition"
    definition = str(arrays[key].item()) if key in arrays else "the scores of a file"
    return Candidates(arrays.place, images, captions, directions, definition)


def save_embeddings(path: str | os.PathLike, embeddings: Embeddings) -> None:
    """Writes the file that `load_embeddings` reads."""
    if embeddings.similarity in LATE_INTERACTIONS:
        raise UserError(
            f"{embeddings.place} ranks token sets by {embeddings.similarity!r}, and a file has "
            "only vectors: use --save_scores, which writes the scores of all pairs."
        )
    found = {"similarity": np.array(embeddings.similarity)}
    found |= {f"{kind}_ids": ids for kind, ids in ids_of(embeddings).items()}
    found |= {f"{KINDS[name]}_embeddings": x for name, x in embeddings.by_modality.items()}
    found |= {f"{KINDS[name]}_log_sigma": x for name, x in embeddings.log_sigma.items()}
    _save(path, found | {name: np.float32(x) for name, x in embeddings.parameters.items()})


def save_scores(path: str | os.PathLike, found: Candidates | ScoreMatrix) -> None:
    """Writes the file that `load_scores` reads."""
    saved: dict[str, Any] = {"image_ids": found.image_ids, "caption_ids": found.caption_ids}
    if isinstance(found, ScoreMatrix):
        saved["scores"] = found.matrix
    else:
        saved["score_definition"] = np.array(found.definition)
        for direction, (items, scores) in found.directions.items():
            saved |= {f"{direction}_candidates": items, f"{direction}_scores": scores}
    _save(path, saved)


def check_savable(path: str | os.PathLike) -> None:
    """Raises an error if a name does not end in .npz, or its folder is not writable."""
    place = epath.Path(path)
    if place.suffix != ".npz":
        raise UserError(f"Arrays are saved as npz: {path} must end in .npz.")
    check_writable(place.parent)


def _save(path: str | os.PathLike, saved: Mapping[str, Any]) -> None:
    check_savable(path)
    buffer = io.BytesIO()
    np.savez(buffer, **saved)
    write_file(path, buffer.getvalue())

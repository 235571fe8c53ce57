"""Reads and writes the arrays of any model: embeddings, scores and candidates, in npz or npy files.

Ids are the dataset's own (COCO's caption and image ids); `galleries` puts the arrays in the order
of a split's labels.
"""

import io
import json
import os
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import ml_dtypes
import numpy as np
from etils import epath

from xmodal.core.errors import UserError
from xmodal.core.result_files import check_writable, write_file
from xmodal.core.untrusted.json_text import parse_json_text
from xmodal.core.untrusted.saved_arrays import DAMAGE, load_arrays
from xmodal.evals.labels.definitions import KINDS
from xmodal.evals.scores.score_rows import count_not_finite
from xmodal.evals.scores.sources import (
    LARGEST_SCORE,
    Candidates,
    Embeddings,
    FileOrigin,
    ScoreMatrix,
)
from xmodal.similarity import LATE_INTERACTIONS

SIMILARITY, DEFINITION, ORIGIN = "similarity", "score_definition", "xmodal_origin"
# Scalars that a similarity may need: scale and shift of PCME's match probability.
_NUMBERS = ("match_scale", "match_shift")
# Other arrays of a file may be anything and are not read.
_KNOWN = re.compile(
    r"(image|caption)_(ids|embeddings|log_sigma)|(i2t|t2i)_(candidates|scores)|scores"
    r"|score_definition|similarity|match_scale|match_shift|xmodal_origin"
)
_ROWS_AT_A_TIME = 1024  # Of a matrix that may be on disk.

Arrays = Mapping[str, np.ndarray]
Content = TypeVar("Content")


def place_of(source: object, name: str) -> str:
    """Returns the name of a source in messages, its path; `name` is the argument's name."""
    if isinstance(source, Mapping):
        return "<arrays>"
    if not isinstance(source, str | os.PathLike):
        raise UserError(
            f"{name} are given as {type(source).__name__}; pass the path of a file, or a mapping "
            "from the names in such a file to their arrays or lists."
        )
    return os.fspath(source)


def read_file(place: str, read: Callable[[str], Content]) -> Content:
    """Returns what a function reads from a file, whose name is added to its errors."""
    try:
        return read(place)
    except FileNotFoundError as error:
        raise UserError(f"There is no file {place!r}.") from error
    except DAMAGE as error:
        raise UserError(
            f"{place} cannot be read ({first_line(error)}): write the file again, arrays with "
            "numpy.savez or numpy.save."
        ) from error


def open_arrays(source: str | os.PathLike | Mapping, name: str) -> tuple[str, Arrays]:
    """Returns the place of some arrays for messages, and the known arrays by name."""
    place = place_of(source, name)
    if isinstance(source, Mapping):
        return place, {key: _as_array(key, array, place) for key, array in source.items()}
    return place, read_file(place, _read_npz)


def _read_npz(path: str) -> Arrays:
    with load_arrays(path) as file:
        return {key: file[key] if _KNOWN.fullmatch(key) else np.zeros(0) for key in file.files}


def first_line(error: Exception) -> str:
    """Returns the first line of an error, without the long details that some libraries add."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


def to_numpy(array: Any) -> np.ndarray:
    """Returns an array of any library, or a list of such arrays or of numbers, as a NumPy array.

    Raises:
      TypeError, ValueError, RuntimeError: of NumPy or of PyTorch, it cannot be one, or values are
        masked.
    """
    if np.ma.is_masked(array):
        raise ValueError("it has masked values; fill them, or leave the items out")
    # PyTorch tensors may have gradients, be on a GPU, or be of a type that NumPy lacks.
    if hasattr(array, "detach"):
        array = array.detach().cpu()
        is_known = hasattr(np, str(array.dtype).removeprefix("torch."))
        return np.asarray(array if is_known else array.float())
    if isinstance(array, list | tuple) and not all(isinstance(x, int | float) for x in array):
        return np.asarray([to_numpy(each) for each in array])
    return np.asarray(array)


def _as_array(key: str, array: Any, place: str) -> np.ndarray:
    try:
        return to_numpy(array)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UserError(f"{key} in {place} are not a NumPy array: {first_line(error)}.") from error


def load_embeddings(source: str | os.PathLike | Mapping[str, np.ndarray]) -> Embeddings:
    """Reads `image_ids` [N], `image_embeddings` [N, D] or [N, K, D], and the same for captions.

    Args:
      source: npz file, or its arrays in a mapping. Embeddings of any float type are read,
        bfloat16 included. `similarity` (a name), `match_scale` and `match_shift` (numbers)
        are optional, and so are `image_log_sigma` [N, D] and `caption_log_sigma` [M, D].
    """
    return read_embeddings(*open_arrays(source, "embeddings"))


def read_embeddings(place: str, arrays: Arrays) -> Embeddings:
    """Returns the embeddings in arrays of a place, see `load_embeddings`."""
    ids, vectors, log_sigma = {}, {}, {}
    for modality, kind in KINDS.items():
        names = f"{kind}_ids", f"{kind}_embeddings"
        if arrays.keys().isdisjoint(names):
            continue
        ids[modality] = _read_ids(arrays, names[0], place)
        count = len(ids[modality])
        vectors[modality] = read_vectors(arrays, names[1], place, count)
        if (spread := f"{kind}_log_sigma") in arrays:
            log_sigma[modality] = read_vectors(arrays, spread, place, count, most=2)
    if not ids:
        raise UserError(
            f"{place} holds {sorted(arrays)}, none of which is known; embeddings are expected "
            "under 'image_ids', 'image_embeddings', 'caption_ids', 'caption_embeddings'."
        )
    if len({each.shape[-1] for each in vectors.values()}) > 1:
        raise UserError(
            f"{place}: images have {vectors['image'].shape[-1]} dimensions and captions "
            f"{vectors['text'].shape[-1]}; both must come from one joint space."
        )
    parameters = {
        name: _read_value(arrays, name, place, float) for name in _NUMBERS if name in arrays
    }
    return Embeddings(
        place, ids.get("image"), vectors.get("image"), ids.get("text"), vectors.get("text"),
        read_text(arrays, SIMILARITY, place), parameters,
        log_sigma=log_sigma, origin=_read_origin(arrays, place),
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
    place, matrix = place_of(source, "scores"), None
    if place.endswith(".npy") != (ids is not None):
        raise UserError(
            f"{place} has {'its own ids' if ids is not None else 'no ids'}: `ids` names the npz "
            "file with the image_ids (rows) and caption_ids (columns) of a bare matrix, .npy."
        )
    if ids is not None:
        matrix = read_file(place, lambda path: np.lib.format.open_memmap(path, mode="r"))
    ids_place, arrays = open_arrays(source if ids is None else ids, "scores")
    modalities = [_read_ids(arrays, name, ids_place) for name in ("image_ids", "caption_ids")]
    origin = _read_origin(arrays, place)
    if matrix is None and has_candidates(arrays):
        return _read_candidates(arrays, place, modalities, origin)
    matrix = _require(arrays, "scores", place) if matrix is None else matrix
    wanted = len(modalities[0]), len(modalities[1])
    if matrix.dtype.kind != "f" or matrix.dtype.itemsize > 8 or matrix.shape != wanted:
        raise UserError(
            f"The scores in {place} are {matrix.dtype} {list(matrix.shape)} for {wanted[0]} "
            f"image_ids and {wanted[1]} caption_ids; save float32 or float64, with a row per image "
            f"and a column per caption."
        )
    parts = range(0, len(matrix), _ROWS_AT_A_TIME)
    if bad := sum(count_not_finite(matrix[start : start + _ROWS_AT_A_TIME]) for start in parts):
        raise UserError(
            f"The scores of {bad} images in {place} are not finite; save finite scores."
        )
    return ScoreMatrix(place, modalities[0], modalities[1], matrix, origin)


def has_candidates(names: Collection[str]) -> bool:
    """Returns whether arrays of these names hold candidates of a direction."""
    return any(f"{direction}_candidates" in names for direction in ("i2t", "t2i"))


def _read_candidates(
    arrays: Arrays, place: str, modalities: list[np.ndarray], origin: FileOrigin | None
) -> Candidates:
    directions = {}
    for direction, queries in zip(("i2t", "t2i"), modalities, strict=True):
        if (name := f"{direction}_candidates") not in arrays:
            continue
        items, scores = arrays[name], _require(arrays, f"{direction}_scores", place)
        if (
            (items.dtype.kind not in "iu" or scores.dtype.kind != "f" or not items.size)
            or (items.ndim != 2 or items.shape != scores.shape or len(items) != len(queries))
            or (np.diff(np.sort(items, axis=1), axis=1) == 0).any()
            or not (np.abs(scores) < LARGEST_SCORE).all()
        ):
            raise UserError(
                f"{name} in {place} are {items.dtype} {list(items.shape)} and their scores "
                f"{scores.dtype} {list(scores.shape)} for {len(queries)} queries; save integer ids "
                f"[Q, K], no item twice in a row, and finite float scores below {LARGEST_SCORE:,}. "
                "Leave out items that were not scored."
            )
        directions[direction] = items.astype(np.int64), scores
    definition = read_text(arrays, DEFINITION, place) or "the scores of a file"
    return Candidates(place, modalities[0], modalities[1], directions, definition, origin)


def _require(arrays: Arrays, name: str, place: str) -> np.ndarray:
    if name not in arrays:
        raise UserError(f"{place} has no {name!r}; it holds {sorted(arrays)}.")
    return arrays[name]


def _read_ids(arrays: Arrays, name: str, place: str) -> np.ndarray:
    """Distinct ids as int64 [N]."""
    ids = _require(arrays, name, place)
    if ids.ndim != 1 or ids.dtype.kind not in "iu" or not 0 < len(ids) == len(np.unique(ids)):
        raise UserError(
            f"{name} in {place} are {ids.dtype} {list(ids.shape)} with {len(np.unique(ids))} "
            "different values; ids are integers, one per item, and none occurs twice."
        )
    return ids.astype(np.int64)


def read_vectors(arrays: Arrays, name: str, place: str, count: int, most: int = 3) -> np.ndarray:
    """Returns floats [N, D], or [N, K, D] if `most` is 3, as float32, or float64 if they are."""
    array = _require(arrays, name, place)
    if array.dtype == np.dtype("V2"):
        array = array.view(ml_dtypes.bfloat16)  # npz files do not store its name.
    is_float = array.dtype == ml_dtypes.bfloat16 or np.issubdtype(array.dtype, np.floating)
    shapes = "[N, D]" if most == 2 else "[N, D], or [N, K, D] with K per item"
    if not is_float or not 2 <= array.ndim <= most or 0 in array.shape or len(array) != count:
        raise UserError(
            f"{name} in {place} are {array.dtype} {list(array.shape)} for {count} items; save "
            f"finite floats {shapes}."
        )
    found = np.ascontiguousarray(array, np.float64 if array.dtype.itemsize >= 8 else np.float32)
    with np.errstate(over="ignore"):
        if bad := count_not_finite(found.astype(np.float32, copy=False)):
            raise UserError(
                f"{name} in {place} are not finite in float32 in {bad} of {count} rows; save "
                f"finite floats {shapes}."
            )
    return found


def _read_value(arrays: Arrays, name: str, place: str, make: Callable[[Any], Any]) -> Any:
    """One number or string of some arrays, as `make` reads it, which raises an error for others."""
    array = _require(arrays, name, place)
    try:
        return make(array.item())
    except (TypeError, ValueError) as error:
        raise UserError(
            f"{name} in {place} is {array.tolist()!r:.80}, which cannot be read "
            f"({first_line(error)}); save one value."
        ) from error


def read_text(arrays: Arrays, name: str, place: str) -> str:
    """Returns a string among some arrays; "" if there is none."""
    return _read_value(arrays, name, place, str) if name in arrays else ""


def _read_origin(arrays: Arrays, place: str) -> FileOrigin | None:
    """The origin in some arrays; None for those of other programs."""
    if ORIGIN not in arrays:
        return None
    return _read_value(arrays, ORIGIN, place, lambda x: FileOrigin(**parse_json_text(x)))


def _read_one(path: str, name: str) -> dict[str, np.ndarray]:
    """One array of an npz file by name; {} without it, or if the file cannot be read."""
    try:
        with epath.Path(path).open("rb") as file, load_arrays(file) as arrays:
            return {name: arrays[name]}
    except DAMAGE:
        return {}


def check_origin(path: str, place: str, records: Mapping[str, str]) -> None:
    """Raises an error if a file was saved on other records, see `FileOrigin.check`."""
    if (origin := _read_origin(_read_one(path, ORIGIN), place)) is not None:
        origin.check(place, records)


def named_similarity(path: str) -> str:
    """Returns the similarity that an npz file of embeddings names; "" if it names none."""
    return str(_read_one(path, SIMILARITY).get(SIMILARITY, ""))


def save_embeddings(path: str | os.PathLike, embeddings: Embeddings) -> None:
    """Writes the file that `load_embeddings` reads.

    Raises:
      UserError: the model ranks by the tokens of its items, which no file has.
    """
    if embeddings.similarity in LATE_INTERACTIONS:
        raise UserError(
            f"{embeddings.place} ranks token sets by {embeddings.similarity!r}, and a file has "
            "only vectors: use --save_scores, which writes the scores of all pairs."
        )
    found: dict[str, Any] = {SIMILARITY: np.array(embeddings.similarity)}
    ids = {"image": embeddings.image_ids, "text": embeddings.caption_ids}
    for modality, vectors in embeddings.by_modality.items():
        found |= {f"{KINDS[modality]}_ids": ids[modality], f"{KINDS[modality]}_embeddings": vectors}
    found |= {f"{KINDS[modality]}_log_sigma": x for modality, x in embeddings.log_sigma.items()}
    found |= {name: np.float32(x) for name, x in embeddings.parameters.items()}
    _save(path, found, embeddings.origin)


def save_scores(path: str | os.PathLike, found: Candidates | ScoreMatrix) -> None:
    """Writes the file that `load_scores` reads."""
    saved: dict[str, Any] = {"image_ids": found.image_ids, "caption_ids": found.caption_ids}
    if isinstance(found, ScoreMatrix):
        saved["scores"] = found.matrix
    else:
        saved[DEFINITION] = np.array(found.definition)
        for direction, (items, scores) in found.directions.items():
            saved |= {f"{direction}_candidates": items, f"{direction}_scores": scores}
    _save(path, saved, found.origin)


def check_savable(path: str | os.PathLike) -> None:
    """Raises an error if a name does not end in .npz, or its folder is not writable."""
    place = epath.Path(path)
    if place.suffix != ".npz":
        raise UserError(f"Arrays are saved as npz: {path} must end in .npz.")
    check_writable(place.parent)


def _save(path: str | os.PathLike, saved: Mapping[str, Any], origin: FileOrigin | None) -> None:
    check_savable(path)
    if origin is not None:
        fields = {"model": origin.model, "records": dict(origin.records)}
        saved = {**saved, ORIGIN: np.array(json.dumps(fields))}
    buffer = io.BytesIO()
    np.savez(buffer, **saved)
    write_file(path, buffer.getvalue())

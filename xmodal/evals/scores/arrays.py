"""Reads and checks embeddings and score matrices of any model.

Ids are the dataset's own (COCO's caption and image ids); `galleries` puts the arrays in the order
of a split's labels.
"""

import dataclasses
import io
import os
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
from etils import epath

from xmodal.core.errors import UserError
from xmodal.core.result_files import check_writable, write_file
from xmodal.core.untrusted.saved_arrays import DAMAGE, load_arrays
from xmodal.evals.scores.array_checks import (
    check_embeddings,
    check_ids,
    check_numbers,
    check_scores,
    refuse_tiny,
    to_numpy,
)
from xmodal.evals.scores.candidate_arrays import ARRAYS as CANDIDATES
from xmodal.evals.scores.candidate_arrays import has_candidates, read_candidates, write_candidates
from xmodal.evals.scores.origin import NAME as ORIGIN
from xmodal.evals.scores.origin import read_origin, write_origin
from xmodal.evals.scores.sources import Candidates, Embeddings, Predictions, ScoreMatrix
from xmodal.evals.scores.token_arrays import is_read, read_tokens, write_tokens
from xmodal.similarity import PAIR_MODULES, SIMILARITIES

# (ids, array) of each modality in the file of embeddings.
_EMBEDDING_NAMES = (("image_ids", "image_embeddings"), ("caption_ids", "caption_embeddings"))
# Side -> the log standard deviations of its embeddings.
_LOG_SIGMA = {"image": "image_log_sigma", "text": "caption_log_sigma"}
# Scalars that a similarity may need: scale and shift of PCME's match probability.
_PARAMETERS = ("match_scale", "match_shift")
_SIMILARITY = "similarity"
# Prefix of prediction names, followed by TASK/images or TASK/captions.
_PREDICTIONS = "predictions/"


def load_embeddings(source: str | os.PathLike | Mapping[str, np.ndarray]) -> Embeddings:
    """Reads `image_ids` [N], `image_embeddings` [N, D] or [N, K, D], and the same for captions.

    Args:
      source: npz file, or its arrays in a mapping. Embeddings of any float type are read,
        bfloat16 included. `similarity` (a name), `match_scale` and `match_shift` (numbers)
        are optional, and so are `predictions/TASK/images` [N, C] and `predictions/TASK/captions`
        [M, C], whose sums are the logits of the probabilities that a task predicts for pairs, and
        `image_log_sigma` [N, D] and `caption_log_sigma` [M, D]; for tokens, see
        `token_arrays.write_tokens`.

    Raises:
      UserError: the file cannot be read, or its arrays do not fit together.
    """
    return read_embeddings(*open_arrays(source, "embeddings"))


def read_embeddings(place: str, arrays: Mapping[str, np.ndarray]) -> Embeddings:
    """Returns the embeddings in arrays of a place, see `load_embeddings`."""
    found, log_sigma = {}, {}
    for (ids_name, name), (side, spread) in zip(_EMBEDDING_NAMES, _LOG_SIGMA.items(), strict=True):
        if ids_name in arrays and name in arrays:
            ids = check_ids(arrays[ids_name], place, ids_name)
            found[side] = ids, check_embeddings(arrays[name], ids, place, ids_name, name)
            refuse_tiny(arrays[name], ids, place, name)
            if spread in arrays:
                log_sigma[side] = check_embeddings(arrays[spread], ids, place, ids_name, spread)
                if log_sigma[side].ndim != 2:
                    raise UserError(
                        f"{spread} in {place} have shape {list(arrays[spread].shape)}; they are "
                        "[N, D], one log standard deviation per number of an item's mean."
                    )
        elif ids_name in arrays or name in arrays:
            has, lacks = (ids_name, name) if ids_name in arrays else (name, ids_name)
            raise UserError(f"{place} has {has!r} but no {lacks!r}; save both or neither.")
    if not found:
        wanted = [name for pair in _EMBEDDING_NAMES for name in pair]
        raise UserError(
            f"{place} holds {sorted(arrays)}, none of which is known; embeddings are expected "
            f"under {wanted}."
        )
    image_ids, images = found.get("image", (None, None))
    caption_ids, captions = found.get("text", (None, None))
    if images is not None and captions is not None and images.shape[-1] != captions.shape[-1]:
        raise UserError(
            f"{place}: images have {images.shape[-1]} dimensions and captions "
            f"{captions.shape[-1]}; both must come from one joint space."
        )
    counts = {side: len(ids) for side, (ids, _) in found.items()}
    tokens, options, of_module = read_tokens(arrays, place, counts)
    return Embeddings(
        place, image_ids, images, caption_ids, captions, read_similarity(arrays, place),
        _read_parameters(arrays, place) | of_module,
        _read_predictions(arrays, place, image_ids, caption_ids),
        log_sigma, tokens, options, origin=read_origin(arrays, place),
    )  # fmt: skip


def _read_parameters(arrays: Mapping[str, np.ndarray], place: str) -> dict[str, Any]:
    """The numbers of a similarity by name."""
    parameters = {}
    for name in _PARAMETERS:
        if (number := arrays.get(name)) is None:
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            numeric = number.dtype.kind in "fiu" and np.isfinite(number.astype(np.float32)).all()
        if number.size != 1 or not numeric:
            raise UserError(f"{name} in {place} is {number.tolist()}, not one number of float32.")
        parameters[name] = float(number.reshape(()))
    return parameters


def save_embeddings(path: str | os.PathLike, embeddings: Embeddings) -> None:
    """Writes the npz file that `load_embeddings` reads; never leaves a partial file.

    Raises:
      UserError: the folder is not writable, or the name does not end in .npz.
    """
    _save(path, _arrays_of(embeddings) | write_origin(embeddings.origin))


def save_scores(path: str | os.PathLike, found: Candidates | ScoreMatrix) -> None:
    """Writes the npz file that `load_scores` reads; see `save_embeddings`."""
    arrays: dict[str, Any] = {"image_ids": found.image_ids, "caption_ids": found.caption_ids}
    if isinstance(found, ScoreMatrix):
        arrays["scores"] = found.matrix
    else:
        arrays |= write_candidates(found)
        arrays |= {} if found.first is None else _arrays_of(found.first)
    _save(path, arrays | write_origin(found.origin))


def check_savable(path: str | os.PathLike) -> None:
    """Raises an error if a name does not end in .npz, or its folder is not writable."""
    place = epath.Path(path)
    if place.suffix != ".npz":
        raise UserError(f"Arrays are saved as npz: {path} must end in .npz.")
    check_writable(place.parent)


def _save(path: str | os.PathLike, arrays: Mapping[str, Any]) -> None:
    check_savable(path)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    write_file(path, buffer.getvalue())


def _arrays_of(embeddings: Embeddings) -> dict[str, Any]:
    values = (
        (embeddings.image_ids, embeddings.images),
        (embeddings.caption_ids, embeddings.captions),
    )
    arrays: dict[str, Any] = {}
    for names, pair in zip(_EMBEDDING_NAMES, values, strict=True):
        if pair[1] is not None:
            arrays |= zip(names, pair, strict=True)
    arrays[_SIMILARITY] = np.array(embeddings.similarity)
    if embeddings.similarity in PAIR_MODULES:
        arrays |= write_tokens(embeddings)
    else:
        arrays |= {key: np.asarray(x, np.float32) for key, x in embeddings.parameters.items()}
    arrays |= {_LOG_SIGMA[side]: values for side, values in embeddings.log_sigma.items()}
    for task, predictions in embeddings.predictions.items():
        parts = predictions.split()
        arrays |= {
            f"{_PREDICTIONS}{task}/{kind}": part
            for kind, part in zip(("images", "captions"), parts, strict=True)
            if part is not None
        }
    return arrays


def load_scores(
    source: str | os.PathLike | Mapping[str, np.ndarray],
    ids: str | os.PathLike | Mapping[str, np.ndarray] | None = None,
) -> ScoreMatrix | Candidates:
    """Reads a matrix of scores, images by captions, or the scores of every query's candidates.

    Args:
      source: npy file [N, M], which is memory-mapped; or an npz file (or mapping) with `scores`,
        `image_ids` and `caption_ids`; or, instead of `scores`, with the arrays of
        `candidate_arrays.read_candidates`, and optionally the embeddings of their first stage and
        its `similarity`, see `load_embeddings`.
      ids: npz file (or mapping) with `image_ids` and `caption_ids`, if they are not in `source`.

    Raises:
      UserError: a file cannot be read, or the matrix and the ids do not fit together.
    """
    place = place_of(source, "scores")
    if place.endswith(".npy"):
        matrix = _map_matrix(place)
        if ids is None:
            raise UserError(
                f"{place} is a bare matrix: use `ids` to name the npz file of its image_ids "
                "(rows) and caption_ids (columns)."
            )
        ids_place, arrays = open_arrays(ids, "ids")
    else:
        if ids is not None:
            raise UserError(f"`ids` belongs to a matrix in a .npy file; {place} has its own ids.")
        _, arrays = open_arrays(source, "scores")
        ids_place = place
        if has_candidates(arrays):
            return _read_candidates(arrays, place)
        matrix = _require(arrays, "scores", place)
    image_ids, caption_ids = (
        check_ids(_require(arrays, name, ids_place), ids_place, name)
        for name in ("image_ids", "caption_ids")
    )
    check_scores(matrix, image_ids, caption_ids, place)
    return ScoreMatrix(place, image_ids, caption_ids, matrix, read_origin(arrays, place))


def _read_candidates(arrays: Mapping[str, np.ndarray], place: str) -> Candidates:
    """Candidates, with the embeddings of their first stage if there are any."""
    if "scores" in arrays:
        raise UserError(f"{place} has 'scores' of all pairs and candidates; save one of them.")
    queries = {
        ids: check_ids(_require(arrays, ids, place), place, ids) for ids, _ in _EMBEDDING_NAMES
    }
    first = None
    if any(name in arrays for _, name in _EMBEDDING_NAMES):
        first = read_embeddings(place, arrays)
        if first.similarity not in SIMILARITIES:
            raise UserError(
                f"{place} has embeddings of the first stage, but no `{_SIMILARITY}` of vectors; "
                f"save the name of the one that chose them, one of {sorted(SIMILARITIES)}."
            )
    found = read_candidates(arrays, place, queries, first)
    return dataclasses.replace(found, origin=read_origin(arrays, place))


def place_of(source: object, name: str) -> str:
    """Returns the name of a source in messages, its path; `name` is the argument's name.

    Raises:
      UserError: the source is neither a path nor a mapping with the content of a file.
    """
    if isinstance(source, Mapping):
        return "<arrays>"
    if not isinstance(source, str | os.PathLike):
        raise UserError(
            f"{name} are given as {type(source).__name__}; pass the path of a file, or a mapping "
            "from the names in such a file to their arrays or lists."
        )
    return os.fspath(source)


def open_arrays(
    source: str | os.PathLike | Mapping, name: str
) -> tuple[str, Mapping[str, np.ndarray]]:
    """Returns the place of some arrays for messages, and the arrays by name.

    Raises:
      UserError: the file cannot be read.
    """
    place = place_of(source, name)
    if isinstance(source, Mapping):
        return place, {key: _as_array(key, array, place) for key, array in source.items()}
    _check_exists(place)
    if not zipfile.is_zipfile(place):
        with open(place, "rb") as file:
            begins = file.read(32)
        raise UserError(
            f"{place} is not an npz file or is truncated: it begins with {begins!r}; write it with "
            "numpy.savez."
        )
    arrays = {}
    known = {name for pair in _EMBEDDING_NAMES for name in pair}
    known |= {"scores", "sentences", "sentence_embeddings", _SIMILARITY, *_PARAMETERS, ORIGIN}
    known |= CANDIDATES | set(_LOG_SIGMA.values())
    try:
        with load_arrays(place) as file:
            for key in file.files:
                # Other arrays may be anything and are not read.
                needed = key in known or key.startswith(_PREDICTIONS) or is_read(key)
                arrays[key] = file[key] if needed else np.zeros(0)
    except DAMAGE as error:
        raise UserError(
            f"{place} cannot be read ({first_line(error)}); write it again with numpy.savez and "
            "plain arrays of numbers."
        ) from error
    return place, arrays


def _as_array(key: str, array: Any, place: str) -> np.ndarray:
    try:
        return to_numpy(array)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UserError(f"{key} in {place} are not a NumPy array: {first_line(error)}.") from error


def named_similarity(path: str) -> str:
    """Returns the similarity that an npz file of embeddings names; "" if it names none.

    So does a file that cannot be read, which is reported where it is loaded.
    """
    if not path.endswith(".npz"):
        return ""
    try:
        with epath.Path(path).open("rb") as file, load_arrays(file) as arrays:
            return str(arrays[_SIMILARITY])
    except DAMAGE:
        return ""


def read_similarity(arrays: Mapping[str, np.ndarray], place: str) -> str:
    """Returns the name of the similarity in some arrays; "" if there is none.

    Raises:
      UserError: it is not a name.
    """
    similarity = arrays.get(_SIMILARITY, np.array(""))
    if similarity.shape != () or similarity.dtype.kind != "U":
        raise UserError(f"{_SIMILARITY} in {place} is {similarity.tolist()}, not one name.")
    return str(similarity)


def _map_matrix(path: str) -> np.ndarray:
    _check_exists(path)
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except DAMAGE as error:
        raise UserError(
            f"{path} cannot be read ({first_line(error)}); write it again with numpy.save as one "
            "plain matrix of numbers."
        ) from error


def _check_exists(path: str) -> None:
    if not os.path.isfile(path):
        raise UserError(f"There is no file {path!r}.")


def first_line(error: Exception) -> str:
    """Returns the first line of an error, without the long details that some libraries add."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


def _require(arrays: Mapping[str, np.ndarray], name: str, place: str) -> np.ndarray:
    if name not in arrays:
        raise UserError(f"{place} has no {name!r}; it holds {sorted(arrays)}.")
    return arrays[name]


def _read_predictions(
    arrays: Mapping[str, np.ndarray],
    place: str,
    image_ids: np.ndarray | None,
    caption_ids: np.ndarray | None,
) -> dict[str, Predictions]:
    """Predictions by task."""
    found: dict[str, dict[str, np.ndarray]] = {}
    for key in arrays:
        if key.startswith(_PREDICTIONS):
            task, _, kind = key.removeprefix(_PREDICTIONS).rpartition("/")
            found.setdefault(task, {})[kind] = arrays[key]
    wanted = {"images": image_ids, "captions": caption_ids}
    for task, parts in found.items():
        shapes = {kind: list(part.shape) for kind, part in parts.items()}
        fits = set(parts) <= set(wanted) and all(
            ids is not None and part.ndim == 2 and len(part) == len(ids)
            for part, ids in ((parts[kind], wanted[kind]) for kind in set(parts) & set(wanted))
        )
        for kind, part in parts.items():
            check_numbers(part, f"{_PREDICTIONS}{task}/{kind} in {place}")
        if not fits or len({part.shape[1] for part in parts.values()}) != 1:
            raise UserError(
                f"Predictions of task {task!r} in {place} are {shapes}; save "
                f"{_PREDICTIONS}{task}/images [N, C] and {_PREDICTIONS}{task}/captions [M, C], a "
                "row for every image and every caption; only one of the two if the task reads "
                "one side."
            )
    return {
        task: Predictions(
            np.asarray(parts["images"], np.float32) if "images" in parts else None,
            np.asarray(parts["captions"], np.float32) if "captions" in parts else None,
        )
        for task, parts in found.items()
    }

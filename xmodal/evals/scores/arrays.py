"""Reads and writes the arrays of any model: embeddings, scores and candidates, in npz or npy files.

Ids are the dataset's own (COCO's caption and image ids); `galleries` puts the arrays in the order
of a split's labels.
"""

import io
import json
import os
import zipfile
from collections.abc import Collection, Mapping
from typing import Any

import ml_dtypes
import numpy as np
from etils import epath

from xmodal.core.errors import UserError
from xmodal.core.result_files import check_writable, write_file
from xmodal.core.tree_paths import leaves_by_path, unflatten
from xmodal.core.untrusted.json_text import parse_json_text
from xmodal.core.untrusted.saved_arrays import DAMAGE, load_arrays
from xmodal.evals.labels.definitions import DIRECTIONS, KINDS
from xmodal.evals.scores.origin import FileOrigin
from xmodal.evals.scores.ragged_tokens import RaggedTokens
from xmodal.evals.scores.sources import (
    LARGEST_SCORE,
    Candidates,
    Embeddings,
    Predictions,
    ScoreMatrix,
)
from xmodal.similarity import PAIR_MODULES, SIMILARITIES

SENTENCES, SENTENCE_EMBEDDINGS = "sentences", "sentence_embeddings"
_SIMILARITY, _DEFINITION, _ORIGIN = "similarity", "score_definition", "xmodal_origin"
_OPTIONS, _PARAMETERS = "similarity_options", "similarity/"
# Scalars that a similarity may need: scale and shift of PCME's match probability.
_NUMBERS = ("match_scale", "match_shift")
# Prefix of prediction names, followed by TASK/images or TASK/captions.
_PREDICTIONS = "predictions/"
_OF_KIND = ("ids", "embeddings", "log_sigma", "tokens", "token_counts")
_KNOWN = {f"{kind}_{name}" for kind in KINDS.values() for name in _OF_KIND}
_KNOWN |= {f"{direction}_{name}" for direction in DIRECTIONS for name in ("candidates", "scores")}
_KNOWN |= {"scores", SENTENCES, SENTENCE_EMBEDDINGS, _SIMILARITY, _DEFINITION, _ORIGIN, _OPTIONS}
_KNOWN |= set(_NUMBERS)
_ROWS_AT_A_TIME = 1024  # Of a matrix that may be on disk.

Arrays = Mapping[str, np.ndarray]


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


def open_arrays(source: str | os.PathLike | Mapping, name: str) -> tuple[str, Arrays]:
    """Returns the place of some arrays for messages, and the known arrays by name."""
    place = place_of(source, name)
    if isinstance(source, Mapping):
        return place, {key: _as_array(key, array, place) for key, array in source.items()}
    if os.path.isfile(place) and not zipfile.is_zipfile(place):
        with open(place, "rb") as file:
            begins = file.read(32)
        raise UserError(
            f"{place} is not an npz file or is truncated: it begins with {begins!r}; write it with "
            "numpy.savez."
        )
    try:
        with load_arrays(place) as file:
            # Other arrays may be anything and are not read.
            return place, {key: file[key] if _is_known(key) else np.zeros(0) for key in file.files}
    except DAMAGE as error:
        raise _unreadable(place, error) from error


def _is_known(key: str) -> bool:
    return key in _KNOWN or key.startswith((_PREDICTIONS, _PARAMETERS))


def _unreadable(place: str, error: Exception) -> UserError:
    if isinstance(error, FileNotFoundError):
        return UserError(f"There is no file {place!r}.")
    return UserError(
        f"{place} cannot be read ({first_line(error)}); write it again with numpy.savez or "
        "numpy.save and plain arrays of numbers."
    )


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
        are optional, and so are `predictions/TASK/images` [N, C] and `predictions/TASK/captions`
        [M, C], whose sums are the logits of the probabilities that a task predicts for pairs, and
        `image_log_sigma` [N, D] and `caption_log_sigma` [M, D]. For a similarity of token sets:
        `image_tokens` [P, W], the tokens of one item after those of the other,
        `image_token_counts` [N], the same for captions, `similarity_options`, JSON of its
        keywords, and its parameters, such as `similarity/local/kernel`.
    """
    return read_embeddings(*open_arrays(source, "embeddings"))


def read_embeddings(place: str, arrays: Arrays) -> Embeddings:
    """Returns the embeddings in arrays of a place, see `load_embeddings`."""
    ids: dict[str, np.ndarray] = {}
    vectors: dict[str, np.ndarray] = {}
    log_sigma, tokens = {}, {}
    for side, kind in KINDS.items():
        names = f"{kind}_ids", f"{kind}_embeddings"
        if not any(name in arrays for name in names):
            continue
        given = [_require(arrays, name, place) for name in names]
        ids[side] = _read_ids(given[0], f"{names[0]} in {place}")
        count = len(ids[side])
        vectors[side] = read_vectors(given[1], count, f"{names[1]} in {place}")
        if (spread := f"{kind}_log_sigma") in arrays:
            log_sigma[side] = read_vectors(arrays[spread], count, f"{spread} in {place}", most=2)
        if f"{kind}_tokens" in arrays:
            tokens[side] = _read_tokens(arrays, kind, count, place)
    if not ids:
        raise UserError(
            f"{place} holds {sorted(arrays)}, none of which is known; embeddings are expected "
            "under 'image_ids', 'image_embeddings', 'caption_ids', 'caption_embeddings'."
        )
    if len(vectors) == 2 and vectors["image"].shape[-1] != vectors["text"].shape[-1]:
        raise UserError(
            f"{place}: images have {vectors['image'].shape[-1]} dimensions and captions "
            f"{vectors['text'].shape[-1]}; both must come from one joint space."
        )
    parameters: dict[str, Any] = {
        name: float(_read_number(arrays[name], f"{name} in {place}"))
        for name in _NUMBERS
        if name in arrays
    }
    options: dict[str, Any] = {}
    if tokens:
        of_module = {k: x for k, x in arrays.items() if k.startswith(_PARAMETERS)}
        parameters |= unflatten({k.removeprefix(_PARAMETERS): x for k, x in of_module.items()})
        options = _read_json(_require(arrays, _OPTIONS, place), f"{_OPTIONS} in {place}")
    return Embeddings(
        place, ids.get("image"), vectors.get("image"), ids.get("text"), vectors.get("text"),
        read_text(arrays, _SIMILARITY, place), parameters,
        _read_predictions(arrays, place, {side: len(each) for side, each in ids.items()}),
        log_sigma, tokens, options, origin=read_origin(arrays, place),
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
        optionally `score_definition`, a string, and the embeddings of their first stage with its
        `similarity`, see `load_embeddings`.
      ids: npz file (or mapping) with `image_ids` and `caption_ids`, if they are not in `source`.
    """
    place = place_of(source, "scores")
    if place.endswith(".npy"):
        if ids is None:
            raise UserError(
                f"{place} is a bare matrix: use `ids` to name the npz file of its image_ids "
                "(rows) and caption_ids (columns)."
            )
        try:
            matrix = np.lib.format.open_memmap(place, mode="r")
        except DAMAGE as error:
            raise _unreadable(place, error) from error
        ids_place, arrays = open_arrays(ids, "ids")
    else:
        if ids is not None:
            raise UserError(f"`ids` belongs to a matrix in a .npy file; {place} has its own ids.")
        ids_place, arrays = open_arrays(source, "scores")
        matrix = None if has_candidates(arrays) else _require(arrays, "scores", place)
    sides = [
        _read_ids(_require(arrays, name, ids_place), f"{name} in {ids_place}")
        for name in ("image_ids", "caption_ids")
    ]
    origin = read_origin(arrays, place)
    if matrix is None:
        return _read_candidates(arrays, place, sides, origin)
    if not np.issubdtype(matrix.dtype, np.floating) or matrix.dtype.itemsize > 8:
        raise UserError(
            f"The scores in {place} are {matrix.dtype}; save them as float32 or float64."
        )
    if matrix.shape != (wanted := tuple(map(len, sides))):
        turned = ", so save the transpose" if matrix.shape == wanted[::-1] else ""
        raise UserError(
            f"The scores in {place} are {list(matrix.shape)} for {wanted[0]} image_ids and "
            f"{wanted[1]} caption_ids; rows are images and columns captions{turned}."
        )
    for start in range(0, len(matrix), _ROWS_AT_A_TIME):
        finite = np.isfinite(matrix[start : start + _ROWS_AT_A_TIME])
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            raise UserError(
                f"The score of image {sides[0][start + row]} with caption {sides[1][column]} in "
                f"{place} is {matrix[start + row, column]}; scores must be finite."
            )
    return ScoreMatrix(place, sides[0], sides[1], matrix, origin)


def has_candidates(names: Collection[str]) -> bool:
    """Returns whether arrays of these names hold candidates of a direction."""
    return any(f"{direction}_candidates" in names for direction in ("i2t", "t2i"))


def _read_candidates(
    arrays: Arrays, place: str, sides: list[np.ndarray], origin: FileOrigin | None
) -> Candidates:
    """Candidates, with the embeddings of their first stage if there are any."""
    directions = {}
    for direction, queries in zip(("i2t", "t2i"), sides, strict=True):
        if f"{direction}_candidates" not in arrays:
            continue
        items = arrays[f"{direction}_candidates"]
        scores = _require(arrays, f"{direction}_scores", place)
        if (
            items.dtype.kind not in "iu" or scores.dtype.kind != "f" or items.ndim != 2
            or items.shape != scores.shape or len(items) != len(queries) or not items.size
        ):  # fmt: skip
            raise UserError(
                f"Candidates of {direction!r} in {place} are {items.dtype} {list(items.shape)} and "
                f"their scores {scores.dtype} {list(scores.shape)} for {len(queries)} queries; "
                "save integer ids and float scores [Q, K], a row per query."
            )
        ordered = np.sort(items, axis=1)
        twice = np.any(ordered[:, 1:] == ordered[:, :-1], axis=1)
        wrong = ~np.all(np.abs(scores) < LARGEST_SCORE, axis=1)  # Also if one is NaN.
        for rows, what in ((twice, "an item twice"), (wrong, "scores that are not finite")):
            if rows.any():
                raise UserError(
                    f"{direction}_candidates in {place}: {rows.sum()} queries have {what}, the "
                    f"first is {queries[rows.argmax()]}; an item has one score, below "
                    f"{LARGEST_SCORE:,}. Leave out items that were not scored."
                )
        directions[direction] = items.astype(np.int64), scores
    first = None
    if any(f"{kind}_embeddings" in arrays for kind in KINDS.values()):
        first = read_embeddings(place, arrays)
        if first.similarity not in SIMILARITIES:
            raise UserError(
                f"{place} has embeddings of the first stage, but no `{_SIMILARITY}` of vectors; "
                f"save the name of the one that chose them, one of {sorted(SIMILARITIES)}."
            )
    definition = read_text(arrays, _DEFINITION, place) or "the scores of a file"
    return Candidates(place, sides[0], sides[1], directions, definition, first, origin)


def _require(arrays: Arrays, name: str, place: str) -> np.ndarray:
    if name not in arrays:
        raise UserError(f"{place} has no {name!r}; it holds {sorted(arrays)}.")
    return arrays[name]


def _read_ids(ids: np.ndarray, what: str) -> np.ndarray:
    """Distinct ids as int64 [N]."""
    if ids.ndim != 1 or ids.dtype.kind not in "iu" or not len(ids):
        raise UserError(
            f"{what} are {ids.dtype} {list(ids.shape)}; ids are integers, one per item."
        )
    unique, counts = np.unique(ids, return_counts=True)
    if len(unique) < len(ids):
        raise UserError(
            f"{what}: id {unique[counts > 1][0]} occurs twice, one of {np.sum(counts > 1)} such "
            "ids; keep one row per item."
        )
    return ids.astype(np.int64)


def read_vectors(array: np.ndarray, count: int, what: str, most: int = 3) -> np.ndarray:
    """Returns floats [N, D], or [N, K, D] if `most` is 3, as float32, or float64 if they are."""
    if array.dtype == np.dtype("V2"):
        array = array.view(ml_dtypes.bfloat16)  # npz files do not store its name.
    is_float = array.dtype == ml_dtypes.bfloat16 or np.issubdtype(array.dtype, np.floating)
    if not is_float or not 2 <= array.ndim <= most or 0 in array.shape or len(array) != count:
        shapes = "[N, D]" if most == 2 else "[N, D], or [N, K, D] with K per item"
        raise UserError(
            f"{what} are {array.dtype} {list(array.shape)} for {count} items; save floats {shapes}."
        )
    found = np.ascontiguousarray(array, np.float64 if array.dtype.itemsize >= 8 else np.float32)
    with np.errstate(over="ignore"):
        finite = np.isfinite(found.astype(np.float32, copy=False)).reshape(count, -1).all(axis=1)
    if not finite.all():
        raise UserError(
            f"{what}: {count - finite.sum()} of {count} rows hold NaN or infinity in float32, the "
            f"first is row {finite.argmin()}; fix the model or leave these rows out."
        )
    return found


def _read_number(number: np.ndarray, what: str) -> np.float32:
    with np.errstate(over="ignore"):
        is_number = number.size == 1 and number.dtype.kind in "fiu"
        if not is_number or not np.isfinite(found := np.float32(number.reshape(()))):
            raise UserError(f"{what} is {number.tolist()}, not one number of float32.")
    return found


def read_text(arrays: Arrays, name: str, place: str) -> str:
    """Returns a string among some arrays; "" if there is none."""
    text = arrays.get(name, np.array(""))
    if text.shape != () or text.dtype.kind != "U":
        raise UserError(f"{name} in {place} is {text.tolist()}, not one string.")
    return str(text)


def _read_json(text: np.ndarray, what: str) -> Any:
    try:
        return parse_json_text(str(text))
    except ValueError as error:
        raise UserError(f"{what} is damaged ({error}); save the file again.") from error


def _read_tokens(arrays: Arrays, kind: str, count: int, place: str) -> RaggedTokens:
    values, lengths = arrays[f"{kind}_tokens"], _require(arrays, f"{kind}_token_counts", place)
    if lengths.shape != (count,) or lengths.dtype.kind not in "iu" or lengths.sum() != len(values):
        raise UserError(
            f"{kind}_token_counts in {place} are {lengths.dtype} {list(lengths.shape)}, with sum "
            f"{lengths.sum()}, for {count} items and {len(values)} tokens; save the number of "
            "every item's tokens."
        )
    values = read_vectors(values, len(values), f"{kind}_tokens in {place}", most=2)
    return RaggedTokens(values.astype(np.float32), lengths.astype(np.int64))


def _read_predictions(
    arrays: Arrays, place: str, counts: Mapping[str, int]
) -> dict[str, Predictions]:
    """Predictions by task."""
    sides = {"images": "image", "captions": "text"}
    found: dict[str, dict[str, np.ndarray]] = {}
    for key in (key for key in arrays if key.startswith(_PREDICTIONS)):
        task, _, kind = key.removeprefix(_PREDICTIONS).rpartition("/")
        if kind not in sides or sides[kind] not in counts:
            raise UserError(
                f"{key} in {place} is of no item; save {_PREDICTIONS}{task}/images [N, C] and "
                f"{_PREDICTIONS}{task}/captions [M, C], or one of them if the task reads one side."
            )
        part = read_vectors(arrays[key], counts[sides[kind]], f"{key} in {place}", most=2)
        found.setdefault(task, {})[kind] = part.astype(np.float32)
    for task, parts in found.items():
        if len({part.shape[1] for part in parts.values()}) > 1:
            shapes = {kind: list(part.shape) for kind, part in parts.items()}
            raise UserError(
                f"Predictions of task {task!r} in {place} are {shapes}; C must be equal."
            )
    return {
        t: Predictions(parts.get("images"), parts.get("captions")) for t, parts in found.items()
    }


def read_origin(arrays: Arrays, place: str) -> FileOrigin | None:
    """Returns the origin in some arrays; None for those of other programs."""
    if _ORIGIN not in arrays:
        return None
    fields = _read_json(arrays[_ORIGIN], f"{_ORIGIN} in {place}")
    if not isinstance(fields, dict) or set(fields) != {"model", "records"}:
        raise UserError(f"{_ORIGIN} in {place} is damaged ({fields!r}); save the file again.")
    return FileOrigin(**fields)


def check_origin(path: str, place: str, records: Mapping[str, str]) -> None:
    """Raises an error if a file of arrays was saved on other records, see `FileOrigin.check`.

    Nothing else of it is read; damage is reported where its arrays are.
    """
    try:
        with load_arrays(path) as arrays:
            found = {_ORIGIN: arrays[_ORIGIN]} if _ORIGIN in arrays else {}
    except DAMAGE:
        return
    if (origin := read_origin(found, place)) is not None:
        origin.check(place, records)


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


def save_embeddings(path: str | os.PathLike, embeddings: Embeddings) -> None:
    """Writes the npz file that `load_embeddings` reads; never leaves a partial file."""
    _save(path, _arrays_of(embeddings), embeddings.origin)


def save_scores(path: str | os.PathLike, found: Candidates | ScoreMatrix) -> None:
    """Writes the npz file that `load_scores` reads; see `save_embeddings`."""
    arrays: dict[str, Any] = {"image_ids": found.image_ids, "caption_ids": found.caption_ids}
    if isinstance(found, ScoreMatrix):
        arrays["scores"] = found.matrix
    else:
        arrays[_DEFINITION] = np.array(found.definition)
        for direction, (items, scores) in found.directions.items():
            arrays |= {f"{direction}_candidates": items, f"{direction}_scores": scores}
        arrays |= {} if found.first is None else _arrays_of(found.first)
    _save(path, arrays, found.origin)


def check_savable(path: str | os.PathLike) -> None:
    """Raises an error if a name does not end in .npz, or its folder is not writable."""
    place = epath.Path(path)
    if place.suffix != ".npz":
        raise UserError(f"Arrays are saved as npz: {path} must end in .npz.")
    check_writable(place.parent)


def _save(path: str | os.PathLike, arrays: Mapping[str, Any], origin: FileOrigin | None) -> None:
    check_savable(path)
    said: dict[str, Any] = dict(arrays)
    if origin is not None:
        fields = {"model": origin.model, "records": dict(origin.records)}
        said[_ORIGIN] = np.array(json.dumps(fields))
    buffer = io.BytesIO()
    np.savez(buffer, **said)
    write_file(path, buffer.getvalue())


def _arrays_of(embeddings: Embeddings) -> dict[str, Any]:
    arrays: dict[str, Any] = {_SIMILARITY: np.array(embeddings.similarity)}
    ids = {"image": embeddings.image_ids, "text": embeddings.caption_ids}
    given = {"image": embeddings.images, "text": embeddings.captions}
    for side, vectors in given.items():
        if vectors is not None:
            kind = KINDS[side]
            arrays |= {f"{kind}_ids": ids[side], f"{kind}_embeddings": vectors}
    arrays |= {f"{KINDS[side]}_log_sigma": x for side, x in embeddings.log_sigma.items()}
    leaves = leaves_by_path(embeddings.parameters)
    if embeddings.similarity in PAIR_MODULES:
        arrays[_OPTIONS] = np.array(json.dumps(dict(embeddings.options)))
        for side, tokens in embeddings.tokens.items():
            arrays[f"{KINDS[side]}_tokens"] = tokens.values
            arrays[f"{KINDS[side]}_token_counts"] = tokens.lengths
        leaves = {f"{_PARAMETERS}{path}": leaf for path, leaf in leaves.items()}
    arrays |= {path: np.asarray(leaf, np.float32) for path, leaf in leaves.items()}
    for task, predictions in embeddings.predictions.items():
        parts = zip(("images", "captions"), predictions.split(), strict=True)
        arrays |= {f"{_PREDICTIONS}{task}/{k}": part for k, part in parts if part is not None}
    return arrays

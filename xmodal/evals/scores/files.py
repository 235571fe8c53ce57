"""Reads and writes the files of any model: embeddings, scores, candidates and ranked lists.

Ids are the dataset's own (COCO's caption and image ids), in any order.
"""

import collections
import io
import json
import os
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
from etils import epath

from xmodal.core.config import lookup
from xmodal.core.errors import UserError
from xmodal.core.files import check_writable, write_file
from xmodal.core.untrusted.saved_arrays import DAMAGE, load_arrays
from xmodal.evals.labels.definitions import KINDS
from xmodal.evals.scores.score_rows import count_not_finite
from xmodal.evals.scores.sources import (
    Candidates,
    Embeddings,
    RankedLists,
    ScoreMatrix,
    Source,
    ids_of,
    with_similarity,
)
from xmodal.similarity import LATE_INTERACTIONS, SIMILARITIES

File = str | os.PathLike | Mapping[str, Any]
"""A file, or its content in a mapping."""

_DIRECTIONS = ("i2t", "t2i")
# Scalars that a similarity may need: scale and shift of PCME's match probability.
_NUMBERS = ("match_scale", "match_shift")


def open_source(kind: str, given: File, ids: Any = None, similarity: str | None = None) -> Source:
    """Reads a file by ids.

    Args:
      kind: "embeddings", "scores" or "rankings"; see `load_embeddings`, `load_scores` and
        `load_rankings`.
      given: the file.
      ids: ids of a bare matrix of scores.
      similarity: name of the similarity that ranks embeddings; by default, that of the file.
    """
    if kind == "rankings":
        return load_rankings(given)
    if kind == "scores":
        return load_scores(given, ids)
    embeddings = load_embeddings(given)
    name = check_similarity(similarity or embeddings.similarity)
    return with_similarity(embeddings, {"name": name})


def check_similarity(name: str | None) -> str:
    """Returns the name of a similarity of vectors, which a model without modules can have."""
    if not name:
        raise UserError(
            f"Name the similarity that the model ranks by, one of {sorted(SIMILARITIES)}: they "
            "rank differently, so there is no default."
        )
    lookup("similarity", name, SIMILARITIES)
    return name


def modalities_of(source: Source) -> frozenset[str]:
    """Returns the modalities whose items a file has, of "image" and "text"."""
    return source.modalities if isinstance(source, Embeddings) else frozenset({"image", "text"})


def name_of(source: File) -> str:
    """Returns the name of a model's row from its file."""
    return "model" if isinstance(source, Mapping) else os.path.splitext(os.path.basename(source))[0]


def lines_of(path: str | os.PathLike) -> list[str]:
    """Returns the lines of a text file that are not empty, without spaces around them.

    Raises:
      OSError: the file cannot be read.
      UnicodeDecodeError: it is not UTF-8.
    """
    text = epath.Path(path).read_bytes().decode("utf-8-sig")  # Some editors write a mark.
    # Only line feeds end a line: texts may contain the other separators of splitlines().
    return [line for line in map(str.strip, text.split("\n")) if line]


def first_line(error: Exception) -> str:
    """Returns the first line of an error, without the long details that some libraries add."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


def _place_of(source: File) -> str:
    return "<arrays>" if isinstance(source, Mapping) else os.fspath(source)


def _read(source: Any, read: Callable[[Any], Any]) -> Any:
    """Calls a reader of a file; an error names the file."""
    try:
        return read(source)
    except FileNotFoundError:
        raise
    except DAMAGE as error:
        raise UserError(
            f"{source} cannot be read ({first_line(error)}): write the file again, or pass arrays "
            "that NumPy can read."
        ) from error


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


class NamedArrays(collections.UserDict):
    """The arrays of a file or a mapping by name, read when they are asked for.

    Attributes:
      place: names the source in messages.
    """

    def __init__(self, source: File) -> None:
        """Opens an npz file, or takes its arrays."""
        self.place = _place_of(source)
        found: Any = source if isinstance(source, Mapping) else _read(self.place, load_arrays)
        self.data = {} if isinstance(found, np.ndarray) else found  # An array without a name.

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.data:
            raise UserError(
                f"{self.place} has no {name!r}; it holds {sorted(self) or 'one array'}."
            )
        return _read(self.place, lambda _: to_numpy(self.data[name]))

    def ids(self, name: str) -> np.ndarray:
        """Returns distinct ids, int64 [N]."""
        ids = self[name]
        different = len(np.unique(ids))
        if ids.ndim != 1 or ids.dtype.kind not in "iu" or not 0 < len(ids) == different:
            raise UserError(
                f"{name} in {self.place} are {ids.dtype} {list(ids.shape)} with {different} "
                "different values; ids are integers, one per item, and none occurs twice."
            )
        return ids.astype(np.int64)

    def vectors(self, name: str, count: int, most: int = 3) -> np.ndarray:
        """Returns floats [N, D], or [N, K, D] if `most` is 3: float32, or float64 if they are."""
        array, bad = self[name], 0
        if array.dtype == np.dtype("V2"):
            array = array.view(ml_dtypes.bfloat16)  # npz files do not store its name.
        fits = 2 <= array.ndim <= most and array.size and len(array) == count
        if fits := bool(fits and jnp.issubdtype(array.dtype, jnp.floating)):
            array = np.ascontiguousarray(array, np.promote_types(array.dtype, np.float32))
            with np.errstate(over="ignore"):
                bad = count_not_finite(array.astype(np.float32, copy=False))
        if not fits or bad:
            raise UserError(
                f"{name} in {self.place} are {array.dtype} {list(array.shape)} for {count} items"
                f"{f', not finite in float32 in {bad} rows' * bool(bad)}; save finite floats "
                f"[N, D]{', or [N, K, D] with K per item' * (most > 2)}."
            )
        return array


def load_embeddings(source: File) -> Embeddings:
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
    widths = {modality: each.shape[-1] for modality, each in vectors.items()}
    if len({*widths.values()}) != 1:
        raise UserError(
            f"{arrays.place} holds {sorted(arrays)}, with embeddings of widths {widths}; expected "
            "are 'image_ids', 'image_embeddings', 'caption_ids' and 'caption_embeddings' of one "
            "joint space."
        )
    return Embeddings(
        arrays.place, ids.get("image"), vectors.get("image"), ids.get("text"), vectors.get("text"),
        str(arrays["similarity"]) if "similarity" in arrays else "",
        {name: float(arrays[name].item()) for name in _NUMBERS if name in arrays},
        log_sigma=log_sigma,
    )  # fmt: skip


def load_scores(source: File, ids: File | None = None) -> ScoreMatrix | Candidates:
    """Reads a matrix of scores, images by captions, or the scores of every query's candidates.

    Args:
      source: npy file [N, M], which is memory-mapped; or an npz file (or mapping) with `scores`,
        `image_ids` and `caption_ids`; or, instead of `scores`, with `i2t_candidates` and
        `i2t_scores` [N, K], ids of captions and their scores, a row per image, and
        `t2i_candidates` and `t2i_scores` [M, K], a row per caption, or only one direction, and
        optionally `score_definition`, a string.
      ids: npz file (or mapping) with the `image_ids` and `caption_ids` of an npy file.
    """
    arrays = NamedArrays(source if ids is None else ids)
    place, own = _place_of(source), (arrays.ids("image_ids"), arrays.ids("caption_ids"))
    directions = {
        direction: _read_candidates(arrays, direction, len(queries))
        for direction, queries in zip(_DIRECTIONS, own, strict=True)
        if ids is None and f"{direction}_candidates" in arrays
    }
    if directions:
        definition = str(arrays.data.get("score_definition", "the scores of a file"))
        return Candidates(place, *own, directions, definition)
    if ids is None:
        matrix = arrays["scores"]
    else:
        bare: Any = source
        matrix = _read(place, lambda _: np.lib.format.open_memmap(bare, mode="r"))
    wanted = len(own[0]), len(own[1])
    fits = matrix.dtype.kind == "f" and matrix.shape == wanted
    if not fits or (bad := count_not_finite(matrix)):
        rows = f", not finite for {bad} images" if fits else ""
        raise UserError(
            f"The scores in {place} are {matrix.dtype} {list(matrix.shape)} for {wanted[0]} "
            f"image_ids and {wanted[1]} caption_ids{rows}; save finite float32 or float64, with a "
            "row per image and a column per caption."
        )
    return ScoreMatrix(place, *own, matrix)


def _read_candidates(
    arrays: NamedArrays, direction: str, queries: int
) -> tuple[np.ndarray, np.ndarray]:
    """The ids of the candidates of every query, and their scores."""
    items, scores = arrays[f"{direction}_candidates"], arrays[f"{direction}_scores"]
    if (
        (items.dtype.kind not in "iu" or scores.dtype.kind != "f" or not items.size)
        or (items.ndim != 2 or items.shape != scores.shape or len(items) != queries)
        or (np.diff(np.sort(items, axis=1), axis=1) == 0).any()
        or not np.isfinite(scores).all()
    ):
        raise UserError(
            f"{direction}_candidates in {arrays.place} are {items.dtype} {list(items.shape)} and "
            f"their scores {scores.dtype} {list(scores.shape)} for {queries} queries; save integer "
            "ids [Q, K], no item twice in a row, and finite float scores, of scored items only."
        )
    return items.astype(np.int64), scores


def load_rankings(source: File) -> RankedLists:
    """Reads ranked lists in the format of the eccv_caption library.

    Args:
      source: JSON file `{"i2t": {image id: [caption ids]}, "t2i": {caption id: [image ids]}}`, or
        the same as mappings, most similar first. One direction may be missing.
    """
    place, content = _place_of(source), source
    if not isinstance(content, Mapping):
        content = _read(source, lambda path: json.loads(epath.Path(path).read_bytes()))
    present = {*_DIRECTIONS} & {*content} if isinstance(content, Mapping) else set()
    if not present or not all(isinstance(content[each], Mapping) for each in present):
        raise UserError(
            f"{place} holds {content!r:.80}; rankings are expected under 'i2t' (image id -> "
            "caption ids) and 't2i' (caption id -> image ids)."
        )
    directions: dict[str, dict[int, np.ndarray]] = {}
    for name in (each for each in _DIRECTIONS if each in content):
        found = directions.setdefault(name, {})
        for key, ranked in content[name].items():
            try:
                query, ids = int(key), np.asarray(ranked)
            except (TypeError, ValueError, OverflowError):
                query, ids = 0, np.zeros(0)
            named = ids.ndim == 1 and ids.dtype.kind in "iu" and len(np.unique(ids))
            if not named or named < len(ids) or query in found:
                raise UserError(
                    f"The list of query {key!r} under {name!r} in {place} is {ranked!r:.80}; it "
                    "must be a list of the integer ids of its items, best first, each once, one "
                    "for each integer query id."
                )
            found[query] = ids.astype(np.int64)
    return RankedLists(place, directions)


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


def save_rankings(path: str | os.PathLike, found: RankedLists) -> None:
    """Writes the file that `load_rankings` reads."""
    lists = {
        direction: {str(query): items.tolist() for query, items in of_query.items()}
        for direction, of_query in found.directions.items()
    }
    write_file(path, json.dumps(lists))


def check_savable(path: str | os.PathLike, ending: str = ".npz") -> None:
    """Raises an error if a name has another ending, or its folder is not writable."""
    place = epath.Path(path)
    if place.suffix != ending:
        raise UserError(f"The name of this file must end in {ending}: {path}.")
    check_writable(place.parent)


def _save(path: str | os.PathLike, saved: Mapping[str, Any]) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, **saved)
    write_file(path, buffer.getvalue())

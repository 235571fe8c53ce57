"""`ranks.npz`: results query by query, kept for later statistics and comparison.

The file holds one array per key, readable with `numpy.load` alone. Retrieval tasks have
`<board>/<task>/query_ids`, `/clusters`, `/values/<metric>` and, where they are known, `/rank` and
`/tied`; correlations have `<board>/<task>/samples`; `header` is a JSON text with all that is no
array.
"""

import dataclasses
import io
import json
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath

from xmodal.config import UserError
from xmodal.evals.results import BoardResult, CorrelationResult, TaskResult

_FORMAT = "xmodal ranks"
_VERSION = 1
_HEADER = "header"
RANKS = "ranks.npz"  # in the folder of an evaluation
# What reading a damaged file can raise, RuntimeError where a flag of the archive is hit.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)


@dataclasses.dataclass(frozen=True)
class StoredResults:
    """An evaluation as it is kept.

    Attributes:
      results: one per board.
      similarity: by which items were ranked.
      seed: of the bootstrap samples of correlations.
      name: of the model in a comparison; the file lacks it, so it is that of its folder.
    """

    results: Sequence[BoardResult]
    similarity: str
    seed: int
    name: str = "theirs"


def pack_ranks(results: Sequence[BoardResult], *, similarity: str, seed: int) -> bytes:
    """Content of `ranks.npz`; the same results give the same bytes.

    Args:
      results: one per board.
      similarity: by which items were ranked.
      seed: of the bootstrap samples of correlations.
    """
    arrays: dict[str, np.ndarray] = {}
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "similarity": similarity,
        "seed": int(seed),
        "boards": [_pack_board(board, arrays) for board in results],
    }
    arrays[_HEADER] = np.array(json.dumps(header))
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def load_ranks(path: epath.PathLike) -> StoredResults:
    """Returns the content of a file of `pack_ranks`.

    Args:
      path: the file, or the folder of an evaluation.

    Raises:
      UserError: there is no such file, it is not ours, cut off, damaged or of another version.
    """
    path = epath.Path(path)
    if path.is_dir():
        path = path / RANKS
    try:
        content = path.read_bytes()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise UserError(
            f"There is no file {path}; name the output folder of an evaluation, or its {RANKS}."
        ) from None
    if not content.startswith(b"PK"):
        raise UserError(f"{path} is no npz file; name the ranks.npz of an evaluation.")
    try:
        arrays = _read_arrays(content)
        header = json.loads(str(arrays[_HEADER])) if _HEADER in arrays else {}
        problem = _check_header(header, arrays)
        if not problem:
            boards = [_unpack_board(board, arrays) for board in header["boards"]]
            folder = str(path.parent) if path.parent.name else path.name
            return StoredResults(boards, header["similarity"], header["seed"], folder)
    except _DAMAGE as error:
        raise UserError(
            f"{path} is cut off or damaged ({error}); write it again with xmodal.eval_main."
        ) from error
    raise UserError(f"{path} {problem}")


def _read_arrays(content: bytes) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


def _check_header(header: Any, arrays: Mapping[str, np.ndarray]) -> str:
    """The problem of the file, or nothing."""
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        return (
            f"holds the arrays {sorted(arrays)[:5]} but no header of an evaluation; name the "
            "ranks.npz of one."
        )
    if header["version"] != _VERSION:
        return (
            f"has version {header['version']} of the format, this is version {_VERSION}; evaluate "
            "that model again, or read the file with the xmodal that wrote it."
        )
    return ""


def _pack_board(board: BoardResult, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Adds the arrays of a board; returns its part of the header."""
    packed = {
        "name": board.name,
        "definition": board.definition,
        "label_hash": board.label_hash,
        "tasks": {},
        "correlations": {},
        "skipped": dict(board.skipped),
    }
    for name, task in board.tasks.items():
        prefix = f"{board.name}/{name}"
        arrays[f"{prefix}/query_ids"] = task.query_ids
        arrays[f"{prefix}/clusters"] = task.clusters
        if task.tied is not None:
            arrays[f"{prefix}/tied"] = task.tied
        if task.rank is not None:
            arrays[f"{prefix}/rank"] = task.rank
        for metric, values in task.values.items():
            arrays[f"{prefix}/values/{metric}"] = values
        packed["tasks"][name] = {
            "metrics": list(task.values),
            "gallery": int(task.gallery),
            "skipped": int(task.skipped),
            "has_median": bool(task.has_median),
            "missing": dict(task.missing),
        }
    for name, correlation in board.correlations.items():
        arrays[f"{board.name}/{name}/samples"] = correlation.samples
        packed["correlations"][name] = {
            "pairs": int(correlation.pairs),
            "pairs_per_sample": int(correlation.pairs_per_sample),
        }
    return packed


def _unpack_board(packed: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> BoardResult:
    board = packed["name"]
    tasks = {
        name: TaskResult(
            query_ids=arrays[f"{board}/{name}/query_ids"],
            clusters=arrays[f"{board}/{name}/clusters"],
            values={m: arrays[f"{board}/{name}/values/{m}"] for m in task["metrics"]},
            rank=arrays.get(f"{board}/{name}/rank"),
            tied=arrays.get(f"{board}/{name}/tied"),
            gallery=task["gallery"],
            skipped=task["skipped"],
            has_median=task["has_median"],
            missing=task["missing"],
        )
        for name, task in packed["tasks"].items()
    }
    correlations = {
        name: CorrelationResult(
            samples=arrays[f"{board}/{name}/samples"],
            pairs=correlation["pairs"],
            pairs_per_sample=correlation["pairs_per_sample"],
        )
        for name, correlation in packed["correlations"].items()
    }
    return BoardResult(
        name=board,
        definition=packed["definition"],
        label_hash=packed["label_hash"],
        tasks=tasks,
        correlations=correlations,
        skipped=packed["skipped"],
    )

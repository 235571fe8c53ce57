"""`ranks.npz`: results by query, stored for later statistics and comparisons.

The file has one array per key, readable with `numpy.load` alone. Directions have
`<board>/<direction>/query_ids`, `/clusters`, `/values/<metric>` and, if known, `/rank` and `/tied`;
correlations have `<board>/<rating>/samples`, `/images` and `/influence`; `header` is a JSON string
with everything that is not an array. Numbers without boards have `<name>/repeats/<tag>`.
"""

import dataclasses
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath

from xmodal.core.errors import UserError
from xmodal.core.result_files import FINAL
from xmodal.core.untrusted.json_text import parse_json_text
from xmodal.core.untrusted.saved_arrays import DAMAGE, load_arrays
from xmodal.evals.labels.split import different_records
from xmodal.evals.reports.results import (
    BoardResult,
    CorrelationResult,
    DirectionResult,
    Numbers,
    Rescored,
)

_FORMAT = "xmodal ranks"
_VERSION = 2
_HEADER = "header"
_CORRELATION_ARRAYS = ("samples", "images", "influence")
RANKS = "ranks.npz"  # In the folder of an evaluation.
# Name of the evaluator of an evaluation that stands alone, as of own functions.
SINGLE = "."


@dataclasses.dataclass(frozen=True)
class StoredResults:
    """A stored evaluation.

    Attributes:
      results: results of the boards.
      numbers: numbers of evaluators without boards that have values in shared samples.
      name: name of the model.
      place: the file's folder; "" for results that are not in a file.
      records: hash of the records of every evaluated dataset, by name; empty if unknown.
    """

    results: Sequence[BoardResult]
    name: str
    place: str = ""
    numbers: Sequence[Numbers] = ()
    records: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def labels(self) -> dict[str, str]:
        """The hash of the labels of every board, and of other numbers, by name."""
        found = {board.name: board.label_hash for board in self.results}
        return found | {each.name: each.label_hash for each in self.numbers}

    def shares_labels(self, other: "StoredResults") -> bool:
        """Whether another evaluation has a board in common, and equal labels and records."""
        both = set(self.labels.items()) & set(other.labels.items())
        return bool(both) and not self.different_records(other)

    def different_records(self, other: "StoredResults") -> list[str]:
        """Names of the datasets whose records are known and differ."""
        return different_records(self.records, other.records)

    def name_beside(self, model: str) -> str:
        """Returns this model's name to show beside another, with its folder if both are equal."""
        return f"{self.name} ({self.place})" if self.name == model else self.name


def pack_ranks(stored: StoredResults) -> bytes:
    """Returns the content of `ranks.npz`; equal results have equal bytes."""
    arrays: dict[str, Any] = {}
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "model": stored.name,
        "boards": [_pack_board(board, arrays) for board in stored.results],
        "records": dict(stored.records),
    }
    if stored.numbers:
        header["numbers"] = [
            dataclasses.asdict(each) | {"metrics": {}, "repeats": list(each.repeats), "chance": {}}
            for each in stored.numbers
        ]
        for each in stored.numbers:
            arrays |= {
                f"{each.name}/repeats/{tag}": np.asarray(x) for tag, x in each.repeats.items()
            }
    arrays[_HEADER] = np.array(json.dumps(header))
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def find_evaluations(folder: epath.PathLike) -> dict[str, epath.Path]:
    """Returns evaluator -> folder of its results; `SINGLE` -> `folder` if these are of one.

    Args:
      folder: a run, whose final evaluation is meant, the output of a command, or one evaluation.
    """
    place = epath.Path(folder)
    if (place / RANKS).exists():
        return {SINGLE: place}
    folders = [each for each in (place / FINAL, place) if each.is_dir()]
    entries = [entry for each in folders for entry in sorted(each.iterdir())]
    return {entry.name: entry for entry in entries if (entry / RANKS).exists()}


def find_ranks(folder: epath.PathLike, like: StoredResults) -> StoredResults:
    """Returns the results in a folder that have the labels and records of an evaluation.

    Args:
      folder: `ranks.npz`, the folder of an evaluation, or one with the folders of several, such as
        a run's, at most two levels below it.
      like: the evaluation.

    Raises:
      UserError: there is no such evaluation, or several; lists all evaluations.
    """
    place = epath.Path(folder)
    if not place.is_dir() or (place / RANKS).exists():
        return load_ranks(place)
    inner = sorted(each for each in place.iterdir() if each.is_dir())
    folders = inner + [each for folder in inner for each in sorted(folder.iterdir())]
    files = sorted(each / RANKS for each in folders if (each / RANKS).exists())
    if not files:
        return load_ranks(place)  # Its error names the missing file.
    stored = {file.parent: load_ranks(file) for file in files}
    found = [place for place, each in stored.items() if like.shares_labels(each)]
    if len(found) == 1:
        return stored[found[0]]
    listed = "; ".join(f"{at} ({_listed(each)})" for at, each in stored.items())
    problem = "several evaluations" if found else "no evaluation"
    raise UserError(
        f"{place} has {problem} on the labels of {like.name} ({_listed(like)}): {listed}. Name the "
        "folder of one that was evaluated on the same split."
    )


def _listed(stored: StoredResults) -> str:
    return ", ".join(f"{name} {digits}" for name, digits in stored.labels.items())


def load_ranks(path: epath.PathLike) -> StoredResults:
    """Returns the content of a file from `pack_ranks`, or of the one in an evaluation's folder.

    Raises:
      UserError: the file is missing, truncated, damaged, of another version or of another kind.
    """
    path = epath.Path(path)
    if path.is_dir():
        path = path / RANKS
    try:
        content = path.read_bytes()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        inner = list(find_evaluations(path.parent).values()) if path.name == RANKS else []
        listed = f", such as {inner[0]}" if inner else ""
        raise UserError(
            f"There is no file {path}; name the output folder of an evaluation{listed}, or its "
            f"{RANKS}."
        ) from None
    if not content.startswith(b"PK"):
        raise UserError(f"{path} is not an npz file; name the ranks.npz of an evaluation.")
    try:
        with load_arrays(io.BytesIO(content)) as file:
            return _unpack(path, dict(file))
    except UserError:
        raise
    except (AttributeError, *DAMAGE) as error:
        raise UserError(
            f"{path} is cut off or damaged ({error}); write it again with xmodal.eval_main."
        ) from error


def _unpack(path: epath.Path, arrays: Mapping[str, np.ndarray]) -> StoredResults:
    header = parse_json_text(str(arrays[_HEADER])) if _HEADER in arrays else {}
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise UserError(
            f"{path} holds the arrays {sorted(arrays)[:5]} but no header of an evaluation; name "
            "the ranks.npz of one."
        )
    if header["version"] != _VERSION:
        raise UserError(
            f"{path} has version {header['version']} of the format, but this is version "
            f"{_VERSION}; evaluate that model again, or read the file with the xmodal that wrote "
            "it."
        )
    boards = [_unpack_board(board, arrays) for board in header["boards"]]
    numbers = [_unpack_numbers(each, arrays) for each in header.get("numbers", ())]
    folder = str(path.parent) if path.parent.name else path.name
    return StoredResults(boards, header["model"], folder, numbers, dict(header.get("records", {})))


def _pack_board(board: BoardResult, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Adds the arrays of a board; returns its part of the header."""
    for name, direction in board.directions.items():
        columns = {
            key: getattr(direction, key) for key in ("query_ids", "clusters", "tied", "rank")
        }
        columns |= {f"values/{metric}": values for metric, values in direction.values.items()}
        known = {key: column for key, column in columns.items() if column is not None}
        arrays |= {f"{board.name}/{name}/{key}": column for key, column in known.items()}
    for name, correlation in board.correlations.items():
        columns = {key: getattr(correlation, key) for key in _CORRELATION_ARRAYS}
        arrays |= {f"{board.name}/{name}/{key}": column for key, column in columns.items()}
    return {
        "name": board.name,
        "definition": board.definition,
        "label_hash": board.label_hash,
        "directions": {
            name: {
                "metrics": list(direction.values),
                "gallery": int(direction.gallery),
                "skipped": int(direction.skipped),
                "has_median": bool(direction.has_median),
                "missing": dict(direction.missing),
                "chance": dict(direction.chance),
            }
            | ({"rescored": dataclasses.asdict(each)} if (each := direction.rescored) else {})
            for name, direction in board.directions.items()
        },
        "correlations": {
            name: {"pairs_per_sample": int(each.pairs_per_sample)}
            for name, each in board.correlations.items()
        },
        "skipped": dict(board.skipped),
    }


def _unpack_numbers(packed: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> Numbers:
    repeats = {tag: arrays[f"{packed['name']}/repeats/{tag}"].tolist() for tag in packed["repeats"]}
    return Numbers(**packed | {"repeats": repeats})


def _unpack_board(packed: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> BoardResult:
    directions, correlations = {}, {}
    for name, direction in packed["directions"].items():
        prefix = f"{packed['name']}/{name}"
        directions[name] = DirectionResult(
            query_ids=arrays[f"{prefix}/query_ids"],
            clusters=arrays[f"{prefix}/clusters"],
            values={
                metric: arrays[f"{prefix}/values/{metric}"] for metric in direction.pop("metrics")
            },
            rank=arrays.get(f"{prefix}/rank"),
            tied=arrays.get(f"{prefix}/tied"),
            rescored=Rescored(**direction.pop("rescored")) if "rescored" in direction else None,
            **direction,
        )
    for name, counts in packed["correlations"].items():
        columns: dict[str, Any] = {
            key: arrays[f"{packed['name']}/{name}/{key}"] for key in _CORRELATION_ARRAYS
        }
        correlations[name] = CorrelationResult(**columns, **counts)
    return BoardResult(**packed | {"directions": directions, "correlations": correlations})

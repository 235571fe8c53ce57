"""`ranks.npz`: results by query, stored for later statistics and comparisons.

The file has one array per key, readable with `numpy.load` alone. Directions have
`<benchmark>/<direction>/query_ids`, `/clusters`, `/values/<metric>` and, if known, `/rank` and
`/tied`; correlations have `<benchmark>/<rating>/samples`, `/images` and `/influence`; `header` is a
JSON string with everything that is not an array. Results without benchmarks have
`<name>/repeats/<tag>`.
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
from xmodal.evals.reports.results import CorrelationResult, DirectionResult, Rescored, Result

_FORMAT = {"format": "xmodal ranks", "version": 2}
# Field of a result -> the kind of its parts.
_KINDS = {"directions": DirectionResult, "correlations": CorrelationResult}
# Field of several arrays -> the list of their names in the header.
_NESTED = {"values": "metrics", "repeats": "repeats"}
RANKS = "ranks.npz"  # In the folder of an evaluation.
# Name of the evaluator of an evaluation that stands alone, as of own functions.
SINGLE = "."


@dataclasses.dataclass(frozen=True)
class StoredResults:
    """A stored evaluation.

    Attributes:
      results: results of benchmarks, and others that have values in shared samples.
      name: name of the model.
      place: the file's folder; "" for results that are not in a file.
      records: hash of the records of every evaluated dataset, by name; empty if unknown.
    """

    results: Sequence[Result]
    name: str
    place: str = ""
    records: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def labels(self) -> dict[str, str]:
        """The hash of the labels of every result, by name."""
        return {each.name: each.label_hash for each in self.results}


def pack_ranks(stored: StoredResults) -> bytes:
    """Returns the content of `ranks.npz`; equal results have equal bytes."""
    arrays: dict[str, Any] = {}
    results = [dataclasses.replace(each, metrics={}, chance={}) for each in stored.results]
    packed = [_pack(each, each.name, arrays) for each in results]
    header = {"model": stored.name, "records": dict(stored.records), "benchmarks": packed}
    arrays["header"] = np.array(json.dumps(_FORMAT | header, default=np.generic.item))
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
      folder: `ranks.npz`, the folder of an evaluation, or one with the folders of several, see
        `find_evaluations`.
      like: the evaluation.

    Raises:
      UserError: there is no such evaluation, or several; lists all evaluations.
    """
    places = find_evaluations(folder)
    if not places or SINGLE in places:
        return load_ranks(folder)
    stored = {place: load_ranks(place) for place in places.values()}
    found = [
        each
        for each in stored.values()
        if set(each.labels.items()) & set(like.labels.items())
        and not different_records(like.records, each.records)
    ]
    if len(found) == 1:
        return found[0]
    raise UserError(
        f"{folder} has {len(found)} evaluations on the labels of {like.name}, {like.labels}: name "
        f"the folder of one; there are {', '.join(map(str, stored))}."
    )


def load_ranks(path: epath.PathLike) -> StoredResults:
    """Returns the content of a file from `pack_ranks`, or of the one in an evaluation's folder.

    Raises:
      UserError: the file is missing, damaged, or not one of this version.
    """
    path = epath.Path(path)
    path = path / RANKS if path.is_dir() else path
    if not path.exists():
        raise UserError(f"There is no file {path}; name the output folder of an evaluation.")
    try:
        with load_arrays(io.BytesIO(path.read_bytes())) as file:
            arrays = dict(file)
        header = parse_json_text(str(arrays["header"]))
        if header["version"] != _FORMAT["version"]:
            raise ValueError(f"version {header['version']} of {header['format']}")
        packed = [*header["benchmarks"], *header.get("numbers", ())]  # Of older files.
        results = [_unpack(Result, each, each["name"], arrays) for each in packed]
    except (AttributeError, *DAMAGE) as error:
        raise UserError(
            f"{path} is not the {RANKS} of an evaluation, or it is damaged or of another version "
            f"({error}): evaluate that model again."
        ) from error
    folder = str(path.parent) if path.parent.name else path.name
    return StoredResults(results, header["model"], folder, dict(header.get("records", {})))


def _pack(record: Any, prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    """The part of the header for a result, whose arrays are added under a prefix."""
    header: dict[str, Any] = {}
    for key, value in vars(record).items():
        if key in _KINDS:
            header[key] = {
                name: _pack(each, f"{prefix}/{name}", arrays) for name, each in value.items()
            }
        elif key in _NESTED:
            arrays |= {f"{prefix}/{key}/{tag}": np.asarray(x) for tag, x in value.items()}
            header[_NESTED[key]] = list(value)
        elif isinstance(value, np.ndarray):
            arrays[f"{prefix}/{key}"] = value
        elif isinstance(value, Rescored):
            header[key] = dataclasses.asdict(value)
        elif value is not None:
            header[key] = value
    return header


def _unpack(kind: Any, header: Mapping[str, Any], prefix: str, arrays: Mapping[str, Any]) -> Any:
    """The result that `_pack` took."""
    given: dict[str, Any] = {}
    for key in (field.name for field in dataclasses.fields(kind)):
        if f"{prefix}/{key}" in arrays:
            given[key] = arrays[f"{prefix}/{key}"]
        elif key in _NESTED:
            given[key] = {t: arrays[f"{prefix}/{key}/{t}"] for t in header.get(_NESTED[key], ())}
        elif key in header:
            value = given[key] = header[key]
            if key in _KINDS:
                given[key] = {
                    name: _unpack(_KINDS[key], each, f"{prefix}/{name}", arrays)
                    for name, each in value.items()
                }
            elif key == "rescored":
                given[key] = Rescored(**value)
    return kind(**given)

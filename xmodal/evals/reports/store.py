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
from xmodal.core.files import FINAL
from xmodal.core.untrusted.saved_arrays import DAMAGE, load_arrays
from xmodal.evals.labels.split import different_records
from xmodal.evals.reports.results import CorrelationResult, DirectionResult, Rescored, Result

_FORMAT = {"format": "xmodal ranks", "version": 3}
RANKS = "ranks.npz"  # In the folder of an evaluation.
_ARRAY = "array"  # Marks an array in the header, with its name.
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
    packed = [_pack(dataclasses.asdict(each), each.name, arrays) for each in results]
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


def find_ranks(
    folder: epath.PathLike,
    name: str = "",
    labels: Mapping[str, str] | None = None,
    records: Mapping[str, str] | None = None,
) -> StoredResults:
    """Returns the only results in a folder, those of an evaluator, or those on the same labels.

    Args:
      folder: `ranks.npz`, the folder of an evaluation, or one with the folders of several, see
        `find_evaluations`.
      name: the evaluator.
      labels: the labels, as `StoredResults.labels`, if the folder has several evaluations and none
        of this evaluator.
      records: the records, as in `StoredResults`.
    """
    places = find_evaluations(folder)
    if len(places) < 2 or name in places:
        return load_ranks(places.get(name, next(iter(places.values()), folder)))
    same = find_same(labels or {}, records or {}, places)
    if len(same) != 1:
        raise UserError(
            f"{folder} has {len(same)} evaluations on the labels {labels or {}}: name the folder "
            f"of one; there are {', '.join(map(str, places.values()))}."
        )
    return load_ranks(places[same[0]])


def find_same(
    labels: Mapping[str, str], records: Mapping[str, str], places: Mapping[str, epath.Path]
) -> list[str]:
    """Returns the names of the evaluations on these labels and records, as in `StoredResults`."""
    stored = {name: load_ranks(place) for name, place in places.items()}
    return [
        name
        for name, each in stored.items()
        if (common := labels.keys() & each.labels.keys())
        and all(labels[key] == each.labels[key] for key in common)
        and not different_records(records, each.records)
    ]


def load_ranks(path: epath.PathLike) -> StoredResults:
    """Returns the content of a file from `pack_ranks`, or of the one in an evaluation's folder."""
    path = epath.Path(path)
    path = path / RANKS if path.is_dir() else path
    if not path.exists():
        raise UserError(f"There is no file {path}; name the output folder of an evaluation.")
    try:
        with load_arrays(io.BytesIO(path.read_bytes())) as file:
            arrays = dict(file)
        header = json.loads(str(arrays["header"]))
        if header["version"] != _FORMAT["version"]:
            raise ValueError(f"version {header['version']} of {header['format']}")
        results = [_unpack(each, arrays) for each in header["benchmarks"]]
        model, records = header["model"], header["records"]
    except (AttributeError, *DAMAGE) as error:
        raise UserError(
            f"{path} is not the {RANKS} of an evaluation, or it is damaged or of another version "
            f"({error}): evaluate that model again."
        ) from error
    folder = str(path.parent) if path.parent.name else path.name
    return StoredResults(results, model, folder, records)


def _pack(value: Any, path: str, arrays: dict[str, Any]) -> Any:
    """A tree of values without its arrays, which are added under their paths."""
    if isinstance(value, Mapping):
        parts = {"directions": path, "correlations": path}  # Paths skip these levels.
        return {k: _pack(x, parts.get(k, f"{path}/{k}"), arrays) for k, x in value.items()}
    if not isinstance(value, np.ndarray | list):
        return value
    arrays[path] = np.asarray(value)
    return {_ARRAY: path}


def _unpack(packed: dict[str, Any], arrays: Mapping[str, Any]) -> Result:
    """The result whose fields `_pack` took."""

    def fill(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return arrays[value[_ARRAY]] if _ARRAY in value else {k: fill(x) for k, x in value.items()}

    fields = fill(packed)
    for name, each in fields["directions"].items():
        rescored = each["rescored"] and Rescored(**each["rescored"])
        fields["directions"][name] = DirectionResult(**each | {"rescored": rescored})
    for name, each in fields["correlations"].items():
        fields["correlations"][name] = CorrelationResult(**each)
    return Result(**fields)

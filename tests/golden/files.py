"""Reads the files that a case wrote: names, JSON, texts, arrays and TensorBoard curves."""

import hashlib
import json
import logging
import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.golden.commands import mask

# Names that differ between any two runs, and parts of checkpoints.
_NAMES = {
    r"(checkpoints/\d+/[^/]+|\bfrozen)/.*": r"\1",
    r"tfevents\.[\w.-]+": "tfevents",
    r"\bown-[0-9a-f]{16}\b": "own-HASH",  # Depends on the path of the pictures.
}
_TEXTS = (".md", ".csv", ".txt")
_LONGEST = 20_000  # Of a longer text, only the hash is kept.


def read_folder(folder: pathlib.Path, masks: Mapping[str, str]) -> dict[str, Any]:
    """Returns the sorted names of all files in a folder, and the contents of most."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    names = {path: _stable(str(path.relative_to(folder))) for path in paths}
    found: dict[str, Any] = {"files": sorted(set(names.values()))}
    kinds: dict[str, dict[str, Any]] = {"json": {}, "texts": {}, "arrays": {}, "curves": {}}
    for path, name in names.items():
        if re.search(r"checkpoints/|\bfrozen$", name):
            continue
        if path.suffix == ".json":
            kinds["json"][name] = json.loads(mask(path.read_text(), masks))
        elif path.suffix in _TEXTS:
            kinds["texts"][name] = _read_text(path, masks)
        elif path.suffix in (".npz", ".npy"):
            kinds["arrays"][name] = _read_arrays(path)
        elif "tfevents" in path.name:
            kinds["curves"].setdefault(name, {}).update(_read_curves(path))
    return found | {kind: content for kind, content in kinds.items() if content}


def _stable(name: str) -> str:
    for pattern, replacement in _NAMES.items():
        name = re.sub(pattern, replacement, name)
    return name


def _read_text(path: pathlib.Path, masks: Mapping[str, str]) -> Any:
    text = mask(path.read_text(errors="replace"), masks)
    if len(text) <= _LONGEST:
        return text.splitlines()
    return {"lines": text.count("\n"), "sha256": hashlib.sha256(text.encode()).hexdigest()}


def _read_arrays(path: pathlib.Path) -> dict[str, Any]:
    loaded = np.load(path)
    arrays = {"": loaded} if isinstance(loaded, np.ndarray) else dict(loaded)
    return {name: _summarize(array) for name, array in arrays.items()}


def _summarize(array: np.ndarray) -> dict[str, Any]:
    summary: dict[str, Any] = {"shape": list(array.shape), "dtype": str(array.dtype)}
    if array.dtype.kind in "biuf" and array.size:
        values = np.ravel(array).astype(np.float64)
        # The second sum depends on the order.
        weights = 1 + np.cos(np.arange(values.size))
        return summary | {"mean": np.abs(values).mean(), "weighted": (weights * values).mean()}
    return summary | {"sha256": hashlib.sha256(array.tobytes()).hexdigest()}


def _read_curves(path: pathlib.Path) -> dict[str, dict[str, float]]:
    """Returns the scalars of an event file: tag -> step -> value."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util import tensor_util

    logging.getLogger("tensorboard").setLevel(logging.ERROR)
    events = EventAccumulator(str(path), size_guidance={"tensors": 0})
    events.Reload()
    return {
        tag: {
            str(event.step): float(tensor_util.make_ndarray(event.tensor_proto))
            for event in events.Tensors(tag)
        }
        for tag in events.Tags()["tensors"]
        if events.SummaryMetadata(tag).plugin_data.plugin_name == "scalars"
    }

"""Readers of published weights: a path -> {name: array}."""

import dataclasses
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from etils import epath

from xmodal.core.errors import UserError
from xmodal.core.untrusted.json_text import parse_json_text
from xmodal.core.untrusted.names import is_inside
from xmodal.pretrained import array_files, tensorflow_files

SMALL_FILES = (
    "config.json",
    "bert_config.json",
    "tokenizer_config.json",
    "tokenizer.json",
    "modules.json",
    "sentence_bert_config.json",
    "1_Pooling/config.json",
    "open_clip_config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "vocab.txt",
    "assets/vocab.txt",
)
FORMATS = (
    "TensorFlow checkpoint (its folder, or the common start of its file names)",
    "SavedModel or TF-Hub folder (saved_model.pb with variables/)",
    "Hugging Face folder (model.safetensors, also in shards, with config.json)",
    ".safetensors",
    "Keras .h5, .weights.h5 or .keras",
    ".npz",
    "torch's .pth, .pt, .pth.tar, .ckpt or .bin, also TorchScript",
)

_PARTIAL = (".part", ".partial", ".incomplete", ".crdownload", ".download", ".tmp", ".aria2")
_TORCH = "pytorch_model.bin"
_PICKLES = (".pkl", ".ckpt.tar")
_SHARD = re.compile(r"(.*)\.data-(\d{5})-of-(\d{5})$")
_TORCH_SHARD = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.safetensors$")
_SCHEMES = ("gs", "s3", "az")


@dataclasses.dataclass(frozen=True)
class WeightSource:
    """Weights as they were published.

    Attributes:
      path: path of the weights.
      arrays: published names -> arrays. For a SavedModel and an object-graph checkpoint, the names
        of the variables without `:0`; for Keras' `.h5`, `LAYER/VARIABLE`, as in
        `conv1_conv/kernel`; for Keras' `.weights.h5` and `.keras`, which do not name variables,
        `LAYER/0`, `LAYER/1`, ... in the order in which the layer created them. For torch's files,
        see `torch_files.read_torch`.
      files: the other files in the folder, by name (see `SMALL_FILES`): `.json` parsed,
        `vocab.txt` as text.
    """

    path: str
    arrays: Mapping[str, np.ndarray]
    files: Mapping[str, Any]

    def content(self, name: str) -> bytes | None:
        """Returns any file in the folder of the weights as it is; None if there is none."""
        file = self.beside(name)
        return file.read_bytes() if file.exists() else None

    def beside(self, name: str) -> epath.Path:
        """Returns the path of a file in the folder of the weights, whether it exists or not."""
        path = epath.Path(self.path)
        return (path if path.is_dir() else path.parent) / name


def load_source(path: str | os.PathLike) -> WeightSource:
    """Returns all arrays at `path`, local or gs://, and detects their format.

    Raises:
      UserError: the path does not exist, is in none of `FORMATS`, or a part is missing or damaged.
    """
    scheme, colon, _ = os.fspath(path).partition("://")
    if colon and scheme not in _SCHEMES:
        raise UserError(f"{path} cannot be read here: download it, or use a gs:// path.")
    path = epath.Path(path)
    if path.name == "saved_model.pb":
        path = path.parent
    read = _recognize(path)
    folder = path if path.is_dir() else path.parent
    return WeightSource(os.fspath(path), read(), _small_files(folder))


def _recognize(path: epath.Path) -> Callable[[], dict[str, np.ndarray]]:
    """Returns the reader for the files at `path`, without opening them."""
    if path.is_dir():
        return _recognize_folder(path)
    for suffix, read in array_files.READERS.items():
        if path.name.endswith(suffix) and path.exists():
            return lambda: read(path)
    name = re.sub(r"\.(index|meta|data-\d{5}-of-\d{5})$", "", path.name)
    names = _names(path.parent) if path.parent.is_dir() else []
    if any(other == f"{name}.index" or _is_shard(name, other) for other in names):
        _check_shards(path.parent, name, names)
        return lambda: tensorflow_files.read_checkpoint(path.parent / name)
    if not path.exists():
        partial = [other for other in names if other.startswith(name) and _is_partial(other)]
        hint = f", only {partial[0]}: its download is not finished" if partial else ""
        raise UserError(f"There are no weights at {path}{hint}.")
    if _is_partial(path.name):
        raise UserError(f"{path} is an unfinished download: get the file again.")
    raise UserError(_unknown(path, [path.name]))


def _recognize_folder(folder: epath.Path) -> Callable[[], dict[str, np.ndarray]]:
    names = _names(folder)
    if not names:
        raise UserError(f"{folder} is empty: there are no weights in it.")
    unfinished = [name for name in names if _is_partial(name)]
    cache = _names(folder / ".cache/huggingface/download")
    unfinished += [name for name in cache if name.endswith(".incomplete")]
    if unfinished:
        raise UserError(
            f"{folder} is only partly downloaded ({unfinished[0]} is not finished): get it again."
        )
    if "saved_model.pb" in names:
        variables = folder / "variables"
        _check_shards(variables, "variables", _names(variables))
        return lambda: tensorflow_files.read_checkpoint(variables / "variables")
    if tables := [name for name in names if name.endswith(".safetensors.index.json")]:
        return lambda: _read_shards(folder, _one(folder, tables))
    if files := [name for name in names if name.endswith(".safetensors")]:
        if any(map(_TORCH_SHARD.match, files)):
            raise UserError(
                f"{folder} is only partly downloaded: it has {files[0]}, but not the "
                ".safetensors.index.json that lists all parts."
            )
        return lambda: array_files.read_safetensors(folder / _one(folder, files))
    prefixes = sorted({name.removesuffix(".index") for name in names if name.endswith(".index")})
    prefixes = prefixes or sorted({found[1] for name in names if (found := _SHARD.match(name))})
    if "checkpoint" in names and len(prefixes) != 1:
        state = (folder / "checkpoint").read_text()
        latest = re.search(r'^model_checkpoint_path: "(?:.*/)?([^"/]+)"', state, re.MULTILINE)
        prefixes = [latest[1]] if latest else prefixes
    if prefixes:
        prefix = _one(folder, prefixes)
        _check_shards(folder, prefix, names)
        return lambda: tensorflow_files.read_checkpoint(folder / prefix)
    others = [name for name in names if name.endswith(tuple(array_files.READERS))]
    # Beside the weights, transformers keeps options and states of a run in files of the same kind.
    others = [_TORCH] if _TORCH in others else others
    if others:
        return _recognize(folder / _one(folder, others))
    raise UserError(_unknown(folder, names))


def _read_shards(folder: epath.Path, table: str) -> dict[str, np.ndarray]:
    content = _parse(folder / table)
    weights = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(weights, dict):
        raise UserError(f"{folder / table} has no weight_map of names: download it again.")
    names = weights.values()
    if wrong := [name for name in names if not (isinstance(name, str) and is_inside(name))]:
        raise UserError(f"{folder / table} names {wrong[0]!r:.80}, not a file beside it.")
    files = sorted(set(names))
    if absent := [name for name in files if not (folder / name).is_file()]:
        raise UserError(
            f"{folder} is only partly downloaded: {table} names {len(files)} files, of which "
            f"{', '.join(absent)} is missing."
        )
    arrays: dict[str, np.ndarray] = {}
    for name in files:
        arrays |= array_files.read_safetensors(folder / name)
    if absent := sorted(set(weights) - set(arrays)):
        raise UserError(f"{folder}: {table} names {absent[0]}, which none of its files has.")
    return arrays


def _check_shards(folder: epath.Path, prefix: str, names: list[str]) -> None:
    """Raises an error if a file of a TensorFlow checkpoint is missing."""
    wanted = {f"{prefix}.index"}
    shards = [_SHARD.match(name) for name in names if _is_shard(prefix, name)]
    count = int(shards[0][3]) if shards else 1
    wanted |= {f"{prefix}.data-{shard:05}-of-{count:05}" for shard in range(count)}
    if absent := sorted(wanted - set(names)):
        raise UserError(f"{folder} is only partly downloaded: {', '.join(absent)} is missing.")


def _is_shard(prefix: str, name: str) -> bool:
    found = _SHARD.match(name)
    return bool(found and found[1] == prefix)


def _is_partial(name: str) -> bool:
    return name.endswith(_PARTIAL)


def _names(folder: epath.Path) -> list[str]:
    return sorted(child.name for child in folder.iterdir()) if folder.is_dir() else []


def _one(folder: epath.Path, names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    raise UserError(f"{folder} has several: {', '.join(names)}. Name the one you mean.")


def _unknown(path: epath.Path, names: list[str]) -> str:
    known = "; ".join(FORMATS)
    if pickled := [name for name in names if name.endswith(_PICKLES)]:
        return (
            f"{path}: {pickled[0]} is pickled in an unknown form. Save the weights as "
            f".safetensors; a file of torch.save may also be named .pth. Known formats: {known}."
        )
    return f"{path} has no weights in a known format ({', '.join(names[:5])}). Known: {known}."


def _small_files(folder: epath.Path) -> dict[str, Any]:
    files: dict[str, Any] = {}
    for name in SMALL_FILES:
        path = folder / name
        if path.exists():
            is_json = name.endswith(".json")
            key = "vocab.txt" if name.endswith("vocab.txt") else name
            files[key] = _parse(path) if is_json else path.read_text(encoding="utf-8")
    return files


def _parse(path: epath.Path) -> Any:
    try:
        return parse_json_text(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is damaged or truncated ({error}): download it again.") from error

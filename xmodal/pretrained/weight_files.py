"""Readers of published weights: a path -> {name: array}."""

import collections
import dataclasses
import io
import json
import os
import re
from collections.abc import Mapping
from typing import Any

import h5py
import ml_dtypes
import numpy as np
import safetensors.numpy
from etils import epath

from xmodal.core.errors import UserError
from xmodal.core.files import is_in_object_store, read_json
from xmodal.pretrained import torch_files

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
_KERAS = (".h5", ".hdf5")
_KNOWN = (".safetensors", ".npz", *_KERAS, *torch_files.SUFFIXES)
_SHARDS = ".safetensors.index.json"
# In the files of TensorFlow; the last is the default name of a tf.Variable.
_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
_NAMELESS = re.compile(r"Variable(_\d+)?")
# What holds the weights of a folder, the first that there is: of a download in several formats, and
# beside options and states of a run in files of the same kind.
_IN_FOLDERS = (
    "variables/variables.index", f"*{_SHARDS}", "*.safetensors", "*.index", "pytorch_model.bin",
    *(f"*{suffix}" for suffix in _KNOWN),
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class WeightSource:
    """Weights as they were published.

    Attributes:
      path: path of the weights.
      arrays: published names -> arrays. For a SavedModel and an object-graph checkpoint, the names
        of the variables without `:0`; for Keras' `.h5`, `LAYER/VARIABLE`, as in
        `conv1_conv/kernel`. For torch's files, see `torch_files.collect_arrays`.
      files: the other files in the folder, by name (see `SMALL_FILES`): `.json` parsed,
        `vocab.txt` as text.
      objects: entries of a torch checkpoint by key, such as its training options, `opt`.
      variant: the variant that is asked for; "" if none.
      vocabulary: path of a vocabulary or a tokenizer's file; "" for the one in the source.
      concepts: path of a concept file; "" if none.
    """

    path: str
    arrays: Mapping[str, np.ndarray]
    files: Mapping[str, Any]
    objects: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    variant: str = ""
    vocabulary: str = ""
    concepts: str = ""

    @property
    def options(self) -> Mapping[str, Any]:
        """The training options of a torch checkpoint; {} if it has none."""
        return torch_files.attributes(self.objects.get("opt"))

    def choose(self, usual: str, trained: str | None = None) -> str:
        """Returns the variant that the options name, else the one asked for, else the usual one."""
        if self.variant and trained and self.variant != trained:
            raise UserError(
                f"its options say that it is the variant {trained!r}, not {self.variant!r}; leave "
                "--variant out."
            )
        return self.variant or trained or usual

    def beside(self, name: str) -> epath.Path:
        """Returns the path of a file in the folder of the weights, whether it exists or not."""
        path = epath.Path(self.path)
        return (path if path.is_dir() else path.parent) / name


def load_source(path: str | os.PathLike) -> WeightSource:
    """Returns all arrays at `path`, local or gs://, in the format that the file's name tells."""
    given = epath.Path(path)
    given = given.parent if given.name == "saved_model.pb" else given
    file = _find(given)
    objects: Mapping[str, Any] = {}
    try:
        if file.name.endswith(torch_files.SUFFIXES):
            found = torch_files.read_objects(file)
            arrays, objects = torch_files.collect_arrays(found), torch_files.attributes(found)
        else:
            arrays = _read(file)
        files = _small_files(given if given.is_dir() else given.parent)
    except UserError:
        raise
    except Exception as error:  # Libraries raise errors of any type.
        reason = str(error).split("\n")[0]
        raise UserError(f"{file} cannot be read ({reason}): download it again.") from error
    return WeightSource(os.fspath(given), arrays, files, objects)


def _find(path: epath.Path) -> epath.Path:
    """Returns the file with the weights; of a TensorFlow checkpoint, its `.index`."""
    if path.is_dir():
        for pattern in _IN_FOLDERS:
            found = sorted(path.glob(pattern))
            if len(found) > 1:
                names = ", ".join(file.name for file in found)
                raise UserError(f"{path} has several: {names}. Name the one you mean.")
            if found:
                return found[0]
    else:
        start = re.sub(r"\.(index|meta|data-\d{5}-of-\d{5})$", "", path.name)
        index = path.with_name(f"{start}.index")
        if index.exists():
            return index
        if path.exists() and path.name.endswith((*_KNOWN, _SHARDS)):
            return path
    raise UserError(
        f"There are no weights at {path} in a known format: a TensorFlow checkpoint, a SavedModel "
        f"or TF-Hub folder, a Hugging Face folder, or {', '.join(_KNOWN)}."
    )


def _read(file: epath.Path) -> dict[str, np.ndarray]:
    if file.name.endswith(".index"):
        return _read_checkpoint(file.with_suffix(""))
    if file.name.endswith(".npz"):
        with file.open("rb") as opened, np.load(opened) as arrays:
            # NumPy stores bfloat16 as two bytes without a meaning; big_vision's files have it.
            types = {np.dtype("V2"): np.dtype(ml_dtypes.bfloat16)}
            return {name: x.view(types.get(x.dtype, x.dtype)) for name, x in arrays.items()}
    if file.name.endswith(_KERAS):
        return _read_keras(file)
    if file.name.endswith(_SHARDS):
        parts = sorted(set(json.loads(file.read_text())["weight_map"].values()))
        shards = [read_safetensors(file.with_name(name)) for name in parts]
        return {name: array for shard in shards for name, array in shard.items()}
    return read_safetensors(file)


def read_safetensors(file: epath.Path) -> dict[str, np.ndarray]:
    """Returns all tensors of a .safetensors file, local or on a bucket."""
    if is_in_object_store(file):
        return safetensors.numpy.load(file.read_bytes())
    return safetensors.numpy.load_file(os.fspath(file))


def write_safetensors(
    file: epath.Path, arrays: Mapping[str, np.ndarray], metadata: dict[str, str] | None = None
) -> None:
    """Writes a .safetensors file, a local one without a copy of the arrays in memory."""
    if is_in_object_store(file):
        file.write_bytes(safetensors.numpy.save(dict(arrays), metadata))
    else:
        safetensors.numpy.save_file(dict(arrays), os.fspath(file), metadata)


def _read_checkpoint(prefix: epath.Path) -> dict[str, np.ndarray]:
    """Returns all numeric arrays of a checkpoint.

    Args:
      prefix: common start of the names of its files.

    Returns:
      {name: array}. Object-based checkpoints name every array by its place in the tree of objects;
      here it has the name of its variable, unless another array has the same name.
    """
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(prefix))
    types = reader.get_variable_to_dtype_map()
    keys = [
        key for key, dtype in types.items() if dtype != tf.string and "OPTIMIZER_SLOT" not in key
    ]
    arrays = {key: np.asarray(reader.get_tensor(key)) for key in keys}
    names = {key: key.removesuffix(_VALUE) for key in keys}
    if _GRAPH in types:
        found = _readable_names(reader.get_tensor(_GRAPH))
        readable = {key: name for key, name in found.items() if key in names}
        counts = collections.Counter((names | readable).values())
        names |= {key: name for key, name in readable.items() if counts[name] == 1}
    return {names[key]: array for key, array in arrays.items()}


def _readable_names(graph: bytes) -> dict[str, str]:
    from tensorflow.core.protobuf import trackable_object_graph_pb2

    nodes = trackable_object_graph_pb2.TrackableObjectGraph.FromString(graph).nodes
    values = [value for node in nodes for value in node.attributes]
    return {
        value.checkpoint_key: value.full_name
        for value in values
        if value.full_name and not _NAMELESS.fullmatch(value.full_name)
    }


def _read_keras(path: epath.Path) -> dict[str, np.ndarray]:
    """Returns the variables of a Keras file, without optimizer state."""
    long: dict[str, np.ndarray] = {}
    short: dict[str, str] = {}

    def visit(name: str, item: h5py.Group | h5py.Dataset) -> None:
        *groups, variable = name.split("/")
        if isinstance(item, h5py.Group) or any(each.startswith("optimizer") for each in groups):
            return
        long[name] = item[()]
        # conv1/conv1/kernel:0 -> conv1/kernel.
        short[name] = "/".join([*groups[-1:], variable.removesuffix(":0")])

    with h5py.File(io.BytesIO(path.read_bytes())) as file:
        file.get("model_weights", file).visititems(visit)
    is_unique = len(set(short.values())) == len(short)
    return {short[name] if is_unique else name: array for name, array in long.items()}


def _small_files(folder: epath.Path) -> dict[str, Any]:
    files: dict[str, Any] = {}
    for name in SMALL_FILES:
        path = folder / name
        if path.exists() and name.endswith(".json"):
            files[name] = read_json(path, "download it again.")
        elif path.exists():
            files["vocab.txt"] = path.read_text(encoding="utf-8")
    return files

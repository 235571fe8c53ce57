"""Tiny files of every kind from elsewhere, and their readers."""

import dataclasses
import gzip
import io
import json
import pathlib
import pickle
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import h5py
import numpy as np
import PIL.Image
import safetensors.numpy
from etils import epath

from data_prep.building.image_check import BadImageError, checked_image, thumbnail
from data_prep.errors import UnexpectedFilesError
from data_prep.reading.fetched_files import read_table
from data_prep.reading.image_files import open_images
from data_prep.reading.tar_samples import read_tar
from data_prep.reading.text_files import read_json, read_jsonl
from data_prep.region_features.feature_stores import FeatureStores
from data_prep.untrusted.plain_pickles import DAMAGE, load_plain
from xmodal.base.config import UserError
from xmodal.base.cxc_files import read_cxc_file
from xmodal.data import feature_records, records
from xmodal.evals.inputs.arrays import load_embeddings, load_scores
from xmodal.evals.inputs.lists import load_rankings
from xmodal.preprocessing import decode_image
from xmodal.preprocessing.concept_graph import read_concepts
from xmodal.preprocessing.images import decode_upright
from xmodal.preprocessing.tokenizer_files import read_vocabulary
from xmodal.pretrained import array_files, torch_files, weight_files
from xmodal.pretrained import folder as tower_folder
from xmodal.pretrained.vocabularies import read_words
from xmodal.pretrained.word_vectors import load_word_vectors
from xmodal.runs.folder import checkpoints, run_folder

FOR_USERS = (UserError, UnexpectedFilesError)
_ARRAYS = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b/kernel": np.array([1, 2, 3], np.int64),
}
_CXC = """caption1,caption2,agg_score,sampling_method
COCO_val2014:sentid:1,COCO_val2014:sentid:2,2.5,c2c_cocaption
"""


@dataclasses.dataclass(frozen=True)
class Reader:
    """A kind of file.

    Attributes:
      write: writes whole files into a folder; returns those that are mutated.
      read: reads them.
      errors: what it may raise.
      share: of so many mutations one is tried, where reading is slow.
    """

    write: Callable[[pathlib.Path], list[pathlib.Path]]
    read: Callable[[pathlib.Path], Any]
    errors: tuple[type[Exception], ...] = FOR_USERS
    share: int = 1


def plain(value: Any) -> Any:
    """Returns a value that equals that of an equal file."""
    if isinstance(value, np.ndarray):
        return (str(value.dtype), value.shape, value.tobytes())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain(vars(value))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value if isinstance(value, (str, bytes, int, float, type(None))) else repr(type(value))


def _file(
    name: str,
    content: Callable[[], bytes],
    read: Callable[[pathlib.Path], Any],
    errors: tuple[type[Exception], ...] = FOR_USERS,
) -> Reader:
    def write(folder: pathlib.Path) -> list[pathlib.Path]:
        (folder / name).write_bytes(content())
        return [folder / name]

    return Reader(write, lambda folder: read(folder / name), errors)


def _written(write: Callable[[io.BytesIO], Any]) -> Callable[[], bytes]:
    def content() -> bytes:
        file = io.BytesIO()
        write(file)
        return file.getvalue()

    return content


def _torch(**options: Any) -> Callable[[], bytes]:
    def write(file: io.BytesIO) -> None:
        import torch

        tensors = {name: torch.from_numpy(array) for name, array in _ARRAYS.items()}
        torch.save(
            {"model": tensors, "opt": {"epochs": 3}, "words": [1.0, (2, "x")]}, file, **options
        )

    return _written(write)


def _script(file: io.BytesIO) -> None:
    import torch

    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 3)), file)


def _h5(file: io.BytesIO) -> None:
    with h5py.File(file, "w") as root:
        root["layer/kernel:0"] = _ARRAYS["a"]
        root.create_dataset(
            "layer/bias:0", data=_ARRAYS["b/kernel"], chunks=(2,), compression="gzip"
        )


def _keras(file: io.BytesIO) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.weights.h5", _written(_h5)())


def _features(file: io.BytesIO) -> None:
    rows = np.arange(24, dtype=np.float32).reshape(3, 8)
    with h5py.File(file, "w") as root:
        root["image_features"] = rows
        root["pos_boxes"] = np.array([[0, 1], [1, 3]])
        root["image_ids"] = np.array([4, 9])


def _tar(file: io.BytesIO) -> None:
    with tarfile.open(fileobj=file, mode="w") as archive:
        members = {
            "1.jpg": _picture("JPEG")(),
            "1.json": b'{"url": "u"}',
            "2.jpg": b"B",
            "2.txt": b"t",
        }
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def _zip(file: io.BytesIO) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("images/a.jpg", bytes(1000))
        archive.writestr("images/b.jpg", b"B")


def _picture(kind: str) -> Callable[[], bytes]:
    pixels = np.random.default_rng(0).integers(0, 256, (12, 9, 3), np.uint8)
    return _written(lambda file: PIL.Image.fromarray(pixels).save(file, kind))


def _parquet(file: io.BytesIO) -> None:
    import pyarrow
    import pyarrow.parquet

    rows = {
        "url": ["u", "v"],
        "caption": ["a", "b"],
        "status": ["success"] * 2,
        "jpg": [b"A", b"B"],
    }
    pyarrow.parquet.write_table(pyarrow.table(rows), file)


def _read_archive(path: pathlib.Path) -> Any:
    images = open_images(path.parent, path.name.partition(".")[0])
    found = []
    for name in ("a.jpg", "b.jpg", "1.jpg"):
        try:
            found.append(images.read(name))
        except BadImageError as error:
            found.append(error.reason)
    return found


def _read_samples(found: Any) -> Any:
    rows = []
    for sample in found:
        try:
            rows.append(sample.read() if hasattr(sample, "read") else (sample.where, sample.reason))
        except BadImageError as error:
            rows.append(error.reason)
    return rows


def _read_stores(path: pathlib.Path) -> Any:
    stores = FeatureStores(path.parent)
    return [stores.read(number) for number in (4, 9) if number in stores]


def _read_pictures(path: pathlib.Path) -> Any:
    encoded, found = path.read_bytes(), []
    for read in (decode_image, decode_upright, checked_image, lambda each: thumbnail(each, 4)):
        try:
            found.append(read(encoded))
        except ValueError as error:  # Also `BadImageError`.
            found.append(type(error).__name__)
    return found


def _write_lmdb(folder: pathlib.Path) -> list[pathlib.Path]:
    item = {"features": _ARRAYS["a"], "num_boxes": 2, "image_id": b"4", "sizes": [1, (2, 3.5)]}
    (folder / "item.pkl").write_bytes(pickle.dumps(item, protocol=2))
    return [folder / "item.pkl"]


def _write_shards(folder: pathlib.Path) -> list[pathlib.Path]:
    names = {
        "a": "model-00001-of-00002.safetensors",
        "b/kernel": "model-00002-of-00002.safetensors",
    }
    for array, name in names.items():
        (folder / name).write_bytes(safetensors.numpy.save({array: _ARRAYS[array]}))
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": names}))
    (folder / "config.json").write_text('{"hidden_size": 3, "model_type": "bert"}')
    return [index, folder / "config.json", *(folder / name for name in names.values())]


def _write_tower(folder: pathlib.Path) -> list[pathlib.Path]:
    description = tower_folder.Description(
        {"name": "bert"}, None, {"max_length": 4}, {"vocab.txt": b"[PAD]\n[UNK]\na\n"}
    )
    tower_folder.write_tower(epath.Path(folder), {"params/a": _ARRAYS["a"]}, description)
    return [folder / "tower.json", folder / "weights.safetensors"]


def _write_tfrecord(folder: pathlib.Path) -> list[pathlib.Path]:
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(folder / "a.tfrecord")) as writer:
        for record in (b"first", b"second " * 20, b""):
            writer.write(record)
    return [folder / "a.tfrecord"]


def _read_tfrecord(folder: pathlib.Path) -> Any:
    part = dataclasses.make_dataclass("Part", ["filename", "skip", "take"])
    source = records.TFRecords([part(str(folder / "a.tfrecord"), 0, -1)])
    return list(records.read_records(source, np.arange(len(source)), "x", "y"))


def _write_frozen(folder: pathlib.Path) -> list[pathlib.Path]:
    arrays = [np.ones((2, 3), feature_records.DTYPE), np.zeros((1, 3), feature_records.DTYPE)]
    feature_records.write_features(str(folder / "f"), "image_features", {"weights": "x"}, arrays)
    return sorted(path for path in (folder / "f").iterdir() if path.name != "lock")


def _read_frozen(folder: pathlib.Path) -> Any:
    return feature_records.open_features(str(folder / "f")).read(np.arange(2), 2)


def _write_checkpoint(folder: pathlib.Path) -> list[pathlib.Path]:
    import orbax.checkpoint as ocp

    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(folder / "params", dict(_ARRAYS))
    return sorted(path for path in (folder / "params").rglob("*") if path.is_file())


def _write_config(folder: pathlib.Path) -> list[pathlib.Path]:
    text = {"vocabulary": "vocab.txt", "max_length": 4}
    config = {"data": {"text": text, "image": None}, "select": {"metric": "x"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "records.json").write_text('{"vocabulary": ""}')
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\na\n")
    return [folder / name for name in ("config.json", "records.json")]


def _json(value: Any) -> Callable[[], bytes]:
    return json.dumps(value).encode


_RANKINGS = {"i2t": {"1": [5, 6], "2": [6, 5]}}
_EMBEDDINGS = {
    "image_ids": np.arange(2), "image_embeddings": np.ones((2, 3), np.float32),
    "caption_ids": np.arange(2), "caption_embeddings": np.eye(2, 3, dtype=np.float32),
    "similarity": np.array("dot"),
}  # fmt: skip
_SCORES = {"scores": np.eye(2), "image_ids": np.arange(2), "caption_ids": np.arange(2)}
_GRAPH = {"concepts": ["a", "b"], "forms": {"a": 0}, "captions": [2, 1], "joint": [[0, 1, 1]]}
_TSV = "9\t6\t4\t1\tAAAA\tAACAPwAAAEA=\n4\t6\t4\t1\tAAAA\tAACAPw==\n"
_BINARY = b"2 3\ncat " + bytes(12) + b"dog " + bytes(12)
_VECTORS = b"2 3\ncat 1 2 3\ndog 4 5 6\n"
_WORDS = {"word2idx": {"a": 0, "b": 1}, "idx2word": {0: "a"}}


def _vectors(path: pathlib.Path) -> Any:
    return load_word_vectors(str(path))


def _torch_tensors(path: pathlib.Path) -> Any:
    return torch_files.read_torch(epath.Path(path))


def _keras_arrays(path: pathlib.Path) -> Any:
    return array_files.read_keras(epath.Path(path))


def _lines(path: pathlib.Path) -> Any:
    return list(read_jsonl(path))


def _samples(path: pathlib.Path) -> Any:
    return _read_samples(read_tar(path, "a"))


def _table(path: pathlib.Path) -> Any:
    return _read_samples(read_table(path, "a"))


READERS: Mapping[str, Reader] = {
    "torch checkpoint": _file("a.pth", _torch(), _torch_tensors),
    "torch checkpoint before 1.6": _file(
        "a.pth",
        _torch(_use_new_zipfile_serialization=False),
        _torch_tensors,
    ),
    "TorchScript": _file("a.pt", _written(_script), _torch_tensors),
    "pickled vocabulary": _file("a.pkl", lambda: pickle.dumps(_WORDS), read_words),
    "pickled features": Reader(
        _write_lmdb, lambda f: load_plain((f / "item.pkl").open("rb")), DAMAGE
    ),
    "safetensors": _file(
        "a.safetensors",
        lambda: safetensors.numpy.save(_ARRAYS),
        lambda p: array_files.read_safetensors(epath.Path(p)),
    ),
    "npz of weights": _file(
        "a.npz",
        _written(lambda file: np.savez_compressed(file, **_ARRAYS)),
        lambda p: array_files.read_npz(epath.Path(p)),
    ),
    "Keras h5": _file("a.h5", _written(_h5), lambda p: array_files.read_h5(epath.Path(p))),
    "Keras archive": _file("a.keras", _written(_keras), _keras_arrays),
    "shards of weights": Reader(
        _write_shards, lambda f: vars(weight_files.load_source(f)) | {"path": ""}
    ),
    "converted tower": Reader(_write_tower, tower_folder.read_weights),
    "word vectors": _file(
        "a.txt.gz", lambda: gzip.compress(_VECTORS), _vectors
    ),
    "binary word vectors": _file("a.bin", lambda: _BINARY, _vectors),
    "embeddings": _file(
        "a.npz",
        _written(lambda file: np.savez(file, **_EMBEDDINGS)),
        lambda p: load_embeddings(str(p)),
    ),
    "scores": _file(
        "a.npz", _written(lambda file: np.savez(file, **_SCORES)), lambda p: load_scores(str(p))
    ),
    "rankings": _file("a.json", _json(_RANKINGS), lambda p: load_rankings(str(p))),
    "concepts": _file("a.json", _json(_GRAPH), read_concepts),
    "vocabulary": _file("vocab.txt", lambda: b"[PAD]\n[UNK]\nred\nstar\n", read_vocabulary),
    "merges": _file(
        "merges.txt", lambda: b"#version: 0.2\nt h\nth e</w>\na t</w>\n", read_vocabulary
    ),
    "CxC ratings": _file("sts_val.csv", _CXC.encode, lambda p: read_cxc_file(p, "sts")),
    "gzipped JSON": _file("a.json", lambda: gzip.compress(_json(_RANKINGS)()), read_json),
    "JSON lines": _file("a.jsonl", lambda: b'{"a": 1}\n{"b": [2]}\n', _lines),
    "tar shard": _file("a.tar", _written(_tar), _samples),
    "gzipped tar shard": _file("a.tar.gz", lambda: gzip.compress(_written(_tar)()), _samples),
    "tar of images": _file("a.tar", _written(_tar), _read_archive),
    "zip of images": _file("a.zip", _written(_zip), _read_archive),
    "Parquet shard": _file("a.parquet", _written(_parquet), _table),
    "HDF5 features": _file("a.h5", _written(_features), _read_stores),
    "npz features": _file(
        "9.npz", _written(lambda file: np.savez(file, x=_ARRAYS["a"], num_bbox=2)), _read_stores
    ),
    "TSV features": _file("a.tsv", _TSV.encode, _read_stores, (*FOR_USERS, FileNotFoundError)),
    **{
        f"{kind} picture": _file("a.jpg", _picture(kind), _read_pictures)
        for kind in ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
    },
    "TFRecord": Reader(_write_tfrecord, _read_tfrecord),
    "frozen features": Reader(_write_frozen, _read_frozen),
    "Orbax checkpoint": Reader(
        _write_checkpoint, lambda f: checkpoints.read_arrays(epath.Path(f / "params")), share=15
    ),
    "config of a run": Reader(_write_config, lambda f: run_folder.load_run(str(f)).to_dict()),
}  # fmt: skip

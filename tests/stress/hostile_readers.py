"""Tiny files of every kind from elsewhere, and their readers."""

import dataclasses
import gzip
import json
import pathlib
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import safetensors.numpy
from etils import epath

from data_prep.building.image_check import check_readable, checked_image
from data_prep.cxc.cxc_files import read_cxc_file
from data_prep.reading.fetched_files import read_table
from data_prep.reading.image_files import open_images
from data_prep.reading.tar_samples import read_tar
from data_prep.reading.text_files import read_json, read_jsonl
from data_prep.region_features.feature_stores import FeatureStores
from tests.data.text import tiny_pieces
from tests.stress import tiny_files
from xmodal.core.errors import BadImageError, UnexpectedFilesError, UserError
from xmodal.core.untrusted.plain_pickles import DAMAGE, load_plain
from xmodal.data import feature_records
from xmodal.data.pixels.images import decode_image, decode_upright
from xmodal.data.text.concept_graph import read_concepts
from xmodal.data.text.text_config import TextConfig
from xmodal.data.text.tokenizer_files import read_vocabulary
from xmodal.data.text.tokenizers import make_tokenizer
from xmodal.evals.scores.arrays import load_embeddings, load_scores
from xmodal.evals.scores.lists import load_rankings
from xmodal.pretrained import array_files, torch_files, weight_files
from xmodal.pretrained import folder as tower_folder
from xmodal.pretrained.vocabularies import read_words
from xmodal.pretrained.word_vectors import load_word_vectors
from xmodal.train.folder import checkpoints, run_folder

FOR_USERS = (UserError, UnexpectedFilesError)
_CXC = """caption1,caption2,agg_score,sampling_method
COCO_val2014:sentid:1,COCO_val2014:sentid:2,2.5,c2c_cocaption
"""


@dataclasses.dataclass(frozen=True)
class Reader:
    """A kind of file.

    Attributes:
      write: writes whole files into a folder; returns those that are mutated.
      read: reads them.
      errors: its errors for users.
      is_exact: whether checksums find every change, so that no other values come out.
    """

    write: Callable[[pathlib.Path], list[pathlib.Path]]
    read: Callable[[pathlib.Path], Any]
    errors: tuple[type[Exception], ...] = FOR_USERS
    is_exact: bool = False


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
    for read in (decode_image, decode_upright, checked_image, check_readable):
        try:
            found.append(read(encoded))
        except ValueError as error:  # Also `BadImageError`.
            found.append(type(error).__name__)
    return found


def _read_frozen(folder: pathlib.Path) -> Any:
    return feature_records.open_features(str(folder / "f")).read(np.arange(2), 2)


def _read_step(folder: pathlib.Path) -> Any:
    checkpoints.check_whole(str(folder), 1, ("params",))
    return checkpoints.read_tree(str(folder), 1, "params")


def _ids(tokenizer: str) -> Callable[[pathlib.Path], Any]:
    def read(path: pathlib.Path) -> Any:
        vocabulary = read_vocabulary(path)
        encode = make_tokenizer(TextConfig(tokenizer, max_length=9), vocabulary).encode
        return list(vocabulary), encode(["a red star", "", "two ends \N{SNOWMAN}"])

    return read


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
    "torch checkpoint": _file("a.pth", tiny_files.torch(), _torch_tensors),
    "torch checkpoint before 1.6": _file(
        "a.pth",
        tiny_files.torch(_use_new_zipfile_serialization=False),
        _torch_tensors,
    ),
    "TorchScript": _file("a.pt", tiny_files.written(tiny_files.script), _torch_tensors),
    "pickled vocabulary": _file("a.pkl", lambda: pickle.dumps(_WORDS), read_words),
    "pickled features": Reader(
        tiny_files.write_pickle, lambda f: load_plain((f / "item.pkl").open("rb")), DAMAGE
    ),
    "safetensors": _file(
        "a.safetensors",
        lambda: safetensors.numpy.save(tiny_files.ARRAYS),
        lambda p: array_files.read_safetensors(epath.Path(p)),
    ),
    "npz of weights": _file(
        "a.npz",
        tiny_files.written(lambda file: np.savez_compressed(file, **tiny_files.ARRAYS)),
        lambda p: array_files.read_npz(epath.Path(p)),
    ),
    "Keras h5": _file(
        "a.h5", tiny_files.written(tiny_files.h5), lambda p: array_files.read_h5(epath.Path(p))
    ),
    "Keras archive": _file("a.keras", tiny_files.written(tiny_files.keras), _keras_arrays),
    "shards of weights": Reader(
        tiny_files.write_shards, lambda f: vars(weight_files.load_source(f)) | {"path": ""}
    ),
    "converted tower": Reader(tiny_files.write_tower, tower_folder.read_weights),
    "word vectors": _file("a.txt.gz", lambda: gzip.compress(_VECTORS), _vectors),
    "binary word vectors": _file("a.bin", lambda: _BINARY, _vectors),
    "embeddings": _file(
        "a.npz",
        tiny_files.written(lambda file: np.savez(file, **_EMBEDDINGS)),
        lambda p: load_embeddings(str(p)),
    ),
    "scores": _file(
        "a.npz",
        tiny_files.written(lambda file: np.savez(file, **_SCORES)),
        lambda p: load_scores(str(p)),
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
    "tar shard": _file("a.tar", tiny_files.written(tiny_files.tar), _samples),
    "gzipped tar shard": _file(
        "a.tar.gz", lambda: gzip.compress(tiny_files.written(tiny_files.tar)()), _samples
    ),
    "tar of images": _file("a.tar", tiny_files.written(tiny_files.tar), _read_archive),
    "zip of images": _file("a.zip", tiny_files.written(tiny_files.zip), _read_archive),
    "Parquet shard": _file("a.parquet", tiny_files.written(tiny_files.parquet), _table),
    "HDF5 features": _file(
        "a.h5",
        tiny_files.written(tiny_files.features),
        _read_stores,
        (*FOR_USERS, FileNotFoundError),
    ),
    "npz features": _file(
        "9.npz",
        tiny_files.written(lambda file: np.savez(file, x=tiny_files.ARRAYS["a"], num_bbox=2)),
        _read_stores,
    ),
    "TSV features": _file("a.tsv", _TSV.encode, _read_stores, (*FOR_USERS, FileNotFoundError)),
    **{
        f"{kind} picture": _file("a.jpg", tiny_files.picture(kind), _read_pictures)
        for kind in ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
    },
    "LMDB features": Reader(
        tiny_files.write_lmdb,
        lambda f: _read_stores(f / "data.mdb"),
        (*FOR_USERS, FileNotFoundError),
    ),
    "SentencePiece model": _file("a.model", tiny_pieces.sentencepiece_model, _ids("sentencepiece")),
    "tokenizer.json": _file("a.json", tiny_pieces.tokenizer_json, _ids("tokenizer_json")),
    "frozen features": Reader(tiny_files.write_frozen, _read_frozen),
    "Orbax checkpoint": Reader(
        tiny_files.write_checkpoint, lambda f: checkpoints.read_arrays(epath.Path(f / "params"))
    ),
    "checkpoint of a run": Reader(tiny_files.write_run, _read_step, is_exact=True),
    "config of a run": Reader(
        tiny_files.write_config, lambda f: run_folder.load_run(str(f)).to_dict()
    ),
}

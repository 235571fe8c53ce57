"""Writes tiny files of every kind that comes from elsewhere."""

import io
import json
import pathlib
import pickle
import tarfile
import zipfile
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np
import PIL.Image
import safetensors.numpy
from etils import epath

from xmodal.data import feature_records
from xmodal.pretrained import folder as tower_folder
from xmodal.train.folder.damaged_checkpoints import save_hashes

ARRAYS = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b/kernel": np.array([1, 2, 3], np.int64),
}


def written(write: Callable[[io.BytesIO], Any]) -> Callable[[], bytes]:
    def content() -> bytes:
        file = io.BytesIO()
        write(file)
        return file.getvalue()

    return content


def torch(**options: Any) -> Callable[[], bytes]:
    def write(file: io.BytesIO) -> None:
        import torch

        tensors = {name: torch.from_numpy(array) for name, array in ARRAYS.items()}
        torch.save(
            {"model": tensors, "opt": {"epochs": 3}, "words": [1.0, (2, "x")]}, file, **options
        )

    return written(write)


def script(file: io.BytesIO) -> None:
    import torch

    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 3)), file)


def h5(file: io.BytesIO) -> None:
    with h5py.File(file, "w") as root:
        root["layer/kernel:0"] = ARRAYS["a"]
        root.create_dataset(
            "layer/bias:0", data=ARRAYS["b/kernel"], chunks=(2,), compression="gzip"
        )


def keras(file: io.BytesIO) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.weights.h5", written(h5)())


def features(file: io.BytesIO) -> None:
    rows = np.arange(24, dtype=np.float32).reshape(3, 8)
    with h5py.File(file, "w") as root:
        root["image_features"] = rows
        root["pos_boxes"] = np.array([[0, 1], [1, 3]])
        root["image_ids"] = np.array([4, 9])


def tar(file: io.BytesIO) -> None:
    with tarfile.open(fileobj=file, mode="w") as archive:
        members = {
            "1.jpg": picture("JPEG")(),
            "1.json": b'{"url": "u"}',
            "2.jpg": b"B",
            "2.txt": b"t",
        }
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def zip(file: io.BytesIO) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("images/a.jpg", bytes(1000))
        archive.writestr("images/b.jpg", b"B")


def picture(kind: str) -> Callable[[], bytes]:
    pixels = np.random.default_rng(0).integers(0, 256, (12, 9, 3), np.uint8)
    return written(lambda file: PIL.Image.fromarray(pixels).save(file, kind))


def parquet(file: io.BytesIO) -> None:
    import pyarrow
    import pyarrow.parquet

    rows = {
        "url": ["u", "v"],
        "caption": ["a", "b"],
        "status": ["success"] * 2,
        "jpg": [b"A", b"B"],
    }
    pyarrow.parquet.write_table(pyarrow.table(rows), file)


def write_pickle(folder: pathlib.Path) -> list[pathlib.Path]:
    item = {"features": ARRAYS["a"], "num_boxes": 2, "image_id": b"4", "sizes": [1, (2, 3.5)]}
    (folder / "item.pkl").write_bytes(pickle.dumps(item, protocol=2))
    return [folder / "item.pkl"]


def write_lmdb(folder: pathlib.Path) -> list[pathlib.Path]:
    import lmdb

    with lmdb.open(str(folder), map_size=2**20) as env, env.begin(write=True) as transaction:
        for number, name in enumerate((b"4", b"9")):
            rows = np.full((3, 8 + 400 * number), number, np.float32)  # One on pages of its own.
            transaction.put(name, pickle.dumps({"features": rows, "num_boxes": 3}, protocol=2))
    (folder / "lock.mdb").unlink()
    return [folder / "data.mdb"]


def write_shards(folder: pathlib.Path) -> list[pathlib.Path]:
    names = {
        "a": "model-00001-of-00002.safetensors",
        "b/kernel": "model-00002-of-00002.safetensors",
    }
    for array, name in names.items():
        (folder / name).write_bytes(safetensors.numpy.save({array: ARRAYS[array]}))
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": names}))
    (folder / "config.json").write_text('{"hidden_size": 3, "model_type": "bert"}')
    return [index, folder / "config.json", *(folder / name for name in names.values())]


def write_tower(folder: pathlib.Path) -> list[pathlib.Path]:
    description = tower_folder.Description(
        {"name": "bert"}, None, {"max_length": 4}, {"vocab.txt": b"[PAD]\n[UNK]\na\n"}
    )
    tower_folder.write_tower(epath.Path(folder), {"params/a": ARRAYS["a"]}, description)
    return [folder / "tower.json", folder / "weights.safetensors"]


def write_frozen(folder: pathlib.Path) -> list[pathlib.Path]:
    arrays = [np.ones((2, 3), feature_records.DTYPE), np.zeros((1, 3), feature_records.DTYPE)]
    feature_records.write_features(str(folder / "f"), "image_features", {"weights": "x"}, arrays)
    return sorted(path for path in (folder / "f").iterdir() if path.name != "lock")


def write_checkpoint(folder: pathlib.Path) -> list[pathlib.Path]:
    import orbax.checkpoint as ocp

    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(folder / "params", dict(ARRAYS))
    return sorted(path for path in (folder / "params").rglob("*") if path.is_file())


def write_run(folder: pathlib.Path) -> list[pathlib.Path]:
    import orbax.checkpoint as ocp

    step = folder / "checkpoints" / "1"
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(step / "params", dict(ARRAYS))
    save_hashes(epath.Path(step))
    return sorted(path for path in step.rglob("*") if path.is_file())


def write_config(folder: pathlib.Path) -> list[pathlib.Path]:
    text = {"vocabulary": "vocab.txt", "max_length": 4}
    config = {"data": {"text": text, "image": None}, "select": {"metric": "x"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "records.json").write_text('{"vocabulary": ""}')
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\na\n")
    return [folder / name for name in ("config.json", "records.json")]

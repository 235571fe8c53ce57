"""Folders of converted towers.

weights.safetensors   our names -> float32 arrays: `params/...`, `batch_stats/...`
tower.json            `name` and `keywords` of the tower, `preprocessing` of its inputs
report.txt            what became of every array of the source
vocab.txt             of text towers
"""

import dataclasses
import json
import os
import uuid
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors.numpy
from etils import epath

from xmodal.config import UserError
from xmodal.pretrained import array_files
from xmodal.pretrained.report import Report


@dataclasses.dataclass(frozen=True)
class Description:
    """A tower, apart from its weights.

    Attributes:
      name: key of `models.dual_encoder.TOWERS`.
      keywords: of the tower.
      preprocessing: what its inputs have to be, as plain data.
      files: texts that belong to it, by file name (`vocab.txt`).
    """

    name: str
    keywords: Mapping[str, Any]
    preprocessing: Mapping[str, Any]
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)


def save_tower(
    folder: str | os.PathLike,
    arrays: Mapping[str, np.ndarray],
    description: Description,
    report: Report,
) -> None:
    """Writes a folder; it has its name only when all of it is there.

    Raises:
      UserError: something is there already.
    """
    target = epath.Path(folder)
    check_new(target)
    temporary = target.parent / f"{target.name}.{uuid.uuid4().hex}.incomplete"
    temporary.mkdir(parents=True)
    try:
        weights = safetensors.numpy.save(dict(arrays))
        (temporary / "weights.safetensors").write_bytes(weights)
        (temporary / "report.txt").write_text(report.text())
        for name, text in description.files.items():
            (temporary / name).write_text(text, encoding="utf-8")
        fields = ("name", "keywords", "preprocessing")
        content = {field: getattr(description, field) for field in fields}
        # Last, because on a bucket files appear one by one: without it the folder is not read.
        (temporary / "tower.json").write_text(json.dumps(content, indent=2) + "\n")
        temporary.rename(target)
    except BaseException:
        temporary.rmtree()
        raise


def check_new(folder: str | os.PathLike) -> None:
    """Refuses a folder that exists or cannot be made.

    Raises:
      UserError: it does, or a file is where one of its parents should be.
    """
    path = epath.Path(folder)
    if path.exists():
        raise UserError(f"{folder} exists already: give another --output, or remove it.")
    # A bucket has no folders that could be files.
    if "://" not in os.fspath(folder):
        parent = next(parent for parent in path.parents if parent.exists())
        if not parent.is_dir():
            raise UserError(f"{folder} cannot be made, {parent} is a file: give another --output.")


def read_description(folder: str | os.PathLike) -> Description:
    """Reads what a folder says of its tower.

    Raises:
      UserError: it is no folder of `data_prep.convert_weights`, or a file is damaged.
    """
    root = epath.Path(folder)
    path = root / "tower.json"
    if path.exists() and not (root / "weights.safetensors").exists():
        raise UserError(f"{folder} is incomplete: weights.safetensors is missing.")
    if not path.exists():
        raise UserError(
            f"{folder} is no converted tower: {path} is missing. Make one by `python -m "
            "data_prep.convert_weights`."
        )
    try:
        content = json.loads(path.read_text())
        name, keywords = content["name"], content["keywords"]
        preprocessing = content["preprocessing"]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged ({error!r}): convert the weights again.") from error
    vocabulary = root / "vocab.txt"
    files = {"vocab.txt": vocabulary.read_text(encoding="utf-8")} if vocabulary.exists() else {}
    return Description(name, keywords, preprocessing, files)


def check_weights(folder: str | os.PathLike) -> None:
    """Makes sure that the weights of a folder are whole, without reading them.

    Raises:
      UserError: their file is damaged or cut off.
    """
    array_files.check_safetensors(epath.Path(folder) / "weights.safetensors")


def read_weights(folder: str | os.PathLike) -> dict[str, np.ndarray]:
    """Reads the arrays of a folder by their flat names.

    Raises:
      UserError: it is no folder of `data_prep.convert_weights`, or a file is missing or damaged.
    """
    read_description(folder)
    return array_files.read_safetensors(epath.Path(folder) / "weights.safetensors")


def load_tower(
    folder: str | os.PathLike,
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Reads a converted tower.

    Returns:
      Params and model state as nested dicts of float32 arrays, as the tower takes them, and its
      keywords with its `name`: what a config says under `model.image` or `model.text`.

    Raises:
      UserError: it is no folder of `data_prep.convert_weights`, or a file is missing or damaged.
    """
    description = read_description(folder)
    tree: dict[str, Any] = {"params": {}}
    for path, array in read_weights(folder).items():
        *parents, last = path.split("/")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = array
    return tree.pop("params"), tree, {"name": description.name, **description.keywords}

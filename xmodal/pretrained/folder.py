"""Folders of converted towers and models.

A tower has

weights.safetensors   our names -> float32 arrays: `params/encoder/...`, `batch_stats/encoder/...`
tower.json            `encoder`, `head` and `projection` as in a config, `preprocessing` of the
                      inputs
report.txt            the use of every array of the source
vocab.txt             the vocabulary of a text tower, or another file of `tokenizer_files.FILES`

and a model

model.json               `similarity` as in a config, its learned numbers, `parameters`, `tasks`,
                         `cross_encoder` as in a config
image, text              the towers, without a report
similarity.safetensors   arrays of the similarity, if it has any
cross_encoder.safetensors  parameters of the cross-encoder
tasks.safetensors        parameters of tasks: `NAME/module/...`
report.txt               the use of every array of the source
"""

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import safetensors
from etils import epath

from xmodal.core.errors import UserError
from xmodal.core.files import is_in_object_store, new_folder
from xmodal.data.text.tokenizer_files import FILES
from xmodal.pretrained.conversion_report import Report
from xmodal.pretrained.weight_files import read_safetensors, write_safetensors

MODALITIES = ("image", "text")
_WEIGHTS = "weights.safetensors"
_PARTS = ("similarity", "cross_encoder", "tasks")


@dataclasses.dataclass(frozen=True)
class Description:
    """A tower, apart from its weights.

    Attributes:
      encoder: `name`, a key of `models.ENCODERS`, and its keywords.
      head: `name`, a key of `models.HEADS`, and its keywords; None if the weights were published
        without a head, so that any may follow.
      preprocessing: preprocessing of the inputs, as plain data.
      files: files that belong to the tower, by name (`vocab.txt`).
      projection: the projection as in a config, None for none.
    """

    encoder: Mapping[str, Any]
    head: Mapping[str, Any] | None
    preprocessing: Mapping[str, Any]
    files: Mapping[str, bytes] = dataclasses.field(default_factory=dict)
    projection: Mapping[str, Any] | None = None

    def section(self) -> dict[str, Any]:
        """Returns the section of `config.model` that computes the published vectors.

        Without a published head, BERT uses the output at [CLS] and other encoders use the mean.
        """
        usual = {"name": "cls" if self.encoder["name"] == "bert" else "mean"}
        section = {"encoder": dict(self.encoder), "head": dict(self.head or usual)}
        if self.projection is not None:
            section["projection"] = dict(self.projection)
        return section


@dataclasses.dataclass(frozen=True)
class ModelDescription:
    """A model, apart from the weights of its towers.

    Attributes:
      towers: "image" and "text" -> the tower.
      similarity: the similarity, as in `config.model.similarity`.
      parameters: learned numbers of the similarity, such as `match_scale`.
      tasks: name -> section of `config.tasks`, for the tasks with parameters.
      cross_encoder: the cross-encoder, as in `config.model.cross_encoder`.
    """

    towers: Mapping[str, Description]
    similarity: Mapping[str, Any]
    parameters: Mapping[str, float]
    tasks: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    cross_encoder: Mapping[str, Any] | None = None

    def section(self) -> dict[str, Any]:
        """Returns the section `config.model`."""
        section: dict[str, Any] = {side: tower.section() for side, tower in self.towers.items()}
        section["similarity"] = dict(self.similarity)
        if self.cross_encoder is not None:
            section["cross_encoder"] = dict(self.cross_encoder)
        return section


def save_folder(
    folder: str | os.PathLike,
    arrays: Mapping[str, np.ndarray],
    description: Description | ModelDescription,
    report: Report,
) -> None:
    """Writes a folder, which appears under its name only when it is complete.

    Args:
      folder: the folder to create.
      arrays: arrays by name: of a tower, `params/...` and `batch_stats/...`; of a model, these
        below `MODALITY/`, and `similarity/...`, `cross_encoder/...`, `tasks/NAME/module/...`.
      description: description of the tower or model.
      report: report on the source.
    """
    check_new(folder)
    with new_folder(folder) as temporary:
        (temporary / "report.txt").write_text(report.text())
        if isinstance(description, Description):
            _write_tower(temporary, arrays, description)
            return
        parts: dict[str, dict[str, np.ndarray]] = {}
        for name, array in arrays.items():
            part, _, rest = name.partition("/")
            parts.setdefault(part, {})[rest] = array
        for modality, tower in description.towers.items():
            (temporary / modality).mkdir()
            _write_tower(temporary / modality, parts.pop(modality, {}), tower)
        for part, own in parts.items():
            write_safetensors(temporary / f"{part}.safetensors", own)
        fields = (*_PARTS, "parameters")
        content = {field: dict(getattr(description, field) or {}) for field in fields}
        _write_card(temporary / "model.json", content)


def _write_tower(
    folder: epath.Path, arrays: Mapping[str, np.ndarray], description: Description
) -> None:
    write_safetensors(folder / _WEIGHTS, arrays)
    for name, file in description.files.items():
        (folder / name).write_bytes(file)
    fields = ("encoder", "head", "projection", "preprocessing")
    content = {field: getattr(description, field) for field in fields}
    _write_card(folder / "tower.json", content)


def _write_card(path: epath.Path, content: Mapping[str, Any]) -> None:
    # Last, because on a bucket files appear one by one: without it the folder is not read.
    path.write_text(json.dumps(content, indent=2) + "\n")


def check_new(folder: str | os.PathLike) -> None:
    """Raises an error if a folder exists."""
    if epath.Path(folder).exists():
        raise UserError(f"{folder} exists already: give another --output, or remove it.")


def read_description(folder: str | os.PathLike) -> Description:
    """Returns the description of the tower in a folder."""
    root = epath.Path(folder)
    path = root / "tower.json"
    for needed in (path, root / _WEIGHTS):
        if not needed.exists():
            raise UserError(
                f"{folder} is not a converted tower: {needed} is missing. Make one with `xmodal "
                "convert`."
            )
    files = {name: (root / name).read_bytes() for name in FILES if (root / name).exists()}
    with _damaged(path):
        card = json.loads(path.read_text())
        encoder, head, inputs = card["encoder"], card["head"], card["preprocessing"]
        return Description(encoder, head, inputs, files, card.get("projection"))


def read_model(folder: str | os.PathLike) -> ModelDescription:
    """Returns the description of the model in a folder."""
    path = epath.Path(folder) / "model.json"
    if not path.exists():
        raise UserError(
            f"{folder} is not a converted model: {path} is missing. Make one with `xmodal "
            "convert --model=...`; a folder of one tower goes to "
            "config.init_from.towers."
        )
    towers = {modality: read_description(epath.Path(folder) / modality) for modality in MODALITIES}
    with _damaged(path):
        card = json.loads(path.read_text())
        similarity, numbers = card["similarity"], card["parameters"]
        scorer = card.get("cross_encoder") or None
        return ModelDescription(towers, similarity, numbers, card.get("tasks", {}), scorer)


def check_weights(folder: str | os.PathLike) -> None:
    """Checks that the weights of a folder are complete, without reading them."""
    path = epath.Path(folder) / _WEIGHTS
    if not is_in_object_store(path):
        with _damaged(path), safetensors.safe_open(os.fspath(path), "numpy"):
            pass


def read_weights(folder: str | os.PathLike) -> dict[str, np.ndarray]:
    """Returns the arrays of a folder by their flat names."""
    read_description(folder)
    return _read_arrays(epath.Path(folder) / _WEIGHTS)


def read_part(folder: str | os.PathLike, part: str) -> dict[str, np.ndarray]:
    """Returns the arrays of a part of a model by name; {} if it has none.

    Args:
      folder: the folder of the model.
      part: "similarity" or "cross_encoder", for names such as `local/kernel`; or "tasks", for
        `NAME/module/...`.
    """
    path = epath.Path(folder) / f"{part}.safetensors"
    return _read_arrays(path) if path.exists() else {}


def _read_arrays(path: epath.Path) -> dict[str, np.ndarray]:
    with _damaged(path):
        return read_safetensors(path)


@contextlib.contextmanager
def _damaged(path: epath.Path) -> Iterator[None]:
    """Turns errors of reading a file into a sentence."""
    try:
        yield
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is damaged ({error}): convert the weights again.") from error

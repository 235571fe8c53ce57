"""Folders of converted models.

model.json               `similarity` as in a config, its learned numbers, `parameters`, `tasks`,
                         `cross_encoder` as in a config
image, text              the towers, see `folder`
similarity.safetensors   arrays of the similarity, if it has any
cross_encoder.safetensors  parameters of the cross-encoder
tasks.safetensors        parameters of tasks: `NAME/module/...`
report.txt               the use of every array of the source
"""

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from etils import epath

from xmodal.core.errors import UserError
from xmodal.core.files import new_folder
from xmodal.pretrained.conversion_report import Report
from xmodal.pretrained.folder import (
    Description,
    check_new,
    damaged,
    model_section,
    read_arrays,
    read_description,
    write_tower,
)
from xmodal.pretrained.weight_files import write_safetensors

MODALITIES = ("image", "text")
_PARTS = ("similarity", "cross_encoder", "tasks")


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

    def model(self) -> dict[str, Any]:
        """Returns the section `config.model`."""
        return model_section(self.towers, self.similarity, self.cross_encoder)


def save_model(
    folder: str | os.PathLike,
    arrays: Mapping[str, np.ndarray],
    description: ModelDescription,
    report: Report,
) -> None:
    """Writes a folder, which appears under its name only when it is complete.

    Args:
      folder: the folder to create.
      arrays: arrays by name: `MODALITY/params/...`, `MODALITY/batch_stats/...`, `similarity/...`,
        `cross_encoder/...`, `tasks/NAME/module/...`.
      description: description of the model.
      report: report on the source.

    Raises:
      UserError: the folder already exists.
    """
    target = epath.Path(folder)
    check_new(target)
    with new_folder(target) as temporary:
        (temporary / "report.txt").write_text(report.text())
        for modality, tower in description.towers.items():
            (temporary / modality).mkdir()
            write_tower(temporary / modality, _below(f"{modality}/", arrays), tower)
        content = {part: dict(getattr(description, part) or {}) for part in (*_PARTS, "parameters")}
        for part in _PARTS:
            if own := _below(f"{part}/", arrays):
                write_safetensors(temporary / f"{part}.safetensors", own)
        # Last, because on a bucket files appear one by one: without it the folder is not read.
        (temporary / "model.json").write_text(json.dumps(content, indent=2) + "\n")


def read_model(folder: str | os.PathLike) -> ModelDescription:
    """Returns the description of the model in a folder.

    Raises:
      UserError: it is not a folder of `xmodal convert --model`, or a file is damaged.
    """
    path = epath.Path(folder) / "model.json"
    if not path.exists():
        raise UserError(
            f"{folder} is not a converted model: {path} is missing. Make one with `xmodal "
            "convert --model=...`; a folder of one tower goes to "
            "config.init_from.towers."
        )
    towers = {modality: read_description(epath.Path(folder) / modality) for modality in MODALITIES}
    with damaged(path):
        card = json.loads(path.read_text())
        similarity, numbers = card["similarity"], card["parameters"]
        scorer = card.get("cross_encoder") or None
        return ModelDescription(towers, similarity, numbers, card.get("tasks", {}), scorer)


def read_part(folder: str | os.PathLike, part: str) -> dict[str, np.ndarray]:
    """Returns the arrays of a part of a model by name; {} if it has none.

    Args:
      folder: the folder of the model.
      part: "similarity" or "cross_encoder", for names such as `local/kernel`; or "tasks", for
        `NAME/module/...`.

    Raises:
      UserError: the file is damaged.
    """
    path = epath.Path(folder) / f"{part}.safetensors"
    return read_arrays(path) if path.exists() else {}


def _below(start: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays whose names have this prefix, by the rest of their names."""
    return {
        name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)
    }

"""Folders of converted models.

model.json    `similarity` as a config has it, and its learned `parameters`
image, text   the towers, see `folder`
report.txt    the use of every array of the source
"""

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from etils import epath

from xmodal.atomic import new_folder
from xmodal.config import UserError
from xmodal.pretrained.folder import (
    Description,
    check_new,
    damage,
    model_section,
    read_description,
    write_tower,
)
from xmodal.pretrained.report import Report

SIDES = ("image", "text")


@dataclasses.dataclass(frozen=True)
class ModelDescription:
    """A model, apart from the weights of its towers.

    Attributes:
      sides: "image" and "text" -> the tower.
      similarity: as `config.model.similarity`.
      parameters: learned parameters of the similarity, such as `match_scale`.
    """

    sides: Mapping[str, Description]
    similarity: Mapping[str, Any]
    parameters: Mapping[str, float]

    def model(self) -> dict[str, Any]:
        """Returns the section `config.model`."""
        return model_section(self.sides, self.similarity)


def save_model(
    folder: str | os.PathLike,
    arrays: Mapping[str, np.ndarray],
    description: ModelDescription,
    report: Report,
) -> None:
    """Writes a folder, which gets its name when it is complete.

    Args:
      folder: to be made.
      arrays: by the names `SIDE/params/...` and `SIDE/batch_stats/...`.
      description: of the model.
      report: on the source.

    Raises:
      UserError: the folder exists already.
    """
    target = epath.Path(folder)
    check_new(target)
    with new_folder(target) as temporary:
        (temporary / "report.txt").write_text(report.text())
        for side, tower in description.sides.items():
            start = f"{side}/"
            own = {
                name.removeprefix(start): array
                for name, array in arrays.items()
                if name.startswith(start)
            }
            (temporary / side).mkdir()
            write_tower(temporary / side, own, tower)
        fields = ("similarity", "parameters")
        content = {field: dict(getattr(description, field)) for field in fields}
        # Last, because on a bucket files appear one by one: without it the folder is not read.
        (temporary / "model.json").write_text(json.dumps(content, indent=2) + "\n")


def read_model(folder: str | os.PathLike) -> ModelDescription:
    """Returns the description of the model in a folder.

    Raises:
      UserError: it is no folder of `xmodal.convert_weights --model`, or a file is damaged.
    """
    path = epath.Path(folder) / "model.json"
    if not path.exists():
        raise UserError(
            f"{folder} is no converted model: {path} is missing. Make one by `python -m "
            "xmodal.convert_weights --model=...`; a folder of one tower goes to "
            "config.init_from.towers."
        )
    with damage(path):
        content = json.loads(path.read_text())
        similarity, parameters = dict(content["similarity"]), dict(content["parameters"])
    sides = {side: read_description(epath.Path(folder) / side) for side in SIDES}
    return ModelDescription(sides, similarity, parameters)

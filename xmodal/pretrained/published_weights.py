"""A published tower or model: its config, and the names of its arrays in the source."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from xmodal.core.tree_paths import leaves_by_path
from xmodal.data.pixels.images import ImageConfig
from xmodal.models import make_dual_encoder
from xmodal.pretrained.folder import Description, ModelDescription
from xmodal.pretrained.layer_rules import Arrays, Table, Taken, find


class PublishedTower(NamedTuple):
    """A tower, including projection and head, and the names of its arrays in the source."""

    description: Description
    table: Table


@dataclasses.dataclass(frozen=True)
class Published:
    """What a source holds.

    Attributes:
      image: the image tower, if any.
      text: the text tower, if any.
      similarity: the similarity, as in `config.model.similarity`; None for a single tower.
      parameters: learned parameters of the similarity -> the scalar in the source.
      cross_encoder: the cross-encoder, as in `config.model.cross_encoder`.
      tasks: name -> section of a task with weights, as in `config.tasks.NAME`, without columns.
      layers: the tables of `similarity`, `cross_encoder` and `tasks` (`NAME/module`), if they have
        arrays.
      notes: see `Report`.
      unused: regular expressions of the source's names that the model has no use for.
      arrays: arrays in place of the source's; None for the source's.
    """

    image: PublishedTower | None = None
    text: PublishedTower | None = None
    similarity: Mapping[str, Any] | None = None
    parameters: Mapping[str, str | Taken] = dataclasses.field(default_factory=dict)
    cross_encoder: Mapping[str, Any] | None = None
    tasks: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    layers: Mapping[str, Table] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    arrays: Arrays | None = None

    @property
    def towers(self) -> dict[str, PublishedTower]:
        """The towers by modality."""
        both = {"image": self.image, "text": self.text}
        return {modality: tower for modality, tower in both.items() if tower is not None}

    def describe(self, numbers: Mapping[str, float]) -> Description | ModelDescription:
        """Returns the description of the tower or the model, with its learned numbers."""
        towers = {modality: tower.description for modality, tower in self.towers.items()}
        if self.similarity is None:
            return next(iter(towers.values()))
        return ModelDescription(towers, self.similarity, numbers, self.tasks, self.cross_encoder)

    def find_arrays(self, arrays: Arrays) -> dict[str, tuple[Taken, tuple[int, ...] | None]]:
        """Returns the array of the source and the shape for each of ours.

        Names are `MODALITY/params/...`, `similarity/...`, `cross_encoder/...` and
        `tasks/NAME/module/...`; `params/...` and `batch_stats/...` for a single tower. Arrays of
        tasks are taken as they are, with a shape of None.
        """
        described = self.describe({})
        if isinstance(described, ModelDescription):
            section = described.section()
        else:
            section = {modality: described.section() for modality in self.towers}
        inputs = {name: _example(tower.description) for name, tower in self.towers.items()}
        model = make_dual_encoder(section)
        params, state = jax.eval_shape(model.init, jax.random.key(0), inputs)
        found: dict[str, tuple[Taken, tuple[int, ...] | None]] = {}
        for modality, tower in self.towers.items():
            start = f"{modality}/" if self.similarity else ""
            for part, tree in {"params": params[modality], **state[modality]}.items():
                for path, leaf in leaves_by_path(tree).items():
                    taken = find(arrays, tower.table, path)
                    found[f"{start}{part}/{path}"] = taken, leaf.shape
        for part, table in self.layers.items():
            shapes = {path: leaf.shape for path, leaf in leaves_by_path(params.get(part)).items()}
            for path in table if part == "tasks" else shapes:
                found[f"{part}/{path}"] = find(arrays, table, path), shapes.get(path)
        for name in self.parameters:
            found[f"similarity/{name}"] = find(arrays, self.parameters, name), ()
        return found


def _example(description: Description) -> dict[str, np.ndarray]:
    if "vocab_size" in description.encoder:
        return {name: np.zeros((1, 4), np.int32) for name in ("text_ids", "text_mask")}
    if features := description.encoder.get("features"):
        shape = (features,) if isinstance(features, int) else tuple(features)
        return {"image": np.zeros((1, *shape), np.float32)}
    inputs = description.preprocessing
    config = ImageConfig(size=inputs.get("size") or 96, patch=inputs.get("patch", 0))
    return {"image": np.zeros((1, *config.shape), np.uint8)}

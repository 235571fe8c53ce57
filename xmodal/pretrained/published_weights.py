"""A published tower or model: its config, and the names of its arrays in the source."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from xmodal.core.tree_paths import leaves_by_path
from xmodal.data.pixels.images import ImageConfig
from xmodal.models import make_dual_encoder, make_tower
from xmodal.pretrained.folder import Description, ModelDescription
from xmodal.pretrained.layer_rules import Arrays, Table, Taken, find


@dataclasses.dataclass(frozen=True)
class Published:
    """What a source holds.

    Attributes:
      towers: "image" and "text", or one of them -> the tower, including the weights of
        projection and head.
      layers: modality -> the table of its arrays, see `layer_rules.Table`; also of `similarity`,
        `cross_encoder` and `tasks` (`NAME/module`), if they have arrays.
      similarity: the similarity, as in `config.model.similarity`; None for a single tower.
      parameters: learned parameters of the similarity -> the scalar in the source.
      tasks: name -> section of a task with weights, as in `config.tasks.NAME`, without columns.
      cross_encoder: the cross-encoder, as in `config.model.cross_encoder`.
      notes: see `Report`.
      unused: regular expressions of the source's names that the model has no use for.
      arrays: arrays in place of the source's; None for the source's.
    """

    towers: Mapping[str, Description]
    layers: Mapping[str, Table]
    similarity: Mapping[str, Any] | None = None
    parameters: Mapping[str, str | Taken] = dataclasses.field(default_factory=dict)
    tasks: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    cross_encoder: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    arrays: Arrays | None = None

    def shapes(self) -> dict[str, tuple[int, ...] | None]:
        """Returns shapes by name; None for the arrays of tasks, which are taken as they are.

        Names are `MODALITY/params/...`, `similarity/...` and `tasks/NAME/module/...`; `params/...`
        and `batch_stats/...` for a single tower.
        """
        inputs = {modality: _example(description) for modality, description in self.towers.items()}
        key = jax.random.key(0)
        if self.similarity is None:
            ((modality, description),) = self.towers.items()
            tower = make_tower("the tower", description.section())
            params, state = jax.eval_shape(tower.init, key, inputs[modality])
            return _flat_shapes({"params": params, **state})
        described = ModelDescription(
            self.towers, self.similarity, {}, cross_encoder=self.cross_encoder
        )
        model = make_dual_encoder(described.section())
        params, state = jax.eval_shape(model.init, key, inputs)
        trees = {
            modality: {"params": params[modality], **state[modality]} for modality in self.towers
        }
        scorers = ("similarity", "cross_encoder")
        trees |= {part: params[part] for part in scorers if part in self.layers}
        return _flat_shapes(trees) | {
            f"tasks/{path}": None for path in self.layers.get("tasks", ())
        }

    def find(self, arrays: Arrays, name: str) -> Taken:
        """Returns the array of the source for one of ours; see `shapes`."""
        if self.similarity is None:
            name = f"{next(iter(self.towers))}/{name}"
        part, path = name.split("/", 1)
        if part in self.towers:
            path = path.split("/", 1)[1]
        return find(arrays, self.layers[part], path)


def _example(description: Description) -> dict[str, np.ndarray]:
    if "vocab_size" in description.encoder:
        return {name: np.zeros((1, 4), np.int32) for name in ("text_ids", "text_mask")}
    if features := description.encoder.get("features"):
        shape = (features,) if isinstance(features, int) else tuple(features)
        return {"image": np.zeros((1, *shape), np.float32)}
    inputs = description.preprocessing
    config = ImageConfig(size=inputs.get("size") or 96, patch=inputs.get("patch", 0))
    return {"image": np.zeros((1, *config.shape), np.uint8)}


def _flat_shapes(tree: Any) -> dict[str, tuple[int, ...] | None]:
    return {path: leaf.shape for path, leaf in leaves_by_path(tree).items()}

"""Rules from our names to those of a torch module, for both sides of a published model."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from xmodal.core.errors import UserError
from xmodal.data.pixels.images import ImageConfig
from xmodal.losses import LOSSES
from xmodal.models import Embedding, make_dual_encoder, make_task_module
from xmodal.pretrained.bert_weights import HUGGING_FACE_PARTS
from xmodal.pretrained.conversion_report import Taken
from xmodal.pretrained.folder import Description, model_section
from xmodal.pretrained.renaming import TORCH, flat_shapes, split_name
from xmodal.pretrained.resnet_weights import rename_torchvision

Arrays = Mapping[str, np.ndarray]
LayerRule = Callable[[str], Taken]
"""From the name of an array within its layer (`kernel`, `stem_norm/scale`) to the source."""


@dataclasses.dataclass(frozen=True)
class PublishedTask:
    """A task whose module has weights in the source.

    Attributes:
      section: the section, as in `config.tasks.NAME`, without columns of batches.
      rule: rule for the arrays of its module.
    """

    section: Mapping[str, Any]
    rule: LayerRule


@dataclasses.dataclass(frozen=True)
class Published:
    """A published model: its config, and the names of its arrays in the source.

    Attributes:
      sides: "image" and "text" -> the tower, including the weights of projection and head.
      similarity: the similarity, as in `config.model.similarity`.
      layers: side -> path of one of our layers or modules (`head/summary`) -> its rule; also of
        `similarity` and `pair_scorer`, if they have arrays. The longest path that matches an array
        is used.
      parameters: learned parameters of the similarity -> the scalar in the source.
      tasks: name -> task with weights.
      first_words: first words of the vocabulary, if the vocabulary file omits them.
      tokenizers: names of the tokenizer's files that it may have, see `tokenizer_files.FILES` ->
        additions of this kind to the preprocessing of the text; empty for a table of words.
      pair_scorer: the pair scorer, as in `config.model.pair_scorer`.
      notes: see `Report`.
    """

    sides: Mapping[str, Description]
    similarity: Mapping[str, Any]
    layers: Mapping[str, Mapping[str, LayerRule]]
    parameters: Mapping[str, str | Taken] = dataclasses.field(default_factory=dict)
    tasks: Mapping[str, PublishedTask] = dataclasses.field(default_factory=dict)
    first_words: tuple[str, ...] = ()
    tokenizers: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    pair_scorer: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Returns shapes by name, `SIDE/params/...`, `similarity/...`, `tasks/NAME/module/...`."""
        model = make_dual_encoder(model_section(self.sides, self.similarity, self.pair_scorer))
        inputs = {side: _example(description) for side, description in self.sides.items()}
        params, state = jax.eval_shape(model.init, jax.random.key(0), inputs)
        trees = {side: {"params": params[side], **state[side]} for side in self.sides}
        trees |= {part: params[part] for part in self.layers if part not in self.sides}
        if self.tasks:
            vectors = {
                side: jax.eval_shape(tower.apply, params[side], state[side], inputs[side])[0]
                for side, tower in model.towers.items()
            }
            trees["tasks"] = {
                name: {"module": _task_shapes(task.section, vectors)}
                for name, task in self.tasks.items()
            }
        return flat_shapes(trees)

    def find(self, name: str) -> Taken:
        """Returns the array of the source for one of ours; see `shapes`."""
        part, path = name.split("/", 1)
        if part == "tasks":
            task, path = path.split("/", 1)
            return self.tasks[task].rule(path.removeprefix("module/"))
        if part in self.sides:
            path = path.split("/", 1)[1]
        fits = [layer for layer in self.layers[part] if f"{path}/".startswith(f"{layer}/")]
        if not fits:
            raise UserError(f"{name} has no counterpart in the published model.")
        layer = max(fits, key=len)
        return self.layers[part][layer](path.removeprefix(layer).removeprefix("/"))


def _example(description: Description) -> dict[str, np.ndarray]:
    if "vocab_size" in description.encoder:
        return {name: np.zeros((1, 4), np.int32) for name in ("text_ids", "text_mask")}
    if features := description.encoder.get("features"):
        shape = (features,) if isinstance(features, int) else tuple(features)
        return {"image": np.zeros((1, *shape), np.float32)}
    inputs = description.preprocessing
    config = ImageConfig(size=inputs.get("size") or 96, patch=inputs.get("patch", 0))
    return {"image": np.zeros((1, *config.shape), np.uint8)}


def _task_shapes(section: Mapping[str, Any], vectors: Mapping[str, Embedding]) -> Any:
    """The shapes of the parameters of a task's module."""
    loss = section["loss"]
    module = make_task_module("the task", LOSSES[loss["name"]].module, loss["module"])
    left, right = (vectors["image" if v == "image" else "text"] for v in section["views"])
    return jax.eval_shape(module.init, jax.random.key(0), left, right, {}, {})[0]


def find_prefix(arrays: Arrays, name: str) -> str:
    """Returns the prefix of the name of an array in a source, such as `model.module.`.

    Raises:
      UserError: there is no array with this name, or several.
    """
    found = [key.removesuffix(name) for key in arrays if f".{key}".endswith(f".{name}")]
    if len(found) != 1:
        raise UserError(f"it has {len(found)} arrays {name!r}, but needs one.")
    return found[0]


def array_shape(arrays: Arrays, name: str) -> tuple[int, ...]:
    """Returns the shape of an array of a source.

    Raises:
      UserError: the source has no such array.
    """
    if name not in arrays:
        raise UserError(f"it has no array {name!r}.")
    return np.shape(arrays[name])


def whole(name: str) -> LayerRule:
    """The rule for an array that is used unchanged, such as a table of word vectors."""
    return lambda leaf: Taken(name)


def with_kernel(layer: str, change: Callable[[np.ndarray], np.ndarray], how: str) -> LayerRule:
    """The rule for a layer whose kernel torch stores in another layout; see `Taken`."""

    def rule(leaf: str) -> Taken:
        if leaf == "kernel":
            return Taken(f"{layer}.weight", change, how)
        return Taken(f"{layer}.{leaf}")

    return rule


def linear(layer: str) -> LayerRule:
    """The rule for `torch.nn.Linear`."""
    return with_kernel(layer, np.transpose, "transposed")


def convolution(layer: str) -> LayerRule:
    """The rule for `torch.nn.Conv1d` over single positions, which is a linear layer."""
    return with_kernel(layer, lambda kernel: np.squeeze(kernel, 2).T, "OIL to IO")


def convolution_2d(layer: str) -> LayerRule:
    """The rule for `torch.nn.Conv2d`."""
    return with_kernel(layer, lambda kernel: kernel.transpose(2, 3, 1, 0), "OIHW to HWIO")


def norm(layer: str) -> LayerRule:
    """The rule for `torch.nn.LayerNorm` and for a single `BatchNorm`."""
    return lambda leaf: Taken(f"{layer}.{TORCH[f'norm_{leaf}']}")


def resnet(module: str) -> LayerRule:
    """The rule for torchvision's ResNets."""

    def rule(leaf: str) -> Taken:
        taken = rename_torchvision(*split_name(f"params/encoder/{leaf}"))
        return taken._replace(name=f"{module}.{taken.name}")

    return rule


def bert(module: str, depth: int) -> LayerRule:
    """The rule for `transformers.BertModel`; our layers are stacked."""
    names = {"kernel": "weight", "scale": "weight", "bias": "bias"}

    def rule(leaf: str) -> Taken:
        if leaf.endswith("_embeddings"):
            return Taken(f"{module}.embeddings.{leaf}.weight")
        *start, part, array = leaf.split("/")
        if not start:
            return Taken(f"{module}.embeddings.LayerNorm.{names[array]}")
        theirs = f"{HUGGING_FACE_PARTS[part]}.{names[array]}"
        stacked = tuple(f"{module}.encoder.layer.{number}.{theirs}" for number in range(depth))
        if array == "kernel":
            return Taken(stacked, np.transpose, "transposed")
        return Taken(stacked)

    return rule


def gru(module: str) -> LayerRule:
    """The rule for `torch.nn.GRU`, which stacks the gates r, z, n; see `models.recurrent`."""
    return _recurrent(module, "rzn")


def lstm(module: str) -> LayerRule:
    """The rule for `torch.nn.LSTM`, which stacks the gates i, f, g, o."""
    return _recurrent(module, "ifgo")


def _recurrent(module: str, gates: str) -> LayerRule:
    def rule(leaf: str) -> Taken:
        layer, dense, kind = leaf.split("/")
        number, _, direction = layer.removeprefix("layer").partition("_")
        end = f"_l{int(number) - 1}" + ("_reverse" if direction == "backward" else "")
        name, gate = f"{'weight' if kind == 'kernel' else kind}_{dense[0]}h{end}", dense[1]

        def take(stacked: np.ndarray) -> np.ndarray:
            return np.split(stacked, len(gates))[gates.index(gate)].T

        how = f"gate {gate}, transposed" if kind == "kernel" else f"gate {gate}"
        return Taken(f"{module}.{name}", take, how)

    return rule

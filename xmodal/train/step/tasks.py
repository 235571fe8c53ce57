"""Tasks: the views of a batch that a loss compares."""

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import jax

from xmodal import data
from xmodal.core.config import alternatives, check_options, check_value, lookup, read, setting
from xmodal.core.errors import UserError
from xmodal.core.tree_paths import leaves_by_path
from xmodal.losses import LOSSES, Loss, NonNegative
from xmodal.models import DualEncoder, Embedding, TaskModule, make_task_module
from xmodal.similarity import Similarity, make_similarity
from xmodal.train.optimization import schedules
from xmodal.train.tree import Tree

VIEWS = ("image", *(f"caption_{number}" for number in range(20)))
NEGATIVES = ("image", "pair", "none")
# Views of mined negatives, by modality, in the order of `data.mined_negatives.MinedNegatives.draw`.
MINED_VIEWS = {
    "image": ("mined_image_0", "mined_image_1"),
    "text": ("mined_caption_0", "mined_caption_1"),
}


@dataclasses.dataclass(frozen=True)
class LossConfig:
    """The `loss` of a task.

    Attributes:
      name: key of `losses.LOSSES`.
      options: keyword arguments of the loss; a number may be a schedule of the step.
      inputs: batch columns that the loss or its module reads.
      reads: paths of tower parameters that the loss's module shares, such as a word table; they
        also receive this loss's gradient.
      module: keywords of the loss's module, for losses with their own parameters.
    """

    name: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    module: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class TaskConfig:
    """One entry of `config.tasks`.

    Attributes:
      loss: see `LossConfig`.
      views: (left, right), or the only view of a loss that takes one, of `VIEWS`: the image and
        the captions drawn for it.
      weight: weight of this loss in the sum; a number above 0, or a schedule of the step, which
        may reach 0.
      negatives: `image` excludes items of the same image from the negatives, `pair` only the pair
        itself; `none` for losses without negatives.
      similarity: like `config.model.similarity`, for a task that uses a different one.
    """

    loss: LossConfig
    views: tuple[str, ...] = setting(one_of=VIEWS)
    weight: float | Mapping[str, Any] = setting(1.0, above=0)
    negatives: str = setting("image", one_of=NEGATIVES)
    similarity: Mapping[str, Any] | None = None


@dataclasses.dataclass(frozen=True)
class Task:
    """One matching problem within a batch.

    Attributes:
      name: name in the config and in the scalars (`train/i2t/loss`).
      config: the checked section of the config.
      loss: row of `losses.LOSSES`.
      similarity: similarity that compares the views; None for the model's own.
      module: parameters of the loss, or None.
    """

    name: str
    config: TaskConfig
    loss: Loss
    similarity: Similarity | None
    module: TaskModule | None

    @property
    def views(self) -> tuple[str, ...]:
        """The views that are compared, left first."""
        return self.config.views

    def init(
        self,
        key: jax.Array,
        views: Mapping[str, Embedding],
        batch: Mapping[str, jax.Array],
        params: Tree,
    ) -> tuple[Tree, Tree]:
        """Returns `(params, state)` of the task, both empty for losses without parameters.

        Args:
          key: typed key.
          views: embeddings of any batch size, by view; only their shapes matter.
          batch: the columns named by `inputs`.
          params: parameters of the towers, some of which `reads` may name.
        """
        own, state = {}, {}
        left, right = modalities_of(self, views)
        if self.module is not None:
            reads = shared_parameters(self, leaves_by_path(params))
            inputs = self.read_columns(batch)
            own["module"], module_state = self.module.init(key, left, right, inputs, reads)
            state = {"module": module_state} if module_state else {}
        if self.similarity is not None:
            own["similarity"] = self.similarity.init(jax.random.fold_in(key, 1), left, right)
        return {name: params for name, params in own.items() if params or name == "module"}, state

    def read_columns(self, batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """Returns the columns named by `inputs`; text columns are those of the task's caption."""
        columns = {name: batch[name] for name in self.config.loss.inputs}
        for caption in caption_indices((self,)):
            of_texts = [name for name in columns if name.startswith("text_")]
            columns |= {name: columns[name][:, caption] for name in of_texts}
        return columns


def make_tasks(config: Mapping[str, Mapping[str, Any]]) -> tuple[Task, ...]:
    """Builds the tasks of `config.tasks`, at least one, in the order of their names."""
    if not config:
        raise UserError("config.tasks is empty; a run needs at least one task.")
    return tuple(_make_task(name, section) for name, section in sorted(config.items()))


def _make_task(name: str, section: Mapping[str, Any]) -> Task:
    where = f"config.tasks.{name}"
    config = read(TaskConfig, where, section)
    loss = lookup(f"{where}.loss.name", config.loss.name, LOSSES)
    _check_views(where, config, loss)
    check_options(f"{where}.loss.options", loss.function, config.loss.options, _expand)
    for each in schedules.values(f"{where}.weight", config.weight):
        check_value(f"{where}.weight", NonNegative, each)
    similarity = module = None
    if config.similarity is not None:
        similarity = make_similarity(config.similarity, where=f"{where}.similarity")
    if loss.module:
        module = make_task_module(f"{where}.loss.module", loss.module, config.loss.module)
    elif config.loss.module:
        raise UserError(f"{where}.loss.module is set, but {config.loss.name!r} has no parameters.")
    return Task(name, config, loss, similarity, module)


def _check_views(where: str, config: TaskConfig, loss: Loss) -> None:
    """Raises an error if the views and inputs of a task do not fit its loss."""
    views, name = list(config.views), config.loss.name
    if len(views) not in loss.views:
        takes = " or ".join(map(str, loss.views))
        raise UserError(f"{where}.views={views}, but the loss {name!r} takes {takes} view(s).")
    if loss.image_first and len(views) == 2 and [v == "image" for v in views] != [True, False]:
        raise UserError(
            f"{where}.views={views}, but the loss {name!r} takes an image and a text, in this "
            "order: set them to ['image', 'caption_0']."
        )


def _expand(where: str, hint: Any, value: Any) -> list[Any]:
    """All values of an option during a run."""
    if schedules.is_schedule(value) and jax.Array not in alternatives(hint):
        raise UserError(f"{where} is a schedule of the step; this option must be constant.")
    return schedules.values(where, value)


def caption_indices(tasks: tuple[Task, ...]) -> list[int]:
    """Returns the positions of the captions of each image that the tasks compare, ascending."""
    captions = {view for task in tasks for view in task.views if view != "image"}
    return sorted(int(view.removeprefix("caption_")) for view in captions)


def modalities(tasks: tuple[Task, ...]) -> set[str]:
    """Returns the modalities of the model that the tasks embed: "image", "text" or both."""
    return {"image" if view == "image" else "text" for task in tasks for view in task.views}


def reads_mined(tasks: tuple[Task, ...]) -> bool:
    """Returns whether a loss compares mined negatives."""
    return any(task.loss.mined for task in tasks)


def columns(tasks: tuple[Task, ...]) -> set[str]:
    """Returns the batch columns that the losses read besides the views."""
    return {name for task in tasks for name in task.config.loss.inputs}


def shared_parameters(task: Task, flat: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters that a task names in `reads`, by path, from all by path."""
    where = f"config.tasks.{task.name}.loss.reads"
    return {path: lookup(where, path, flat) for path in task.config.loss.reads}


def modalities_of(task: Task, views: Mapping[str, Embedding]) -> tuple[Embedding, Embedding | None]:
    """Returns the embeddings of a task's left and right view; None for a single view."""
    return views[task.views[0]], views[task.views[1]] if len(task.views) == 2 else None


def check_tasks(
    model: DualEncoder,
    tasks: tuple[Task, ...],
    config: data.DataConfig,
    freeze: Sequence[str],
    batch: Collection[str],
) -> None:
    """Raises an error if the tasks do not fit the model and the data.

    They train exactly the parts that the model has, and a similarity that is not symmetric compares
    images with texts, in this order, as in evaluation.

    Args:
      model: two towers, or one.
      tasks: the tasks.
      config: `config.data`.
      freeze: `config.freeze`; a modality that is frozen as a whole needs no task.
      batch: columns of a batch.
    """
    if (last := max(caption_indices(tasks), default=0)) >= config.captions_per_image:
        raise UserError(
            f"config.tasks compare caption_{last}, but config.data.captions_per_image="
            f"{config.captions_per_image} draws only caption_0 to "
            f"caption_{config.captions_per_image - 1}."
        )
    if reads_mined(tasks) != bool(config.mined_negatives):
        raise UserError(
            f"config.data.mined_negatives={config.mined_negatives!r}, and config.tasks "
            f"{'have' if reads_mined(tasks) else 'lack'} the loss 'quintuplet', which compares "
            "mined negatives: set both or neither. `xmodal mine` writes them."
        )
    trained = {m for m in model.towers if not any(re.match(p, f"{m}/") for p in freeze)}
    if not trained <= modalities(tasks) <= set(model.towers):
        raise UserError(
            f"config.tasks compare views of the modalities {sorted(modalities(tasks))}, "
            f"config.model has {sorted(model.towers)}; set the other modality to None, freeze it "
            "or add a task for it."
        )
    for task in tasks:
        similarity = task.similarity or model.similarity
        is_reversed = task.views[0] != "image" and task.views[1:] == ("image",)
        if is_reversed and not similarity.symmetric:
            raise UserError(
                f"config.tasks.{task.name}.views={list(task.views)}, but the similarity "
                f"{similarity.name!r} compares images with texts; set them to "
                f"{list(reversed(task.views))}."
            )
    if (model.cross_encoder is None) == any(task.loss.pairs for task in tasks):
        raise UserError(
            "A task with the loss 'matching' trains config.model.cross_encoder, which is "
            f"{'None' if model.cross_encoder is None else 'trained by no task'}; set both or "
            "neither."
        )
    if unknown := sorted(columns(tasks) - set(batch)):
        raise UserError(
            f"config.tasks read the columns {unknown}, and a batch has {sorted(batch)}; name "
            "the labels of the dataset in config.data.labels."
        )

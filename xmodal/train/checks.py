"""Checks that the parts of a run fit, before anything is computed."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from xmodal import data
from xmodal.core import mesh as mesh_lib
from xmodal.core.config import lookup
from xmodal.core.errors import UserError
from xmodal.models import DualEncoder
from xmodal.train.step.step import select_l2
from xmodal.train.step.tasks import Task, caption_indices, columns, modalities, reads_mined
from xmodal.train.tree import check_patterns, flatten, matches

if TYPE_CHECKING:
    from xmodal.train.run import Run


def check_modalities(model: DualEncoder, config: data.DataConfig) -> None:
    """Raises an error unless the model and `config.data` have the same modalities."""
    for modality, section in (("image", config.image), ("text", config.text)):
        if (modality in model.towers) != (section is not None):
            raise UserError(
                f"One of config.model.{modality} and config.data.{modality} is None; set both or "
                "neither."
            )


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
    trained = {modality for modality in model.towers if not matches(freeze, f"{modality}/")}
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


def check_start(run: "Run") -> None:
    """Raises an error if a run cannot train on its devices and data."""
    settings = run.settings
    mesh_lib.check_batch_size(settings.batch_size, run.mesh, settings.accumulation_steps)
    shapes = run.state_shapes  # This checks the optimizer and config.sharding.
    trained, frozen = flatten(shapes.params), flatten(shapes.frozen)
    check_patterns("config.init_from.published", settings.init_from.published, trained | frozen)
    if settings.l2 is not None:
        select_l2(settings.l2.pattern, trained)
    _check_frozen(run, trained, frozen)
    for name, options in run.evals.items():
        if not (run.model.cross_encoder if options.scores_pairs else run.model.embeds):
            part = "a cross-encoder" if options.scores_pairs else "embeddings"
            raise UserError(
                f"config.evals.{name} ranks by {part}, and config.model has none; change its "
                "reranker, or remove it."
            )
    examples = run.records.get("examples", settings.batch_size)
    if settings.batch_size > examples:
        raise UserError(
            f"config.batch_size={settings.batch_size} is more than the {examples:,} training "
            f"examples of config.train_split={settings.train_split!r}; lower it, or set it to "
            "'auto'."
        )


def _check_frozen(run: "Run", trained: Collection[str], frozen: Collection[str]) -> None:
    """Raises an error if frozen features would change, or towers share a part frozen on one."""
    settings = run.settings
    shared = tuple(f"{part}/" for part in run.model.shared)
    for path in frozen:
        modality, _, rest = path.partition("/")
        other = f"{'text' if modality == 'image' else 'image'}/{rest}"
        if rest.startswith(shared) and other in trained:
            raise UserError(
                f"{path} is frozen by config.freeze, but {other} is not, and config.model.shared "
                "makes them equal; freeze both or neither."
            )
    for modality in settings.frozen_features.modalities:
        tower = lookup("config.frozen_features.modalities", modality, run.model.towers)
        section: Any = getattr(settings.data, modality)
        encoder, place = settings.model[modality]["encoder"], f"config.model.{modality}.encoder"
        paths = [f"{modality}/{path}" for path in tower.frozen_paths(run.shapes[0][modality])]
        changing = [f"{path} is trained" for path in paths if path in trained]
        if encoder.get("dropout") and any(p.startswith(f"{modality}/encoder/") for p in trained):
            changing.append(f"{place}.dropout={encoder['dropout']}")
        if encoder.get("batch_norm") == "batch_frozen":
            changing.append(f"{place}.batch_norm='batch_frozen'")
        if section.augment is not None:
            changing.append(f"config.data.{modality}.augment is set")
        if changing:
            raise UserError(
                f"config.frozen_features.modalities names {modality!r}, whose features would "
                f"change while the run trains: {changing[0]}; change that, or leave {modality!r} "
                "out."
            )

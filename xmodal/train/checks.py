"""Checks that the parts of a run fit, before anything is computed."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import jax

from xmodal.core import mesh as mesh_lib
from xmodal.core.config import lookup
from xmodal.core.errors import UserError
from xmodal.core.object_store import is_in_object_store
from xmodal.train.step.step import check_modalities, select_l2
from xmodal.train.step.tasks import caption_indices, columns, reads_mined
from xmodal.train.step.views import tower_inputs
from xmodal.train.tree import Tree, check_patterns, flatten

if TYPE_CHECKING:
    from xmodal.train.run import Run


def check_parts(run: "Run", *, trains: bool = True) -> None:
    """Raises an error if the parts of a run do not fit, on whatever devices it was trained."""
    for modality, section in (("image", run.settings.data.image), ("text", run.settings.data.text)):
        if (modality in run.model.towers) != (section is not None):
            raise UserError(
                f"One of config.model.{modality} and config.data.{modality} is None; set both or "
                "neither."
            )
    if not trains:
        return
    _check_tasks(run)
    for name, options in run.evals.items():
        if not (run.model.cross_encoder if options.scores_pairs else run.model.embeds):
            part = "a cross-encoder" if options.scores_pairs else "embeddings"
            raise UserError(
                f"config.evals.{name} ranks by {part}, and config.model has none; change its "
                "reranker, or remove it."
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
    _check_widths(run)
    _check_frozen(run, trained, frozen)
    examples = run.records.get("examples", settings.batch_size)
    if settings.batch_size > examples:
        raise UserError(
            f"config.batch_size={settings.batch_size} is more than the {examples:,} training "
            f"examples of config.train_split={settings.train_split!r}; lower it, or set it to "
            "'auto'."
        )


def check_folder(folder: str) -> None:
    """Raises an error if features cannot be written to a folder."""
    if is_in_object_store(folder):
        raise UserError(
            f"config.frozen_features.folder={folder!r} is not on a file system; give a folder "
            "that every process sees."
        )


def _check_tasks(run: "Run") -> None:
    """Compares the tasks with the model and the data."""
    config, tasks = run.settings.data, run.tasks
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
    check_modalities(run.model, tasks, run.settings.freeze)
    if unknown := sorted(columns(tasks) - set(run.batch)):
        raise UserError(
            f"config.tasks read the columns {unknown}, and a batch has {sorted(run.batch)}; name "
            "the labels of the dataset in config.data.labels."
        )


def _check_widths(run: "Run") -> None:
    """Raises an error if embeddings of images and texts have different widths and are compared."""
    # A loss with its own parameters accepts any two widths.
    comparing = [
        f"config.tasks.{task.name}"
        for task in run.tasks
        if len({view == "image" for view in task.views}) > 1 and task.module is None
    ]
    comparing += [
        f"config.evals.{name}" for name, each in run.evals.items() if each.compares_modalities
    ]
    if len(run.model.towers) < 2 or not comparing:
        return

    def width(modality: str) -> int:
        def embed(params: Tree, model_state: Tree, batch: Any) -> jax.Array:
            inputs = tower_inputs(batch, modality)
            return run.model.embed(modality, params, model_state, inputs)[0].vector

        return jax.eval_shape(embed, *run.shapes, dict(run.batch)).shape[-1]

    if (image := width("image")) != (text := width("text")):
        raise UserError(
            f"config.model.image produces {image}-dimensional embeddings and config.model.text "
            f"{text}-dimensional ones, and {comparing[0]} compares them: give one a projection of "
            f"the other's width, --config.model.image.projection=\"{{'width': {text}}}\"."
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
    if settings.frozen_features.modalities:
        check_folder(settings.frozen_features.folder)
    for modality in settings.frozen_features.modalities:
        tower = lookup("config.frozen_features.modalities", modality, run.model.towers)
        section = settings.data.image if modality == "image" else settings.data.text
        encoder, place = settings.model[modality]["encoder"], f"config.model.{modality}.encoder"
        paths = [f"{modality}/{path}" for path in tower.frozen_paths(run.shapes[0][modality])]
        changing = [f"{path} is trained" for path in paths if path in trained]
        if encoder.get("dropout") and any(p.startswith(f"{modality}/encoder/") for p in trained):
            changing.append(f"{place}.dropout={encoder['dropout']}")
        if encoder.get("batch_norm") == "batch_frozen":
            changing.append(f"{place}.batch_norm='batch_frozen'")
        if section is not None and section.augment is not None:
            changing.append(f"config.data.{modality}.augment is set")
        if changing:
            raise UserError(
                f"config.frozen_features.modalities names {modality!r}, whose features would "
                f"change while the run trains: {changing[0]}; change that, or leave {modality!r} "
                "out."
            )

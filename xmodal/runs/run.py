"""From a config to the parts of a run, in one pass."""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import ml_collections
from absl import logging
from jax.sharding import Mesh

from xmodal import data
from xmodal.base import mesh as mesh_lib
from xmodal.base.config import UserError
from xmodal.models import Devices, DualEncoder, make_dual_encoder
from xmodal.models.fused_attention import check_platform
from xmodal.runs import frozen_checks
from xmodal.runs.config.awaited_metrics import check_awaited, check_mode, check_plateau
from xmodal.runs.config.dataset_facts import DatasetFacts, ask_dataset, facts_without_data
from xmodal.runs.config.fill_config import fill
from xmodal.runs.config.inheritance import inherit
from xmodal.runs.config.pair_scorer_check import check_pair_scorer
from xmodal.runs.config.run_changes import check_changes, check_devices, check_metric
from xmodal.runs.config.run_config import RunConfig
from xmodal.runs.config.spec import Spec, read_spec, with_warmup
from xmodal.runs.config.widths import check_widths
from xmodal.runs.folder.run_records import check_records, check_steps_left
from xmodal.runs.parts import Parts
from xmodal.training import accumulation
from xmodal.training.optimization.optimizer import make_optimizer
from xmodal.training.step import check_sides, select_l2
from xmodal.training.tasks import (
    Task,
    caption_indices,
    check_reads,
    columns,
    make_tasks,
    reads_mined,
)
from xmodal.training.trace_losses import trace_losses
from xmodal.training.tree import check_patterns, flatten

_ANY_LENGTH = 2**31 - 1


def resolve(
    config: ml_collections.ConfigDict,
    run_dir: str | None = None,
    *,
    mesh: Mesh | None = None,
    allow_changes: Collection[str] = (),
    needs_data: bool = True,
) -> Parts:
    """Returns the parts of a run; every error in its config is found here.

    The order: settings inherited from weights, facts of the training data, the values that follow
    from these, one reading of every section, and the parts built from it; nothing is compiled. If
    the dataset still must be built, which may take hours, all errors that can be found without it
    are found first.

    Args:
      config: the root; it is not changed.
      run_dir: the run's folder; an existing run is resumed. None for no folder.
      mesh: devices of the run; None for all available ones.
      allow_changes: see `loop.train`.
      needs_data: whether a missing dataset is an error; if not, `Spec.missing` says why, and sizes
        that depend on the dataset are arbitrary.

    Raises:
      UserError: an unknown key or name anywhere, a number out of range, two parts that do not fit,
        or a difference from the existing run.
      data.DatasetMissingError: the dataset is missing; says how to get it.
    """
    mesh = mesh_lib.make_mesh() if mesh is None else mesh
    config = inherit(config, run_dir)
    source, train_split = _training_data(config)
    if run_dir is not None:
        data.check_outside(source, run_dir)
    known = facts_without_data(source, run_dir)
    if needs_data and not data.is_prepared(source):
        _build_checked(config, known, run_dir, mesh, allow_changes)
    try:
        facts = ask_dataset(source, train_split)
    except data.DatasetMissingError as error:
        if needs_data:
            raise
        facts = dataclasses.replace(known, missing=str(error))
    else:
        if run_dir is not None:
            may_change = "records" in allow_changes
            records = check_records(run_dir, facts.records, allow_changes=may_change)
            facts = dataclasses.replace(facts, records=records)
    parts, changes = _build_checked(config, facts, run_dir, mesh, allow_changes)
    if run_dir is not None:
        changes += check_devices(run_dir, parts, allow_changes)
        check_metric(run_dir, parts.settings)
        if not facts.missing:
            check_steps_left(run_dir, facts.records, parts.settings.total_steps)
    for change in changes:
        logging.warning("%s resumes with a change: %s.", run_dir, change)
    return parts


def _training_data(config: ml_collections.ConfigDict) -> tuple[data.DataConfig, str]:
    return data.parse(config.data), config.get("train_split", RunConfig.train_split)


def _build_checked(
    config: ml_collections.ConfigDict,
    facts: DatasetFacts,
    run_dir: str | None,
    mesh: Mesh,
    allow_changes: Collection[str],
) -> tuple[Parts, list[str]]:
    """Returns the parts of a run that trains, and the allowed changes to an existing run."""
    spec = fill(config, facts)
    settings, changes = spec.settings, []
    if run_dir is not None and facts.examples is not None:
        changes = check_changes(run_dir, settings, allow_changes)
    given, filled = with_warmup(config).to_dict(), spec.config.to_dict()

    def is_known(*keys: str) -> bool:
        return not facts.missing or all(given.get(key) == filled.get(key) for key in keys)

    if is_known("batch_size"):
        mesh_lib.check_batch_size(settings.batch_size, mesh)
        accumulation.check(settings.accumulation_steps, settings.batch_size, mesh)
    parts = _build(spec, mesh)
    for side in parts.model.towers:
        encoder, platform = settings.model[side]["encoder"], mesh.devices.flat[0].platform
        check_platform(f"config.model.{side}.encoder", encoder, platform)
    check_mode(settings.select)
    check_awaited(settings.awaited_metrics, spec.evals, spec.config.to_dict(), parts.model.towers)
    check_plateau(settings.optimizer.plateau, spec.evals)
    check_widths(settings.model, parts.model, parts.tasks, spec.evals, parts.shapes, parts.batch)
    published = settings.init_from.published
    check_patterns("config.init_from.published", published, flatten(parts.shapes[0]))
    if settings.l2 is not None:
        select_l2(settings.l2.pattern, flatten(parts.trained))
    if is_known("total_steps", "optimizer"):
        _ = parts.state_shapes  # Checks the optimizer and config.sharding.
    else:
        # Groups that start late are valid in a run of unknown length.
        make_optimizer(settings.optimizer, _ANY_LENGTH, parts.trained, parts.frozen)
    if not facts.missing and settings.batch_size > facts.records["examples"]:
        raise UserError(
            f"config.batch_size={settings.batch_size} is more than the "
            f"{facts.records['examples']:,} training examples of "
            f"config.train_split={settings.train_split!r}; lower it, or set it to 'auto'."
        )
    return parts, changes


def build(config: ml_collections.ConfigDict, mesh: Mesh) -> Parts:
    """Returns the parts of a config that leaves nothing open, such as that of a saved run.

    Args:
      config: see `Spec.config`.
      mesh: all devices.

    Raises:
      UserError: an unknown key or name, a number out of range, or two parts that do not fit.
    """
    return _build(read_spec(config), mesh)


def _build(spec: Spec, mesh: Mesh) -> Parts:
    model, tasks = _check_fits(spec.settings, mesh)
    check_pair_scorer(spec.evals, model)
    batch = data.batch_spec(spec.settings.data, spec.settings.batch_size)
    if missing := sorted(columns(tasks) - set(batch)):
        raise UserError(
            f"config.tasks read the columns {missing}, and a batch has {sorted(batch)}; name the "
            "labels of the dataset in config.data.labels."
        )
    parts = Parts(spec, mesh, model, tasks, batch)
    check_reads(tasks, flatten(parts.shapes[0]))
    frozen_checks.check(parts)
    return parts


def _check_fits(settings: RunConfig, mesh: Mesh) -> tuple[DualEncoder, tuple[Task, ...]]:
    """Builds the model and the tasks and compares them with each other and with the data."""
    tasks = make_tasks(settings.tasks)
    drawn = settings.data.captions_per_image
    if caption_indices(tasks) and max(caption_indices(tasks)) >= drawn:
        raise UserError(
            f"config.tasks compare caption_{max(caption_indices(tasks))}, but "
            f"config.data.captions_per_image={drawn} draws only caption_0 to caption_{drawn - 1}."
        )
    if reads_mined(tasks) != bool(settings.data.mined_negatives):
        names = [task.name for task in tasks if task.loss.mined] or ["NAME"]
        raise UserError(
            f"config.data.mined_negatives={settings.data.mined_negatives!r}, and "
            f"config.tasks.{names[0]} {'has' if reads_mined(tasks) else 'has not'} the loss "
            "'quintuplet': it compares mined negatives, so set both or neither. `xmodal mine` "
            "writes them."
        )
    model = make_model(settings.model, mesh)
    check_sides(model, tasks, settings.freeze)
    check_data_sides(model.towers, settings.data)
    trace_losses(tasks, model.similarity)
    return model, tasks


def check_data_sides(towers: Collection[str], config: data.DataConfig) -> None:
    """Raises an error if the model has a side that the data lacks, or vice versa.

    Raises:
      UserError: names the side.
    """
    for side, section in (("image", config.image), ("text", config.text)):
        if (side in towers) != (section is not None):
            raise UserError(
                f"One of config.model.{side} and config.data.{side} is None; set both or neither."
            )


def make_model(config: Mapping[str, Any], mesh: Mesh) -> DualEncoder:
    """Returns the model of `config.model` for the devices of `mesh`."""
    devices = mesh.devices.flatten()
    return make_dual_encoder(config, Devices(len(devices), devices[0].platform))

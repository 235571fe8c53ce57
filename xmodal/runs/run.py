"""The parts of a run, built from its config and checked before device time is spent."""

import dataclasses
import functools
from collections.abc import Collection, Mapping

import ml_collections
from jax.sharding import Mesh

from xmodal import data
from xmodal.base import processes
from xmodal.base import mesh as mesh_lib
from xmodal.base.config import UserError
from xmodal.evals import read_options
from xmodal.models import Devices, DualEncoder, make_dual_encoder
from xmodal.training import accumulation
from xmodal.runs import frozen_checks
from xmodal.training.optimization.optimizer import make_optimizer
from xmodal.runs.parts import Parts
from xmodal.runs.config.awaited_metrics import check_awaited, check_mode
from xmodal.runs.config.fill_config import MANY, fill, fill_metric, fill_placeholders
from xmodal.runs.config.pair_scorer_check import check_pair_scorer
from xmodal.runs.config.run_config import RunConfig, read_settings
from xmodal.runs.config.widths import check_widths
from xmodal.training.step import check_sides, select_l2
from xmodal.training.tasks import (
    Task,
    caption_indices,
    check_reads,
    columns,
    make_tasks,
    trace_losses,
)
from xmodal.training.tree import flatten


def assemble(config: ml_collections.ConfigDict, mesh: Mesh | None = None) -> Parts:
    """Prepares the datasets of a run and builds all its parts, without compiling anything.

    Args:
      config: the root, see `inheritance.inherit`.
      mesh: devices of the run; None for all available ones.

    Raises:
      UserError: an unknown key or name anywhere, a number out of range, or two parts that do not
        fit; all of these are found before a dataset is built or needed.
      data.DatasetMissingError: a dataset is missing; says how to get it.
    """
    mesh = mesh_lib.make_mesh() if mesh is None else mesh
    draft = assemble_without_data(config, mesh)
    settings = draft.settings
    if settings.data.text is not None and settings.data.text.vocabulary:
        data.load_vocabulary(settings.data)
    data.prepare(settings.data, splits=[settings.train_split])
    read_captions = functools.partial(_read_training_data, settings)
    # Columns and vocabularies are written beside the dataset for the other processes.
    processes.first_does("read the captions of the training split", read_captions)
    examples = read_captions()
    parts = build(fill(config, examples), mesh, draft)
    settings = parts.settings
    _check_batch_size(settings, mesh)
    if settings.batch_size > examples:
        raise UserError(
            f"config.batch_size={settings.batch_size} is more than the {examples:,} training "
            f"examples of config.train_split={settings.train_split!r}."
        )
    _ = parts.optimizer  # Its schedule may not fit the run, whose length is only known now.
    return parts


def assemble_without_data(config: ml_collections.ConfigDict, mesh: Mesh) -> Parts:
    """Builds and checks the parts of a run whose dataset is not known.

    The vocabulary and an epoch get arbitrary sizes if the config leaves them open.

    Args:
      config: see `assemble`.
      mesh: devices of the run.

    Raises:
      UserError: see `assemble`.
    """
    config = fill_metric(config)
    draft = fill_placeholders(config)
    settings = read_settings(draft)
    if config.batch_size == settings.batch_size:  # It does not depend on the dataset.
        _check_batch_size(settings, mesh)
    parts = build(draft, mesh)
    evals = read_options(settings.evals)
    check_pair_scorer(evals, parts.model)
    check_mode(settings.select)
    check_awaited(settings.awaited_metrics, evals, config.to_dict(), parts.model.towers)
    check_widths(settings.model, parts.model, parts.tasks, evals, parts.shapes, parts.batch)
    # Groups that start late are valid in a run of unknown length.
    given, filled = config.to_dict(), draft.to_dict()
    known = all(given[key] == filled[key] for key in ("total_steps", "optimizer"))
    total_steps = settings.total_steps if known else MANY
    make_optimizer(settings.optimizer, total_steps, parts.trained)
    if settings.l2 is not None:
        select_l2(settings.l2.pattern, flatten(parts.trained))
    if known:  # The paths of moments contain the steps at which groups start.
        _ = parts.state_shapes  # Checks config.sharding.
    return parts


def _read_training_data(settings: RunConfig) -> int:
    """Returns the examples of an epoch; learns the vocabulary if it has not been learned yet."""
    examples = data.num_train_examples(settings.data, settings.train_split)
    if settings.data.text is not None:
        data.load_vocabulary(settings.data, settings.train_split)
    return examples


def build(config: ml_collections.ConfigDict, mesh: Mesh, draft: Parts | None = None) -> Parts:
    """Builds all parts for the devices of `mesh`.

    Args:
      config: config that leaves nothing open, see `fill_config`.
      mesh: all devices.
      draft: parts that were built before the dataset was known.

    Raises:
      UserError: an unknown key or name, a number out of range, or two parts that do not fit.
    """
    settings = read_settings(config)
    model, tasks = _check_fits(settings, mesh)
    batch = data.batch_spec(settings.data, settings.batch_size)
    if missing := sorted(columns(tasks) - set(batch)):
        raise UserError(
            f"config.tasks read the columns {missing}, and a batch has {sorted(batch)}; name the "
            "labels of the dataset in config.data.labels."
        )
    parts = Parts(config, settings, mesh, model, tasks, batch)
    if draft is not None and parts.starts_like(draft):
        parts = dataclasses.replace(parts, draft=draft)
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
    model = make_model(settings.model, mesh)
    check_sides(model, tasks)
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


def _check_batch_size(settings: RunConfig, mesh: Mesh) -> None:
    mesh_lib.check_batch_size(settings.batch_size, mesh)
    accumulation.check(settings.accumulation_steps, settings.batch_size, mesh)


def make_model(config: Mapping[str, object], mesh: Mesh) -> DualEncoder:
    """Returns the model of `config.model` for the devices of `mesh`."""
    devices = mesh.devices.flatten()
    return make_dual_encoder(config, Devices(len(devices), devices[0].platform))

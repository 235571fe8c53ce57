"""From a config to a run, in one pass that finds every error."""

from collections.abc import Collection, Mapping
from typing import Any

import jax
from absl import logging
from jax.sharding import Mesh
from ml_collections import ConfigDict

from xmodal import data
from xmodal.core import mesh as mesh_lib
from xmodal.core import processes
from xmodal.core.config import as_dict
from xmodal.core.errors import UserError
from xmodal.data.text.tokenizer_files import read_vocabulary
from xmodal.evals import read_options
from xmodal.models import Devices, DualEncoder, make_dual_encoder
from xmodal.models.attention import check_platform
from xmodal.train import frozen_checks
from xmodal.train.fill import fill, fill_metrics, fill_warmup
from xmodal.train.folder import run_folder
from xmodal.train.folder.run_folder import Records
from xmodal.train.folder.run_records import check_records, check_steps_left
from xmodal.train.inherit import inherit
from xmodal.train.optimization.optimizer import make_optimizer
from xmodal.train.run import Run
from xmodal.train.run_changes import check_changes, check_devices, check_metric
from xmodal.train.run_config import RunConfig, read_settings
from xmodal.train.step import accumulation
from xmodal.train.step.step import check_sides, select_l2
from xmodal.train.step.tasks import (
    Task,
    caption_indices,
    columns,
    make_tasks,
    reads_mined,
    sides,
)
from xmodal.train.step.views import tower_inputs
from xmodal.train.tree import Tree, check_patterns, flatten

_ANY_LENGTH = 2**31 - 1


def resolve(
    config: ConfigDict,
    run_dir: str | None = None,
    *,
    mesh: Mesh | None = None,
    allow_changes: Collection[str] = (),
    needs_data: bool = True,
) -> Run:
    """Returns the run that a config describes; nothing is compiled.

    The order: settings that come with weights, facts about the training data, sizes that follow
    from these, and the parts built from them. If the dataset still must be built, which may take
    hours, the errors that can be found without it are found first.

    Args:
      config: the root; it is not changed.
      run_dir: the run's folder; an existing run is resumed. None for no folder.
      mesh: devices of the run; None for all available ones.
      allow_changes: see `loop.train`.
      needs_data: whether a missing dataset is an error; if not, `Run.missing` says why, and sizes
        that depend on the dataset are arbitrary.

    Raises:
      UserError: an unknown key or name anywhere, a number out of range, two parts that do not fit,
        or a difference from the existing run.
      data.DatasetMissingError: the dataset is missing; says how to get it.
    """
    mesh = mesh_lib.make_mesh() if mesh is None else mesh
    config = inherit(config, run_dir)
    source = data.parse(config.data)
    if run_dir is not None:
        data.check_outside(source, run_dir)
    # What is known without the dataset.
    records = run_folder.load_records(run_dir) if run_dir else {}
    file = "" if source.text is None else source.text.vocabulary
    entries = len(read_vocabulary(file)) if file else None
    if needs_data and not data.is_prepared(source):
        known = _filled(config, records.get("examples"), entries)
        _check(build_run(known, mesh, records, "it is not built yet"), config)
    try:
        found, entries = _ask(source, config.get("train_split", RunConfig.train_split))
    except data.DatasetMissingError as error:
        if needs_data:
            raise
        missing = str(error)
    else:
        missing, records = "", found
        if run_dir is not None:
            records = check_records(run_dir, found, allow_changes="records" in allow_changes)
    filled = _filled(config, records.get("examples"), entries)
    run = build_run(filled, mesh, records, missing)
    changes = []
    if run_dir is not None:
        changes = check_changes(run_dir, run.settings, allow_changes) if records else []
    _check(run, config)
    if run_dir is not None:
        changes += check_devices(run_dir, run, allow_changes)
        check_metric(run_dir, run.settings)
        if not missing:
            check_steps_left(run_dir, records, run.settings.total_steps)
    for change in changes:
        logging.warning("%s resumes with a change: %s.", run_dir, change)
    return run


def _ask(config: data.DataConfig, train_split: str) -> tuple[Records, int | None]:
    """Prepares the training data if necessary.

    Returns:
      Records: `train`, the hash of the training split by its name and version, see
      `data.split_hashes`; `examples`, the examples of an epoch. Entries of the vocabulary, which is
      learned if necessary; None without texts.
    """
    data.prepare(config, splits=[train_split])

    def read_captions() -> int:
        if config.text is not None:
            data.load_vocabulary(config, train_split)
        return data.num_train_examples(config, train_split)

    # Columns and vocabularies are written beside the dataset for the other processes.
    processes.first_does("read the captions of the training split", read_captions)
    examples = read_captions()
    entries = None if config.text is None else data.vocabulary_size(config, train_split)
    hashes = data.split_hashes(config, train_split)
    return {"train": hashes, "examples": examples}, entries


def _filled(config: ConfigDict, examples: int | None, entries: int | None) -> ConfigDict:
    filled = fill(config, examples, entries)
    fill_metrics(filled, read_options(as_dict(filled.get("evals", {}))))
    return filled


def build_run(
    config: ConfigDict, mesh: Mesh, records: Records | None = None, missing: str = ""
) -> Run:
    """Returns the run of a config that leaves nothing open, such as that of a saved run.

    Args:
      config: see `Run.config`.
      mesh: all devices.
      records: see `Run.records`.
      missing: see `Run.missing`.

    Raises:
      UserError: an unknown key or name, a number out of range, or two parts that do not fit.
    """
    settings = read_settings(config)
    evals = read_options(settings.evals)
    model, tasks = make_model(settings.model, mesh), make_tasks(settings.tasks)
    _check_tasks(settings, model, tasks)
    batch = data.batch_spec(settings.data, settings.batch_size)
    if unknown := sorted(columns(tasks) - set(batch)):
        raise UserError(
            f"config.tasks read the columns {unknown}, and a batch has {sorted(batch)}; name the "
            "labels of the dataset in config.data.labels."
        )
    run = Run(config, settings, evals, mesh, model, tasks, batch, records or {}, missing)
    _check_evaluators(run)
    frozen_checks.check(run)
    return run


def _check_tasks(settings: RunConfig, model: DualEncoder, tasks: tuple[Task, ...]) -> None:
    """Compares the tasks with the model and the data."""
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
    check_sides(model, tasks, settings.freeze)
    check_data_sides(model.towers, settings.data)


def _check_evaluators(run: Run) -> None:
    """Raises an error if the model has no scores or embeddings that an evaluator ranks by."""
    for name, options in run.evals.items():
        if options.scores_pairs and run.model.pair_scorer is None:
            raise UserError(
                f"config.evals.{name}.reranker is 'pair_scorer', but the model has none; set "
                "config.model.pair_scorer, or the reranker to None."
            )
        if not options.scores_pairs and not run.model.embeds:
            raise UserError(
                f"config.evals.{name} compares embeddings, and the model has only a pair scorer; "
                "set its type to 'boards' and its reranker to {'name': 'pair_scorer'}, or remove "
                "it."
            )


def _check(run: Run, given: ConfigDict) -> None:
    """Checks a run that is about to train.

    Args:
      run: the run.
      given: its config before sizes were filled in: those of a missing dataset are not checked.
    """
    settings, filled = run.settings, run.config.to_dict()
    before = ConfigDict(given.to_dict(), type_safe=False)
    fill_warmup(before, is_final=False)
    before = before.to_dict()

    def is_known(*keys: str) -> bool:
        return not run.missing or all(before.get(key) == filled.get(key) for key in keys)

    if is_known("batch_size"):
        mesh_lib.check_batch_size(settings.batch_size, run.mesh)
        accumulation.check(settings.accumulation_steps, settings.batch_size, run.mesh)
    for side in run.model.towers:
        encoder, platform = settings.model[side]["encoder"], run.mesh.devices.flat[0].platform
        check_platform(f"config.model.{side}.encoder", encoder, platform)
    _check_widths(run)
    published = settings.init_from.published
    check_patterns("config.init_from.published", published, flatten(run.shapes[0]))
    if settings.l2 is not None:
        select_l2(settings.l2.pattern, flatten(run.trained))
    if is_known("total_steps", "optimizer"):
        _ = run.state_shapes  # Checks the optimizer and config.sharding.
    else:
        # Groups that start late are valid in a run of unknown length.
        make_optimizer(settings.optimizer, _ANY_LENGTH, run.trained, run.frozen)
    if not run.missing and settings.batch_size > run.records["examples"]:
        raise UserError(
            f"config.batch_size={settings.batch_size} is more than the "
            f"{run.records['examples']:,} training examples of "
            f"config.train_split={settings.train_split!r}; lower it, or set it to 'auto'."
        )


def _check_widths(run: Run) -> None:
    """Raises an error if embeddings of images and texts have different widths and are compared."""
    # A loss with its own parameters accepts any two widths.
    tasks = [task.name for task in run.tasks if len(sides((task,))) > 1 and task.module is None]
    comparing = [f"config.tasks.{name}" for name in tasks]
    comparing += [f"config.evals.{name}" for name, each in run.evals.items() if each.compares_sides]
    if len(run.model.towers) < 2 or not comparing:
        return
    widths = {}
    for side in run.model.towers:

        def embed(params: Tree, model_state: Tree, batch: Any, side: str = side) -> jax.Array:
            inputs = tower_inputs(batch, side)
            return run.model.embed(side, params, model_state, inputs)[0].vector

        widths[side] = jax.eval_shape(embed, *run.shapes, dict(run.batch)).shape[-1]
    if widths["image"] != widths["text"]:
        raise UserError(
            f"config.model.image produces {widths['image']}-dimensional embeddings and "
            f"config.model.text {widths['text']}-dimensional ones, and {comparing[0]} compares "
            "them: give one a projection of the other's width, "
            f"--config.model.image.projection=\"{{'width': {widths['text']}}}\"."
        )


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

"""From a config to a run, in one pass that finds every error."""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from absl import logging
from jax.sharding import Mesh
from ml_collections import ConfigDict

from xmodal import data
from xmodal.core import mesh as mesh_lib
from xmodal.core import processes
from xmodal.core.config import as_dict
from xmodal.data.text.tokenizer_files import read_vocabulary
from xmodal.evals import read_options
from xmodal.models import Devices, DualEncoder, make_dual_encoder
from xmodal.train import checks
from xmodal.train.fill import fill, fill_metrics
from xmodal.train.folder import run_folder
from xmodal.train.folder.run_folder import Records
from xmodal.train.folder.run_records import check_records, check_steps_left
from xmodal.train.inherit import inherit
from xmodal.train.run import Run
from xmodal.train.run_changes import check_changes
from xmodal.train.run_config import RunConfig, read_settings
from xmodal.train.step.tasks import make_tasks


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
    split = config.get("train_split", RunConfig.train_split)
    records: Records = {}
    if run_dir is not None:
        data.check_outside(source, run_dir)
        records = run_folder.load_records(run_dir)
    if not data.is_prepared(source):
        file = source.text.vocabulary if source.text else ""
        entries = len(read_vocabulary(file)) if file else None
        run = _build_checked(config, mesh, records, entries, "it is not built yet")
    try:
        found, entries = _ask(source, split)
    except data.DatasetMissingError as error:
        if needs_data or data.is_prepared(source):
            raise
        run = dataclasses.replace(run, missing=str(error))
    else:
        if run_dir is not None:
            found = check_records(run_dir, found, allow_changes="records" in allow_changes)
        run = _build_checked(config, mesh, found, entries)
    if run_dir is not None and run.records:
        for change in check_changes(run_dir, run.settings, run.mesh.size, allow_changes):
            logging.warning("%s resumes with a change: %s.", run_dir, change)
        check_steps_left(run_dir, run.records, run.settings.total_steps)
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


def _build_checked(
    config: ConfigDict, mesh: Mesh, records: Records, entries: int | None, missing: str = ""
) -> Run:
    filled = fill(config, records.get("examples"), entries)
    fill_metrics(filled, read_options(as_dict(filled.get("evals", {}))))
    run = build_run(filled, mesh, records, missing)
    checks.check_start(run)
    return run


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
    model, tasks = make_model(settings.model, mesh), make_tasks(settings.tasks)
    evals = read_options(settings.evals)
    batch = data.batch_spec(settings.data, settings.batch_size)
    run = Run(config, settings, evals, mesh, model, tasks, batch, records or {}, missing)
    checks.check_parts(run)
    return run


def make_model(config: Mapping[str, Any], mesh: Mesh) -> DualEncoder:
    """Returns the model of `config.model` for the devices of `mesh`."""
    devices = mesh.devices.flatten()
    return make_dual_encoder(config, Devices(len(devices), devices[0].platform))

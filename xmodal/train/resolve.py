"""From a config to a run, in one pass that finds every error.

Weights bring their settings (`inherit`), the dataset is asked once, and what a config leaves to
both becomes a number: sizes that depend on the number of examples ("auto"), lengths in epochs, the
size of the vocabulary, and the metric that selects the best checkpoint.
"""

import dataclasses
import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import jax
from absl import logging
from jax.sharding import Mesh
from ml_collections import ConfigDict

from xmodal import data
from xmodal.core import processes
from xmodal.core.config import check_keys, defaults, flatten_section, lookup, read
from xmodal.core.errors import UserError
from xmodal.core.tree_paths import leaves_by_path
from xmodal.data.text.text_config import ID_FIELDS
from xmodal.evals import read_options
from xmodal.evals.evaluators import Options
from xmodal.evals.evaluators.benchmarks import BenchmarksOptions
from xmodal.evals.evaluators.classification import ClassificationOptions
from xmodal.evals.reports.results import evaluator_tag
from xmodal.models import Devices, make_dual_encoder
from xmodal.train.folder import run_folder
from xmodal.train.folder.run_folder import Records
from xmodal.train.inherit import inherit
from xmodal.train.loggers import check_packages
from xmodal.train.optimization.optimizer import OptimizerConfig
from xmodal.train.optimization.schedules import read_schedule
from xmodal.train.run import Run
from xmodal.train.run_config import RunConfig, fill, read_settings
from xmodal.train.sections import MeshConfig
from xmodal.train.step.tasks import check_tasks, make_tasks
from xmodal.train.tree import check_patterns

# What may differ: no update depends on these, or they choose equivalent implementations.
_MAY_CHANGE = re.compile(
    r"(name|log_every|non_finite|best_checkpoint|checkpoint|mesh|sharding|tensorboard|profile)(\.|$)"
    r"|frozen_features\.folder$|init_from\.published$|loggers$"
    r"|data\.(data_dir|manual_dir|ratings_dir|prefetch|workers)$"
    # How a vocabulary is learned; the run already has its own.
    r"|data\.text\.(vocabulary_size|min_count)$"
    r"|model\.\w+\.encoder\.(remat|remat_policy|unroll|attention|depthwise|form)$"
    r"|tasks\..+\.loss\.options\.(engine|chunk_size)$"
    r"|evals\.\w+\.(final_split|batch_size|bootstrap_samples)$"
)
# Settings that TensorBoard shows even if they are the defaults.
_MAIN = ("batch_size", "optimizer.learning_rate", "seed", "total_steps")
# The token ids of a text, which the weights depend on, can never differ.
_IDS = re.compile(rf"data\.text\.({'|'.join((*ID_FIELDS, 'vocabulary'))})$")


def resolve(
    config: ConfigDict,
    run_dir: str | None = None,
    *,
    devices: Sequence[jax.Device] | None = None,
    allow_changes: Collection[str] = (),
    needs_data: bool = True,
) -> Run:
    """Returns the run that a config describes; nothing is compiled.

    If the dataset still must be built, which may take hours, the errors that can be found without
    it are found first.

    Args:
      config: the root; it is not changed.
      run_dir: the run's folder; an existing run is resumed. None for no folder.
      devices: devices of the run; None for all available ones.
      allow_changes: see `loop.train`.
      needs_data: whether a missing dataset is an error; if not, `Run.missing` says why, and sizes
        that depend on the dataset are arbitrary.

    Raises:
      UserError: an unknown key or name anywhere, a number out of range, two parts that do not fit,
        or a difference from the existing run.
      data.DatasetMissingError: the dataset is missing; says how to get it.
    """
    config = inherit(config, run_dir)
    mesh = read(MeshConfig, "config.mesh", config.get("mesh", {})).make(devices)
    source, before = read(data.DataConfig, "config.data", config.data), Records()
    if run_dir is not None:
        data.check_outside(source, run_dir)
        before = run_folder.load_records(run_dir)

    def build(records: Records, entries: int | None) -> Run:
        run = build_run(fill(config, records.get("examples"), entries), mesh, records)
        run = dataclasses.replace(run, settings=fill_metrics(run.settings, run.evals))
        check_start(run)
        return run

    if not data.is_prepared(source):
        has_file = source.text is not None and source.text.vocabulary
        run = build(before, len(data.load_vocabulary(source)) if has_file else None)
    try:
        split = config.get("train_split", RunConfig.train_split)
        data.prepare(source, splits=[split])
    except data.DatasetMissingError as error:
        if needs_data or data.is_prepared(source):
            raise
        return dataclasses.replace(run, missing=str(error))

    def read_captions() -> int:
        if source.text is not None:
            data.load_vocabulary(source, split)
        return data.num_train_examples(source, split)

    # Columns and vocabularies are written beside the dataset for the other processes.
    processes.first_does("read the captions of the training split", read_captions)
    examples, hashes = read_captions(), data.split_hashes(source, split)
    entries = None if source.text is None else data.vocabulary_size(source, split)
    run = build({"train": hashes, "examples": examples, "devices": mesh.size}, entries)
    if run_dir is not None:
        for change in check_changes(run_dir, run.settings, run.records, allow_changes):
            logging.warning("%s resumes with a change: %s.", run_dir, change)
    return run


def build_run(
    config: ConfigDict, mesh: Mesh, records: Records | None = None, *, trains: bool = True
) -> Run:
    """Returns the run of a config whose sizes are numbers, such as that of a saved run.

    Args:
      config: the root.
      mesh: all devices.
      records: see `Run.records`.
      trains: False for a model that is not trained; it needs no tasks.
    """
    settings = read_settings(config)
    evals = read_options(settings.evals)
    tasks = make_tasks(settings.tasks) if trains or settings.tasks else ()
    devices = mesh.devices.flatten()
    model = make_dual_encoder(settings.model, Devices(len(devices), devices[0].platform))
    batch = data.batch_spec(settings.data, settings.batch_size, trains=trains)
    for modality in ("image", "text"):
        if (modality in model.towers) != (getattr(settings.data, modality) is not None):
            raise UserError(
                f"One of config.model.{modality} and config.data.{modality} is None; set both or "
                "neither."
            )
    if trains:
        check_tasks(model, tasks, settings.data, settings.freeze, batch)
    # With all defaults, as a resumed run compares them.
    settings = dataclasses.replace(
        settings, evals={k: dataclasses.asdict(x) for k, x in evals.items()}
    )
    return Run(settings, evals, mesh, model, tasks, batch, records or {})


def fill_metrics(settings: RunConfig, evals: Mapping[str, Options]) -> RunConfig:
    """Returns settings with the metrics of `best_checkpoint` and of the plateau, if they are "".

    Retrieval and rating benchmarks come before other evaluators, accuracies last.
    """
    order = sorted(
        evals,
        key=lambda name: (
            not isinstance(evals[name], BenchmarksOptions),
            isinstance(evals[name], ClassificationOptions),
        ),
    )
    datasets = {
        name: (evals[name].data or {}).get("dataset", settings.data.dataset) for name in order
    }
    tags = {name: evals[name].default_metric(dataset) for name, dataset in datasets.items()}
    first = next((evaluator_tag(name, tag) for name, tag in tags.items() if tag), "")
    metric = settings.best_checkpoint.metric or first
    if not metric:
        raise UserError(
            "config.best_checkpoint.metric is empty, and no evaluator of config.evals has a "
            "default metric; name the one that selects the best checkpoint."
        )
    best = dataclasses.replace(settings.best_checkpoint, metric=metric)
    optimizer = settings.optimizer
    if optimizer.plateau is not None:
        plateau = dataclasses.replace(optimizer.plateau, metric=optimizer.plateau.metric or metric)
        if (name := plateau.metric.partition("/")[0]) in evals and not evals[name].every:
            raise UserError(
                f"config.optimizer.plateau waits for {plateau.metric!r}, but config.evals.{name}."
                "every is 0: set it to the steps between two evaluations, or remove the plateau."
            )
        optimizer = dataclasses.replace(optimizer, plateau=plateau)
    return dataclasses.replace(settings, best_checkpoint=best, optimizer=optimizer)


def check_start(run: Run) -> None:
    """Raises an error if a run cannot train on its devices and data."""
    settings = run.settings
    check_packages(settings.loggers)
    batch_size, parts = settings.batch_size, settings.accumulation_steps
    if batch_size % (run.mesh.size * parts):
        times = f" times config.accumulation_steps={parts}" if parts > 1 else ""
        raise UserError(
            f"config.batch_size={batch_size} is not a multiple of the {run.mesh.size} devices"
            f"{times}; the next multiple is {batch_size + -batch_size % (run.mesh.size * parts)}."
        )
    shapes = run.state_shapes  # This checks the optimizer.
    trained = leaves_by_path(shapes.params)
    check_patterns("config.init_from.published", settings.init_from.published, shapes.flat_params())
    if settings.l2 is not None:
        check_patterns("config.l2", [settings.l2.pattern], trained)
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


def check_changes(
    run_dir: str, settings: RunConfig, records: Records, allowed: Collection[str] = ()
) -> list[str]:
    """Raises an error if a config changes what or how an existing run learns.

    Args:
      run_dir: the run's folder, which may be empty or missing.
      settings: settings of the run, with everything filled in.
      records: see `Run.records`.
      allowed: paths or sections of the config that may differ from those at the start of the run;
        "records" allows other records, "devices" another number of devices.

    Returns:
      The changes that were allowed, one string each.
    """
    if not (saved := run_folder.steps(run_dir)):
        return []
    before, known = read_settings(run_folder.load_run(run_dir)), run_folder.load_records(run_dir)
    sections = dataclasses.asdict(before) | dataclasses.asdict(settings)
    paths = [path.split(".") for path in flatten_section(sections)]
    names = {".".join(path[:n]) for path in paths for n in range(1, len(path) + 1)}
    check_keys("--allow_changes", allowed, names | {"records", "devices"})
    changed = {
        path: f"{one!r} -> {other!r}"
        for path, (one, other) in differences(before, settings).items()
    }
    if known and (
        known["examples"] != records["examples"]
        or not known["train"].items() <= records["train"].items()
    ):
        changed["records"] = f"{_describe(known)} -> {_describe(records)}"
    devices = known.get("devices"), records.get("devices")
    # A run at its end is only evaluated.
    is_counted = saved[-1] < settings.total_steps and _normalizes_per_device(settings)
    if is_counted and None not in devices and devices[0] != devices[1]:
        changed["devices"] = f"{devices[0]} -> {devices[1]}"
    refused = [
        path
        for path in changed
        if _IDS.match(path) or not any(f"{path}.".startswith(f"{each}.") for each in allowed)
    ]
    if refused:
        remedy = f"add --allow_changes={','.join(refused)} to use the new ones"
        if any(map(_IDS.match, refused)):
            remedy = "start another run from its weights with --config.init_from.run"
        lines = "".join(f"  {path}: {changed[path]}\n" for path in refused)
        raise UserError(
            f"{run_dir} was started with another config:\n{lines}Set the values before the "
            f"arrows, {remedy}, or use another --workdir."
        )
    return [f"{path}: {change}" for path, change in changed.items()]


def _describe(records: Records) -> str:
    hashes = ", ".join(f"{name} {digits[:16]}" for name, digits in records["train"].items())
    return f"{hashes} ({records['examples']:,} examples)"


def _normalizes_per_device(settings: RunConfig) -> bool:
    """Returns whether training batches are normalized by the statistics of each device."""
    towers = (settings.model["image"], settings.model["text"])
    encoders = [tower["encoder"] for tower in towers if tower]
    return any(
        each.get("statistics") == "per_device" and each.get("batch_norm") != "running"
        for each in encoders
    )


def differences(before: RunConfig, now: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Returns path -> (value before, value now) for all differences that affect training."""
    one, other = _flat(before), _flat(now)
    # The last step is always evaluated, and the plateau sees that evaluation.
    if not before.total_steps or not any(
        each.optimizer.plateau or read_schedule(each.optimizer.schedule).ends_with_run
        for each in (before, now)
    ):
        del one["total_steps"], other["total_steps"]
    return {
        path: (one.get(path), other.get(path))
        for path in one | other
        if one.get(path) != other.get(path) and not _MAY_CHANGE.match(path)
    }


def changed_settings(settings: RunConfig) -> dict[str, Any]:
    """Returns path -> value of the settings that affect training and are not the defaults.

    Models and tasks have no defaults. The seed, the batch size, the number of steps and the
    learning rate are always among them.
    """
    sections = {"optimizer": defaults(OptimizerConfig), "data": defaults(data.DataConfig)}
    known = flatten_section(json.loads(json.dumps(defaults(RunConfig) | sections)))
    return {
        path: value if isinstance(value, bool | int | float | str) else str(value)
        for path, value in _flat(settings).items()
        if path in _MAIN
        or (known.get(path, {}) != value and value != {} and not _MAY_CHANGE.match(path))
    }


def _flat(settings: RunConfig) -> dict[str, Any]:
    """Returns path -> value of what training depends on, as in JSON: tuples are lists."""
    plateau = settings.optimizer.plateau
    # Evaluators do not affect training otherwise.
    name = "" if plateau is None else plateau.metric.partition("/")[0]
    evals = {name: settings.evals[name]} if name else {}
    section = dataclasses.asdict(dataclasses.replace(settings, evals=evals))
    return flatten_section(json.loads(json.dumps(section)))

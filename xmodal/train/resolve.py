"""From a config to a run, in one pass that finds every error.

Weights bring their settings (`inherit`), the dataset is asked once, and what a config leaves to
both becomes a number: sizes that depend on the number of examples ("auto"), lengths in epochs, the
size of the vocabulary, and the metric that selects the best checkpoint.
"""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Annotated, Any

from absl import logging
from jax.sharding import Mesh
from ml_collections import ConfigDict

from xmodal import data
from xmodal.core import mesh as mesh_lib
from xmodal.core import processes
from xmodal.core.config import Bounds, check_value, find_section
from xmodal.core.errors import UserError
from xmodal.evals import read_options
from xmodal.evals.evaluators import Options
from xmodal.evals.evaluators.boards import BoardsOptions
from xmodal.evals.evaluators.classification import ClassificationOptions
from xmodal.evals.reports.results import evaluator_tag
from xmodal.models import ENCODERS, Devices, make_dual_encoder
from xmodal.train import checks
from xmodal.train.folder import run_folder
from xmodal.train.folder.run_folder import Records
from xmodal.train.folder.run_records import check_records, check_steps_left
from xmodal.train.inherit import inherit
from xmodal.train.optimization.run_lengths import choose_warmup, resolve_epochs, resolve_sizes
from xmodal.train.run import Run
from xmodal.train.run_changes import check_changes
from xmodal.train.run_config import RunConfig, read_settings
from xmodal.train.step.tasks import make_tasks

# Stand in for a dataset that is not known.
_MANY, _SOME_STEPS, _SOME_ROWS, _ANY_LENGTH = 2**31 - 1, 1000, 1000, 2**31 - 2
_ROWS = 512  # The rows of a word table are a multiple.


def resolve(
    config: ConfigDict,
    run_dir: str | None = None,
    *,
    mesh: Mesh | None = None,
    allow_changes: Collection[str] = (),
    needs_data: bool = True,
) -> Run:
    """Returns the run that a config describes; nothing is compiled.

    If the dataset still must be built, which may take hours, the errors that can be found without
    it are found first.

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
    records: Records = {}
    if run_dir is not None:
        data.check_outside(source, run_dir)
        records = run_folder.load_records(run_dir)
    if not data.is_prepared(source):
        has_file = source.text is not None and source.text.vocabulary
        entries = len(data.load_vocabulary(source)) if has_file else None
        run = _build_checked(config, mesh, records, entries)
    try:
        found, entries = _ask(source, config.get("train_split", RunConfig.train_split))
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
    return {"train": data.split_hashes(config, train_split), "examples": examples}, entries


def _build_checked(config: ConfigDict, mesh: Mesh, records: Records, entries: int | None) -> Run:
    run = build_run(fill(config, records.get("examples"), entries), mesh, records)
    run = dataclasses.replace(run, settings=fill_metrics(run.settings, run.evals))
    checks.check_start(run)
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

    Raises:
      UserError: an unknown key or name, a number out of range, or two parts that do not fit.
    """
    settings = read_settings(config)
    evals = read_options(settings.evals)
    tasks = make_tasks(settings.tasks) if trains or settings.tasks else ()
    devices = mesh.devices.flatten()
    model = make_dual_encoder(settings.model, Devices(len(devices), devices[0].platform))
    batch = data.batch_spec(settings.data, settings.batch_size, trains=trains)
    run = Run(settings, evals, mesh, model, tasks, batch, records or {})
    checks.check_parts(run, trains=trains)
    return run


def fill(config: ConfigDict, examples: int | None = None, entries: int | None = None) -> ConfigDict:
    """Returns a config whose sizes and lengths are numbers.

    Args:
      config: the root, with everything that comes with weights.
      examples: training examples per epoch. If it is None, sizes that depend on it are arbitrary,
        but large enough for a check.
      entries: entries of the vocabulary; None if it is not known, or there are no texts.

    Raises:
      UserError: a size or length is not valid, or a model has fewer rows than the vocabulary has
        entries.
    """
    sized = resolve_sizes(config.to_dict(), _MANY if examples is None else examples)
    steps = _SOME_STEPS
    if examples is not None:
        batch_size = sized.get("batch_size", RunConfig.batch_size)
        check_value("config.batch_size", Annotated[int, Bounds(at_least=1)], batch_size)
        steps = max(1, examples // int(batch_size))
    filled = resolve_epochs(sized, steps)
    keys = ("total_steps", "optimizer")
    if examples is None and any("epoch" in repr(sized.get(key)) for key in keys):
        filled["total_steps"] = _ANY_LENGTH  # Groups that start late are valid in a long run.
    _fill_vocabulary(filled, entries)
    schedule = find_section(filled, "optimizer.schedule") or {}
    if warmup := schedule.get("warmup_steps"):
        # "up to 40", the default of a config, is shorter in a short run.
        total_steps = filled.get("total_steps", RunConfig.total_steps)
        schedule["warmup_steps"] = choose_warmup(warmup, total_steps)
    return ConfigDict(filled, type_safe=False)


def _fill_vocabulary(config: dict[str, Any], entries: int | None) -> None:
    """Sets the rows of tables of words, and task modules' outputs over words, if they are 0.

    A table for a learned vocabulary has a few rows more, which no id reads: vocabularies of similar
    size share compiled programs. Outputs over words have none, since a softmax would count them.
    """
    encoder = find_section(config, "model.text.encoder") or {}
    row = ENCODERS.get(encoder.get("name", ""))
    if row is None or not any(f.name == "vocab_size" for f in dataclasses.fields(row.config)):
        return
    rows = encoder.get("vocab_size", 0)
    entries = entries or rows or _SOME_ROWS
    if 0 < rows < entries:
        raise UserError(
            f"config.model.text.encoder.vocab_size={rows} is smaller than the vocabulary of "
            f"config.data.text ({entries} entries); set it to {entries}, or to 0 to use that size."
        )
    names = find_section(config, "tasks") or {}
    losses = [find_section(config, f"tasks.{name}.loss") or {} for name in names]
    # A file's vocabulary is the same in every run. Losses that share the table, and a sum of
    # squares over parameters, would depend on rows that are not in use.
    is_exact = (find_section(config, "data.text") or {}).get("vocabulary") or config.get("l2")
    if not is_exact and not any(loss.get("reads") for loss in losses):
        rows = rows or -(-entries // _ROWS) * _ROWS
    encoder["vocab_size"] = rows or entries
    sizes = [(find_section(config, "model.text.head"), rows or entries)]
    sizes += [(loss.get("module"), entries) for loss in losses]
    for section, size in sizes:
        if section and section.get("vocab_size") == 0:
            section["vocab_size"] = size


def fill_metrics(settings: RunConfig, evals: Mapping[str, Options]) -> RunConfig:
    """Returns settings with the metrics of `best_checkpoint` and of the plateau, if they are "".

    Retrieval and rating boards come before other evaluators, accuracies last.

    Raises:
      UserError: no evaluator has a metric to select by, one cannot use its dataset, or a plateau
        would never see an evaluation.
    """
    found = []
    for name, options in sorted(evals.items(), key=lambda item: _preference(item[1])):
        dataset = (options.data or {}).get("dataset", settings.data.dataset)
        options.check_dataset(f"config.evals.{name}", dataset)
        if tag := options.default_metric(dataset):
            found.append(evaluator_tag(name, tag))
    metric = settings.best_checkpoint.metric or next(iter(found), "")
    if not metric:
        raise UserError(
            "config.best_checkpoint.metric is empty, and no evaluator of config.evals has a "
            "default metric; name the one that selects the best checkpoint."
        )
    best, optimizer = settings.best_checkpoint, settings.optimizer
    if optimizer.plateau is not None:
        plateau = dataclasses.replace(optimizer.plateau, metric=optimizer.plateau.metric or metric)
        name = plateau.metric.partition("/")[0]
        if name in evals and not evals[name].every:
            raise UserError(
                f"config.optimizer.plateau waits for {plateau.metric!r}, but config.evals.{name}."
                "every is 0: set it to the steps between two evaluations, or remove the plateau."
            )
        optimizer = dataclasses.replace(optimizer, plateau=plateau)
    best = dataclasses.replace(best, metric=metric)
    return dataclasses.replace(settings, best_checkpoint=best, optimizer=optimizer)


def _preference(options: Options) -> int:
    if isinstance(options, BoardsOptions):
        return 0
    return 2 if isinstance(options, ClassificationOptions) else 1

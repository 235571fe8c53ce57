"""The parts of a run, built from its config and checked before device time is spent."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import ml_collections
from jax.sharding import Mesh

from xmodal import data, processes
from xmodal import mesh as mesh_lib
from xmodal.config import UserError, lookup, read, setting
from xmodal.evals import read_options
from xmodal.evals.results import evaluator_tag
from xmodal.models import Devices, DualEncoder, make_dual_encoder
from xmodal.tensorboard.views import TensorBoardConfig
from xmodal.training import accumulation, frozen_checks, schedules
from xmodal.training.eval_splits import SplitSource
from xmodal.training.optimizer import OptimizerConfig, make_optimizer
from xmodal.training.parts import Parts
from xmodal.training.sections import (
    CheckpointConfig,
    FrozenFeaturesConfig,
    InitConfig,
    SelectConfig,
)
from xmodal.training.sizes import resolve_sizes
from xmodal.training.step import L2Config, check_sides
from xmodal.training.tasks import (
    Task,
    caption_indices,
    check_reads,
    columns,
    make_tasks,
    trace_losses,
)
from xmodal.training.tree import flatten
from xmodal.training.widths import check_widths

# Placeholders for the epoch length and the vocabulary size until the dataset is known.
_SOME_STEPS, _SOME_ROWS, _MANY_STEPS = 1000, 1000, 2**31 - 1


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """A whole config.

    Attributes:
      name: name of the run, and by default of its folder.
      model: read by `models.make_dual_encoder`.
      tasks: read by `tasks.make_tasks`.
      optimizer: see `OptimizerConfig`.
      data: training data, see `data.DataConfig`.
      evals: evaluators by name, read by `evals`.
      select: see `SelectConfig`.
      seed: seed of parameters, order, augmentation and dropout.
      total_steps: number of updates.
      batch_size: examples per batch on all devices together.
      accumulation_steps: parts in which a batch is embedded, one by one, if its activations do
        not fit in memory; losses see the whole batch, see `accumulation`.
      log_every: steps between two reports.
      non_finite: whether a non-finite loss or gradient stops the run ("stop"), or its batch is
        skipped ("skip") and recorded in `skipped.jsonl`; ten consecutive skips stop the run.
      hang_timeout: seconds after which a multi-process run exits if a batch, step or evaluation
        has not finished; 0 for never.
      train_split: split of `data` that the run trains on.
      freeze: regular expressions matched from the start of a parameter's path.
      l2: see `L2Config`.
      init_from: see `InitConfig`.
      frozen_features: see `FrozenFeaturesConfig`.
      checkpoint: see `CheckpointConfig`.
      tensorboard: see `TensorBoardConfig`.
      sharding: (regular expression searched in a path of the state, rule) pairs; the first match
        wins, see `mesh.tree_shardings`.
    """

    name: str
    model: Mapping[str, Any]
    tasks: Mapping[str, Any]
    optimizer: OptimizerConfig
    data: data.DataConfig
    evals: Mapping[str, Any]
    select: SelectConfig = dataclasses.field(default_factory=SelectConfig)
    seed: int = setting(0, at_least=0)
    total_steps: int = setting(at_least=1, below=2**31 - 1, default=1000)  # counted in int32
    batch_size: int = setting(at_least=2, default=128)
    accumulation_steps: int = setting(1, at_least=1)
    log_every: int = setting(50, at_least=1)
    non_finite: str = setting("stop", one_of=("stop", "skip"))
    hang_timeout: float = setting(3600.0, at_least=0)
    train_split: str = "train"
    freeze: tuple[str, ...] = setting((), pattern=True)
    l2: L2Config | None = None
    init_from: InitConfig = dataclasses.field(default_factory=InitConfig)
    frozen_features: FrozenFeaturesConfig = dataclasses.field(default_factory=FrozenFeaturesConfig)
    checkpoint: CheckpointConfig = dataclasses.field(default_factory=CheckpointConfig)
    tensorboard: TensorBoardConfig = dataclasses.field(default_factory=TensorBoardConfig)
    sharding: tuple[tuple[str, str], ...] = setting(((".*", "replicated"),), pattern=True)

    def __post_init__(self) -> None:
        for _, rule in self.sharding:
            lookup("config.sharding", rule, mesh_lib.RULES)

    @property
    def awaited_metrics(self) -> dict[str, str]:
        """Metric tags that the run needs, by their place in the config."""
        awaited = {"config.select.metric": self.select.metric}
        if self.optimizer.plateau is not None:
            awaited["config.optimizer.plateau.metric"] = self.optimizer.plateau.metric
        return awaited


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
    config = _with_metric(config)
    draft = assemble_without_data(config, mesh)
    settings = draft.settings
    if settings.data.text is not None and settings.data.text.vocabulary:
        data.load_vocabulary(settings.data)
    data.prepare(settings.data, splits=[settings.train_split])
    read_captions = functools.partial(_read_training_data, settings)
    # Columns and vocabularies are written beside the dataset for the other processes.
    processes.first_does("read the captions of the training split", read_captions)
    examples = read_captions()
    config = ml_collections.ConfigDict(resolve_sizes(config.to_dict(), examples))
    settings = read_settings(_in_steps(config, _SOME_STEPS))
    _check_batch_size(settings, mesh)
    if settings.batch_size > examples:
        raise UserError(
            f"config.batch_size={settings.batch_size} is more than the {examples:,} training "
            f"examples of config.train_split={settings.train_split!r}."
        )
    config = _in_steps(config, examples // settings.batch_size)
    return build(fill_vocabulary(config), mesh, draft)


def assemble_without_data(config: ml_collections.ConfigDict, mesh: Mesh) -> Parts:
    """Builds and checks the parts of a run whose dataset is not known.

    The vocabulary and an epoch get arbitrary sizes if the config leaves them open.

    Args:
      config: see `assemble`.
      mesh: devices of the run.

    Raises:
      UserError: see `assemble`.
    """
    config = _with_metric(config)
    draft = _in_steps(config, _SOME_STEPS)
    settings = read_settings(draft)
    _check_batch_size(settings, mesh)
    for where, metric in settings.awaited_metrics.items():
        lookup(f"{where}={metric!r}", metric.partition("/")[0], settings.evals)
    if config.model.text is not None:
        rows = _vocabulary_rows(config) or _SOME_ROWS
        draft = _with_rows(draft, rows, rows)
    parts = build(draft, mesh)
    evals = read_options(settings.evals)
    check_widths(settings.model, parts.model, parts.tasks, evals, parts.shapes, parts.batch)
    # Groups that start late are valid in a run of unknown length.
    given, in_steps = config.to_dict(), draft.to_dict()
    known = all(given[key] == in_steps[key] for key in ("total_steps", "optimizer"))
    total_steps = settings.total_steps if known else _MANY_STEPS
    make_optimizer(settings.optimizer, total_steps, parts.trained)
    return parts


def _read_training_data(settings: RunConfig) -> int:
    """Returns the examples of an epoch; learns the vocabulary if it has not been learned yet."""
    examples = data.num_train_examples(settings.data, settings.train_split)
    if settings.data.text is not None:
        data.load_vocabulary(settings.data)
    return examples


def build(config: ml_collections.ConfigDict, mesh: Mesh, draft: Parts | None = None) -> Parts:
    """Builds all parts for the devices of `mesh`.

    Args:
      config: config with lengths in steps and the size of the vocabulary filled in.
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


def _in_steps(config: ml_collections.ConfigDict, steps_per_epoch: int) -> ml_collections.ConfigDict:
    """Fills in lengths in epochs, assuming many examples if their number is not known."""
    sized = resolve_sizes(config.to_dict(), _MANY_STEPS)
    return ml_collections.ConfigDict(schedules.resolve_epochs(sized, steps_per_epoch))


def foresee(config: ml_collections.ConfigDict, examples: int) -> RunConfig:
    """Returns the settings a run would have with the given number of training examples.

    Args:
      config: config of a resumed run, which names its vocabulary.
      examples: examples per epoch.
    """
    config = _with_metric(config)
    config = ml_collections.ConfigDict(resolve_sizes(config.to_dict(), examples))
    batch_size = read_settings(_in_steps(config, _SOME_STEPS)).batch_size
    return read_settings(fill_vocabulary(_in_steps(config, examples // batch_size)))


def read_settings(config: ml_collections.ConfigDict) -> RunConfig:
    """Returns the root of a config as its dataclass."""
    return read(RunConfig, "config", config)


def _with_metric(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Reads the evaluators; sets the metrics of `select` and the plateau if they are ""."""
    draft = read_settings(_in_steps(config, _SOME_STEPS))
    found = []
    for name, options in read_options(draft.evals).items():
        dataset = SplitSource.of(config.data.to_dict(), name, options).own.dataset
        options.check_dataset(f"config.evals.{name}", dataset)
        if tag := options.default_metric(dataset):
            found.append(evaluator_tag(name, tag))
    plateau = draft.optimizer.plateau
    if draft.select.metric and (plateau is None or plateau.metric):
        return config
    if not (draft.select.metric or found):
        raise UserError(
            "config.select.metric is empty, and no evaluator of config.evals has a default metric; "
            "name the one that selects the best checkpoint."
        )
    config = config.copy_and_resolve_references()
    with config.unlocked():
        metric = draft.select.metric or found[0]
        config.select = dataclasses.asdict(draft.select) | {"metric": metric}
        if plateau is not None:
            chosen = {"metric": plateau.metric or metric}
            config.optimizer.plateau = dataclasses.asdict(plateau) | chosen
    return config


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
    for side, section in (("image", settings.data.image), ("text", settings.data.text)):
        if (side in model.towers) != (section is not None):
            raise UserError(
                f"One of config.model.{side} and config.data.{side} is None; set both or neither."
            )
    trace_losses(tasks, model.similarity)
    return model, tasks


def _check_batch_size(settings: RunConfig, mesh: Mesh) -> None:
    mesh_lib.check_batch_size(settings.batch_size, mesh)
    accumulation.check(settings.accumulation_steps, settings.batch_size, mesh)


def make_model(config: Mapping[str, object], mesh: Mesh) -> DualEncoder:
    """Returns the model of `config.model` for the devices of `mesh`."""
    devices = mesh.devices.flatten()
    return make_dual_encoder(config, Devices(len(devices), devices[0].platform))


def fill_vocabulary(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Sets `model.text.encoder.vocab_size` to the size of the vocabulary if it is 0.

    Raises:
      UserError: the model has fewer rows than the vocabulary has entries.
    """
    if config.model.text is None:
        return config
    entries, rows = data.vocabulary_size(config.data), _vocabulary_rows(config)
    if 0 < rows < entries:
        raise UserError(
            f"config.model.text.encoder.vocab_size={rows} is smaller than the vocabulary of "
            f"config.data.text ({entries} entries); set it to {entries}, or to 0 to use that size."
        )
    return _with_rows(config, rows or entries, entries)


def _vocabulary_rows(config: ml_collections.ConfigDict) -> int:
    return 0 if config.model.text is None else config.model.text.encoder.get("vocab_size", 0)


def _with_rows(
    config: ml_collections.ConfigDict, rows: int, entries: int
) -> ml_collections.ConfigDict:
    """Sets the rows of the word table, and task modules' outputs over words, if they are 0."""
    config = config.copy_and_resolve_references()
    with config.unlocked():
        config.model.text.encoder.vocab_size = rows
        for task in config.tasks.values():
            module = task.loss.get("module", {})
            if module.get("vocab_size") == 0:
                module.vocab_size = entries
    return config

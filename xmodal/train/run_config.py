"""The root of a config as a dataclass, and the sizes that follow from the dataset."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Annotated, Any

from ml_collections import ConfigDict

from xmodal import data
from xmodal.core.config import Bounds, check_value, lookup, read, setting
from xmodal.core.errors import UserError
from xmodal.models import ENCODERS
from xmodal.train.loggers import SERVICES, TENSORBOARD
from xmodal.train.optimization.optimizer import OptimizerConfig
from xmodal.train.optimization.run_lengths import UP_TO, resolve_epochs, resolve_sizes
from xmodal.train.sections import (
    BestCheckpointConfig,
    CheckpointConfig,
    FrozenFeaturesConfig,
    InitConfig,
    MeshConfig,
    ProfileConfig,
)
from xmodal.train.step.step import L2Config
from xmodal.train.tensorboard import TensorBoardConfig
from xmodal.train.tree import RULES

# Stand in for a dataset that is not known.
_MANY, _SOME_STEPS, _SOME_ROWS, _ANY_LENGTH = 2**31 - 1, 1000, 1000, 2**31 - 2
_ROWS = 512  # The rows of a word table are a multiple.


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
      best_checkpoint: see `BestCheckpointConfig`.
      seed: seed of parameters, order, augmentation and dropout.
      total_steps: number of updates; 0 evaluates the initial weights.
      batch_size: examples per batch on all devices together.
      accumulation_steps: parts in which a batch is embedded, and its pairs are scored, one by one,
        if the activations do not fit in memory; losses see the whole batch, see `accumulation`.
      log_every: steps between two reports.
      non_finite: whether a non-finite loss or gradient stops the run ("stop"), or its batch is
        skipped ("skip") and logged; ten consecutive skips stop the run.
      train_split: split of `data` that the run trains on.
      freeze: regular expressions matched from the start of a parameter's path.
      l2: see `L2Config`.
      init_from: see `InitConfig`.
      frozen_features: see `FrozenFeaturesConfig`.
      checkpoint: see `CheckpointConfig`.
      loggers: what receives the curves, any of "tensorboard", "wandb" and "mlflow", see `loggers`.
      tensorboard: see `TensorBoardConfig`.
      profile: see `ProfileConfig`; None for no trace.
      mesh: see `MeshConfig`.
      sharding: (regular expression searched in a path of the state, rule) pairs; the first match
        wins, see `tree.tree_shardings`.
    """

    name: str
    model: Mapping[str, Any]
    tasks: Mapping[str, Any]
    optimizer: OptimizerConfig
    data: data.DataConfig
    evals: Mapping[str, Any]
    best_checkpoint: BestCheckpointConfig = dataclasses.field(default_factory=BestCheckpointConfig)
    seed: int = setting(0, at_least=0, below=2**63)
    total_steps: int = setting(10_000, at_least=0, below=2**31 - 1)  # counted in int32
    batch_size: int = setting(128, at_least=2)
    accumulation_steps: int = setting(1, at_least=1)
    log_every: int = setting(50, at_least=1)
    non_finite: str = setting("stop", one_of=("stop", "skip"))
    train_split: str = "train"
    freeze: tuple[str, ...] = setting((), pattern=True)
    l2: L2Config | None = None
    init_from: InitConfig = dataclasses.field(default_factory=InitConfig)
    frozen_features: FrozenFeaturesConfig = dataclasses.field(default_factory=FrozenFeaturesConfig)
    checkpoint: CheckpointConfig = dataclasses.field(default_factory=CheckpointConfig)
    loggers: tuple[str, ...] = setting((TENSORBOARD,), one_of=(TENSORBOARD, *SERVICES))
    tensorboard: TensorBoardConfig = dataclasses.field(default_factory=TensorBoardConfig)
    profile: ProfileConfig | None = None
    mesh: MeshConfig = dataclasses.field(default_factory=MeshConfig)
    sharding: tuple[tuple[str, str], ...] = setting(((".*", "replicated"),), pattern=True)

    def __post_init__(self) -> None:
        for _, rule in self.sharding:
            lookup("config.sharding", rule, RULES)


def read_settings(config: ConfigDict) -> RunConfig:
    """Returns the root of a config as its dataclass."""
    return read(RunConfig, "config", config)


def find_section(config: Mapping[str, Any], path: str) -> dict[str, Any] | None:
    """Returns the section at a path; None if it, or one that it is in, is None or missing."""
    section: Any = config
    for name in path.split("."):
        section = (section or {}).get(name)
        if not isinstance(section, dict | None):
            raise UserError(f"{name} of config.{path} is {section!r}; it must be a section.")
    return section


def fill(config: ConfigDict, examples: int | None = None, entries: int | None = None) -> ConfigDict:
    """Returns a config whose sizes and lengths are numbers.

    Args:
      config: the root, with everything that comes with weights.
      examples: training examples per epoch. If it is None, sizes that depend on it are arbitrary,
        but large enough for a check.
      entries: entries of the vocabulary; None if it is not known, or there are no texts.
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
    schedule = find_section(filled, "optimizer.schedule") or {}
    total_steps = filled.get("total_steps", RunConfig.total_steps)
    if match := re.fullmatch(rf"({UP_TO})?(\d+)", str(schedule.get("warmup_steps"))):
        warmup = int(match[2])
        # "up to 40", the default of a config, is at most a third of the run.
        if match[1] and isinstance(total_steps, int):
            warmup = min(warmup, max(total_steps, 0) // 3)
        schedule["warmup_steps"] = warmup
    # Rows of tables of words, and task modules' outputs over words, if they are 0. A table for a
    # learned vocabulary has a few rows more, which no id reads: vocabularies of similar size share
    # compiled programs. Outputs over words have none, since a softmax would count them.
    encoder = find_section(filled, "model.text.encoder") or {}
    row = ENCODERS.get(encoder.get("name", ""))
    if row is None or not any(f.name == "vocab_size" for f in dataclasses.fields(row.config)):
        return ConfigDict(filled, type_safe=False)
    rows = encoder.get("vocab_size", 0)
    entries = entries or rows or _SOME_ROWS
    if 0 < rows < entries:
        raise UserError(
            f"config.model.text.encoder.vocab_size={rows} is smaller than the vocabulary of "
            f"config.data.text ({entries} entries); set it to {entries}, or to 0 to use that size."
        )
    names = find_section(filled, "tasks") or {}
    losses = [find_section(filled, f"tasks.{name}.loss") or {} for name in names]
    # A file's vocabulary is the same in every run. Losses that share the table, and a sum of
    # squares over parameters, would depend on rows that are not in use.
    is_exact = (find_section(filled, "data.text") or {}).get("vocabulary") or filled.get("l2")
    if not is_exact and not any(loss.get("reads") for loss in losses):
        rows = rows or -(-entries // _ROWS) * _ROWS
    encoder["vocab_size"] = rows or entries
    sizes = [(find_section(filled, "model.text.head"), rows or entries)]
    sizes += [(loss.get("module"), entries) for loss in losses]
    for section, size in sizes:
        if section and section.get("vocab_size") == 0:
            section["vocab_size"] = size
    return ConfigDict(filled, type_safe=False)

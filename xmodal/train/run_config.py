"""The root of a config as a dataclass."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import ml_collections

from xmodal import data
from xmodal.core import mesh as mesh_lib
from xmodal.core.config import lookup, read, setting
from xmodal.train.optimization.optimizer import OptimizerConfig
from xmodal.train.sections import (
    BestCheckpointConfig,
    CheckpointConfig,
    FrozenFeaturesConfig,
    InitConfig,
    ProfileConfig,
)
from xmodal.train.step.step import L2Config
from xmodal.train.tensorboard.example_views import TensorBoardConfig


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
      total_steps: number of updates.
      batch_size: examples per batch on all devices together.
      accumulation_steps: parts in which a batch is embedded, and its pairs are scored, one by one,
        if the activations do not fit in memory; losses see the whole batch, see `accumulation`.
      log_every: steps between two reports.
      non_finite: whether a non-finite loss or gradient stops the run ("stop"), or its batch is
        skipped ("skip") and recorded in `skipped.jsonl`; ten consecutive skips stop the run.
      train_split: split of `data` that the run trains on.
      freeze: regular expressions matched from the start of a parameter's path.
      l2: see `L2Config`.
      init_from: see `InitConfig`.
      frozen_features: see `FrozenFeaturesConfig`.
      checkpoint: see `CheckpointConfig`.
      tensorboard: see `TensorBoardConfig`.
      profile: see `ProfileConfig`; None for no trace.
      sharding: (regular expression searched in a path of the state, rule) pairs; the first match
        wins, see `mesh.tree_shardings`.
    """

    name: str
    model: Mapping[str, Any]
    tasks: Mapping[str, Any]
    optimizer: OptimizerConfig
    data: data.DataConfig
    evals: Mapping[str, Any]
    best_checkpoint: BestCheckpointConfig = dataclasses.field(default_factory=BestCheckpointConfig)
    seed: int = setting(0, at_least=0, below=2**63)
    total_steps: int = setting(10_000, at_least=1, below=2**31 - 1)  # counted in int32
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
    tensorboard: TensorBoardConfig = dataclasses.field(default_factory=TensorBoardConfig)
    profile: ProfileConfig | None = None
    sharding: tuple[tuple[str, str], ...] = setting(((".*", "replicated"),), pattern=True)

    def __post_init__(self) -> None:
        for _, rule in self.sharding:
            lookup("config.sharding", rule, mesh_lib.RULES)

    @property
    def awaited_metrics(self) -> dict[str, str]:
        """Metric tags that the run needs, by their place in the config."""
        awaited = {"config.best_checkpoint.metric": self.best_checkpoint.metric}
        if self.optimizer.plateau is not None:
            awaited["config.optimizer.plateau.metric"] = self.optimizer.plateau.metric
        return awaited


def read_settings(config: ml_collections.ConfigDict) -> RunConfig:
    """Returns the root of a config as its dataclass."""
    return read(RunConfig, "config", config)

"""The plan of a sweep: everything that determines its trials, stored in Optuna's study."""

import dataclasses
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import optuna
from absl import logging
from ml_collections import ConfigDict

from xmodal.api.run_training import CheckedConfig
from xmodal.apps.sweep.space import Space, describe, grid, suggest, with_values
from xmodal.core.config import lookup
from xmodal.core.errors import UserError
from xmodal.core.event_writer import flat_config
from xmodal.data import DatasetMissingError
from xmodal.evals.reports.metrics import lower_is_better

PRUNERS = {
    "none": optuna.pruners.NopPruner,
    "median": optuna.pruners.MedianPruner,
    "halving": optuna.pruners.SuccessiveHalvingPruner,
    "hyperband": optuna.pruners.HyperbandPruner,
}
# Config values that do not affect trials.
_FREE = re.compile(
    r"config\.(name|log_every|checkpoint|sharding|tensorboard|frozen_features\.folder)(\.|$)"
    r"|config\.(.+\.)?(data_dir|manual_dir|ratings_dir|prefetch)$"
)


@dataclasses.dataclass(frozen=True)
class Plan:
    """Trials of a search.

    Without a studied parameter, every draw is a trial (algorithm 1 of VETE, Kurach et al. 2017).
    With one, every draw gives a trial for each of its values (algorithm 2), so that the values are
    compared over the same draws of everything else.

    Attributes:
      config: config that all trials share.
      space: drawn parameters.
      studied: path and values of the studied parameter, or None.
      seed: seed of the draws.
      select: tag of the metric that trials are compared by.
      mode: "max", "min" or "last", how the checkpoint of a trial is selected.
      sampler: "random" or "tpe". A space of few combinations is drawn at random without repetition.
      pruner: key of `PRUNERS`, which ends trials whose evaluations are worse than those of others.
    """

    config: ConfigDict
    space: Space
    studied: tuple[str, tuple[Any, ...]] | None
    seed: int
    select: str
    mode: str
    sampler: str = "random"
    pruner: str = "none"

    @property
    def sign(self) -> int:
        """1 if higher scores are better, -1 if lower ones are."""
        return -1 if lower_is_better(self.select) else 1

    @property
    def parameters(self) -> Space:
        """Distributions of all values that differ between trials, the studied one first."""
        studied = {} if self.studied is None else {self.studied[0]: ("choice", *self.studied[1])}
        return {**studied, **self.space}

    def total(self, draws: int) -> int:
        """Returns the number of trials of draws; a space of few combinations has no more."""
        if self.sampler == "random" and (few := grid(self.space)):
            draws = min(draws, math.prod(map(len, few.values())))
        return draws * (len(self.studied[1]) if self.studied else 1)

    def make_study(self, storage: optuna.storages.BaseStorage | None = None) -> optuna.Study:
        """Opens or creates the study of the trials; in memory without a storage."""
        return optuna.create_study(
            study_name="sweep",
            storage=storage,
            direction="minimize" if self.sign < 0 else "maximize",
            pruner=PRUNERS[self.pruner](),
            load_if_exists=True,
        )

    def seed_study(self, study: optuna.Study) -> None:
        """Makes the next draw depend on the seed and the number of trials so far."""
        seed = (self.seed + 1_000_003 * len(study.get_trials(deepcopy=False))) % 2**32
        if self.sampler == "tpe":
            study.sampler = optuna.samplers.TPESampler(seed=seed)
        elif few := grid(self.space):
            study.sampler = optuna.samplers.GridSampler(few, self.seed)
        else:
            study.sampler = optuna.samplers.RandomSampler(seed)

    def draw(self, study: optuna.Study, trial: optuna.Trial) -> dict[str, Any]:
        """Returns the values of a trial; of a new draw, also queues the other studied values."""
        values = suggest(trial, self.space)
        if "values" in trial.user_attrs:  # Of a trial that is resumed.
            return trial.user_attrs["values"]
        if self.studied:
            path, studied = self.studied
            place = trial.user_attrs.get("studied", 0)
            for other in range(1, len(studied)) if place == 0 else ():
                study.enqueue_trial(trial.params, user_attrs={"studied": other})
            values = {path: studied[place]} | values
        trial.set_user_attr("values", values)
        return values

    def config_of(self, name: str, values: Mapping[str, Any]) -> ConfigDict:
        """Returns the config of a trial."""
        config = with_values(self.config, values)
        with config.unlocked():
            config.name = f"{self.config.name}_{name}"
            config.best_checkpoint = {"metric": self.select, "mode": self.mode}
        return config

    def preview(self, draws: int) -> Iterator[dict[str, Any]]:
        """Yields the values of every trial, if no score is known yet."""
        study = self.make_study()
        for _ in range(self.total(draws)):
            self.seed_study(study)
            yield self.draw(study, study.ask())


def make_plan(plan: Plan, select: str | None) -> Plan:
    """Returns a plan with its metric, after building the config with the ends of distributions.

    Args:
      plan: without `select` and `mode`.
      select: tag of a metric, or its beginning, which selects the first of its metrics:
        `sts/avg2016` for `sts/avg2016/pearson`. None for the metric of `config.best_checkpoint`.
    """
    logging.info("Checking %s of the search space.", ", ".join(plan.parameters))
    checked = CheckedConfig(plan.config)
    for path, value in ((path, x) for path, each in plan.parameters.items() for x in each[1:]):
        try:
            CheckedConfig(with_values(plan.config, {path: value}))
        except DatasetMissingError:
            raise
        except UserError as error:
            raise UserError(f"The search space has {path}={value!r}. {error}") from error
    metric = checked.best_checkpoint.metric
    if select is not None:
        tags = lookup(f"--select={select}", select.partition("/")[0], checked.tags())
        # A table stands for the first of its metrics.
        metric = next((x for x in tags if x.rpartition("/")[0] == select), select)
        lookup(f"--select={select}", metric, tags)
    # A metric of --select may be better where that of the config is worse.
    mode = "min" if lower_is_better(metric) else "max"
    mode = "last" if checked.best_checkpoint.mode == "last" else mode
    return dataclasses.replace(plan, select=metric, mode=mode)


def keep(plan: Plan, study: optuna.Study) -> None:
    """Stores the plan in its study, which must not have trials of another one."""
    content = {
        "select": plan.select,
        "mode": plan.mode,
        "draw_seed": plan.seed,
        "space": {path: describe(each) for path, each in plan.parameters.items()},
        "config": json.loads(plan.config.to_json_best_effort()),
    }
    new = {key: x for key, x in flat_config(content).items() if not _FREE.match(key)}
    old = study.user_attrs.get("plan", new)
    if different := [key for key in {**old, **new} if old.get(key) != new.get(key)]:
        lines = "".join(f"  {key}: {old.get(key)} -> {new.get(key)}\n" for key in different)
        raise UserError(
            f"The folder has trials of another sweep:\n{lines}Set the values before the arrows, or "
            "use another --workdir."
        )
    study.set_user_attr("plan", new)

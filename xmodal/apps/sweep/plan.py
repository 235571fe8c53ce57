"""The plan of a sweep: everything that determines its trials, stored in `sweep.json`."""

import dataclasses
import json
import pathlib
import re
from collections.abc import Mapping
from typing import Any

from absl import logging
from etils import epath
from ml_collections import ConfigDict
from optuna.distributions import BaseDistribution

from xmodal.api.run_training import CheckedConfig
from xmodal.apps.sweep.space import Space, choices, chooses, describe, draw, ends
from xmodal.core.config import lookup
from xmodal.core.errors import UserError
from xmodal.core.event_writer import flat_config
from xmodal.core.json_files import read_json
from xmodal.core.result_files import format_json, write_files
from xmodal.data import UNKNOWN_HASH, DatasetMissingError
from xmodal.evals.reports.metrics import lower_is_better

# Config values that do not affect trials.
_FREE = (
    r"config\.(name|log_every|checkpoint|sharding|tensorboard|frozen_features\.folder)(\.|$)",
    r"config\.(.+\.)?(data_dir|manual_dir|ratings_dir|prefetch)$",
)
# Other records are known by another hash under the same name.
_NO_HASH = {None, UNKNOWN_HASH}


@dataclasses.dataclass(frozen=True)
class Plan:
    """Trials of a random search, for any number of draws.

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
      records: the hash of the config's training split by its name and version.
    """

    config: ConfigDict
    space: Space
    studied: tuple[str, tuple[Any, ...]] | None
    seed: int
    select: str
    mode: str
    records: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def trials(self, draws: int) -> list[dict[str, Any]]:
        """Returns the values of every trial by path, draw by draw."""
        drawn = draw(self.space, self.seed, draws)
        if self.studied is None:
            return drawn
        path, values = self.studied
        return [{path: value} | others for others in drawn for value in values]

    @property
    def sign(self) -> int:
        """1 if higher scores are better, -1 if lower ones are."""
        return -1 if lower_is_better(self.select) else 1

    @property
    def parameters(self) -> dict[str, BaseDistribution]:
        """Distributions of all values that differ between trials, the studied one first."""
        studied = {} if self.studied is None else {self.studied[0]: choices(self.studied[1])}
        return {**studied, **self.space}

    def config_of(self, name: str, values: Mapping[str, Any]) -> ConfigDict:
        """Returns the config of a trial."""
        config = with_values(self.config, values)
        with config.unlocked():
            config.name = f"{self.config.name}_{name}"
            config.select = {"metric": self.select, "mode": self.mode}
        return config


def make_plan(
    config: ConfigDict,
    space: Space,
    studied: tuple[str, tuple[Any, ...]] | None,
    *,
    seed: int,
    select: str | None,
) -> Plan:
    """Returns the plan of a search after building the config with the ends of every distribution.

    Args:
      config: see `Plan`, as for the next three.
      space: drawn parameters.
      studied: the studied parameter.
      seed: seed of the draws.
      select: tag of a metric, or its beginning, which selects the first of its metrics:
        `sts/avg2016` for `sts/avg2016/pearson`. None for the metric of `config.select`.

    Raises:
      UserError: the config is wrong, or rejects a path or a value; or there is no such metric.
      data.DatasetMissingError: a dataset is missing; says how to get it.
    """
    plan = Plan(config, space, studied, seed, "", "")
    logging.info("Checking %s of the search space.", ", ".join(plan.parameters))
    checked = CheckedConfig(config)
    for path, value in ((path, x) for path, each in plan.parameters.items() for x in ends(each)):
        try:
            CheckedConfig(with_values(config, {path: value}))
        except DatasetMissingError:
            raise
        except UserError as error:
            raise UserError(f"The search space has {path}={value!r}. {error}") from error
    metric = _resolve_metric(checked, select)
    # A metric of --select may be better where that of the config is worse.
    mode = "min" if lower_is_better(metric) else "max"
    mode = "last" if checked.select.mode == "last" else mode
    return dataclasses.replace(plan, select=metric, mode=mode, records=checked.records)


def _resolve_metric(checked: CheckedConfig, given: str | None) -> str:
    if given is None:
        return checked.select.metric
    tags = lookup(f"--select={given}", given.partition("/")[0], checked.tags())
    # A table stands for the first of its metrics.
    given = next((x for x in tags if given not in tags and x.rpartition("/")[0] == given), given)
    lookup(f"--select={given}", given, tags)
    return given


def with_values(config: ConfigDict, values: Mapping[str, Any]) -> ConfigDict:
    """Returns a copy of a config with other values.

    Args:
      config: the root.
      values: values by path; a mapping replaces a whole section, in which other values may be set.
        The name of another entry, such as a loss, removes the options of the one before.

    Raises:
      UserError: a path leads into a section that does not exist.
    """
    config = config.copy_and_resolve_references()
    # Sections before their keys, names before options.
    for path in sorted(values, key=lambda path: (path.count("."), not path.endswith(".name"))):
        value = values[path]
        *parents, last = path.split(".")
        section, place = config, "config"
        for name in parents:
            sections = {key: each for key, each in section.items() if isinstance(each, ConfigDict)}
            section = lookup(f"the path {path!r}; sections of {place}", name, sections)
            place += f".{name}"
        with section.unlocked(), section.ignore_type():
            if value != section.get(last):
                for key in [x for x in section if chooses(path, ".".join([*parents, x]))]:
                    del section[key]
            section[last] = ConfigDict(value) if isinstance(value, Mapping) else value
    return config


def keep(plan: Plan, folder: pathlib.Path) -> None:
    """Writes `sweep.json`, unless the folder has trials of another plan.

    Raises:
      UserError: lists every difference as `path: before -> now`.
    """
    content = {
        "select": plan.select,
        "mode": plan.mode,
        "draw_seed": plan.seed,
        "space": {path: describe(each) for path, each in plan.space.items()},
        "study": {} if plan.studied is None else {plan.studied[0]: list(plan.studied[1])},
        "config": json.loads(plan.config.to_json_best_effort()),
        "records": dict(plan.records),
    }
    text, path = format_json(content), folder / "sweep.json"
    if path.exists():
        saved = read_json(epath.Path(path), "copy it from a backup, or use another --workdir.")
        before, now = (flat_config(each) for each in (saved, json.loads(text)))
        lines = [
            f"  {key}: {before.get(key)} -> {now.get(key)}\n"
            for key in dict.fromkeys([*before, *now])
            if before.get(key) != now.get(key)
            and not any(re.match(free, key) for free in _FREE)
            and not (key.startswith("records.") and {before.get(key), now.get(key)} & _NO_HASH)
        ]
        if lines:
            raise UserError(
                f"{folder} has trials of another sweep:\n{''.join(lines)}Set the values before the "
                "arrows, or use another --workdir."
            )
    write_files(folder, {"sweep.json": text})

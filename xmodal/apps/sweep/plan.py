"""The plan of a sweep: everything that determines its trials, stored in `sweep.json`."""

import dataclasses
import json
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ml_collections import ConfigDict

from xmodal.apps.sweep.distributions import Choice, Distribution
from xmodal.apps.sweep.space import Space, draw, to_section
from xmodal.base.config import UserError
from xmodal.base.result_files import csv_text, format_json, write_files
from xmodal.evals.metrics import lower_is_better

_FILE, _TABLE = "sweep.json", "draws.csv"
# Config values that do not affect trials.
_FREE = (
    r"config\.(name|log_every|checkpoint|sharding|tensorboard|frozen_features\.folder)(\.|$)",
    r"config\.(.+\.)?(data_dir|manual_dir|ratings_dir|prefetch)$",
)


@dataclasses.dataclass(frozen=True)
class Trial:
    """One training run of a sweep.

    Attributes:
      number: number of the trial, starting at 0.
      draw: number of its draw, which all values of the studied parameter share.
      values: path of the config -> value.
    """

    number: int
    draw: int
    values: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Name of the run's folder."""
        return f"{self.number:04d}"


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
    """

    config: ConfigDict
    space: Space
    studied: tuple[str, Choice] | None
    seed: int
    select: str
    mode: str

    def trials(self, draws: int) -> Iterator[Trial]:
        """Yields the trials of the first `draws` draws, draw by draw."""
        for index in range(draws):
            values = draw(self.space, self.seed, index)
            if self.studied is None:
                yield Trial(index, index, values)
                continue
            path, choice = self.studied
            for place, value in enumerate(choice.values):
                yield Trial(index * len(choice.values) + place, index, {path: value} | values)

    @property
    def sign(self) -> int:
        """1 if higher scores are better, -1 if lower ones are."""
        return -1 if lower_is_better(self.select) else 1

    @property
    def parameters(self) -> dict[str, Distribution]:
        """Distributions of all values that differ between trials, the studied one first."""
        return {**dict([self.studied] if self.studied else []), **self.space}

    def config_of(self, trial: Trial) -> ConfigDict:
        """Returns the config of a trial."""
        config = with_values(self.config, trial.values)
        with config.unlocked():
            config.name = f"{self.config.name}_{trial.name}"
            config.select = {"metric": self.select, "mode": self.mode}
        return config


def with_values(config: ConfigDict, values: Mapping[str, Any]) -> ConfigDict:
    """Returns a copy of a config with other values.

    Args:
      config: the root.
      values: values by path; a mapping replaces a whole section, in which other values may be set.

    Raises:
      UserError: a path leads into a section that does not exist.
    """
    config = config.copy_and_resolve_references()
    for path, value in sorted(values.items(), key=lambda item: item[0].count(".")):
        *parents, last = path.split(".")
        section, place = config, "config"
        for name in parents:
            inner = section.get(name)
            if not isinstance(inner, ConfigDict):
                known = sorted(key for key in section if isinstance(section[key], ConfigDict))
                raise UserError(
                    f"{path!r} is not a path of the config: {place}.{name} "
                    f"{'is not a section' if name in section else 'is missing'}; sections of "
                    f"{place}: {known}."
                )
            section, place = inner, f"{place}.{name}"
        with section.unlocked(), section.ignore_type():
            section[last] = ConfigDict(value) if isinstance(value, Mapping) else value
    return config


def save(plan: Plan, folder: pathlib.Path, trials: Iterable[Trial]) -> None:
    """Writes `sweep.json`, and `draws.csv` with one row per trial."""
    header = ["trial", "draw", *plan.parameters]
    table = [header, *([each.name, each.draw, *each.values.values()] for each in trials)]
    write_files(folder, {_TABLE: csv_text(table), _FILE: format_json(_describe(plan))})


def check_same(plan: Plan, folder: pathlib.Path) -> None:
    """Raises an error if a folder has trials of another plan.

    Raises:
      UserError: lists every difference as `path: before -> now`.
    """
    path = folder / _FILE
    if not path.exists():
        return
    before, now = (
        _flat(json.loads(path.read_text())),
        _flat(json.loads(format_json(_describe(plan)))),
    )
    changed = [
        key
        for key in dict.fromkeys([*before, *now])
        if before.get(key) != now.get(key) and not any(re.match(free, key) for free in _FREE)
    ]
    if changed:
        lines = "".join(f"  {key}: {before.get(key)} -> {now.get(key)}\n" for key in changed)
        raise UserError(
            f"{folder} has trials of another sweep:\n{lines}Set the values before the arrows, or "
            "use another --workdir."
        )


def _describe(plan: Plan) -> dict[str, Any]:
    # Lists and keys as in JSON.
    config = json.loads(plan.config.to_json_best_effort())
    studied = {} if plan.studied is None else {plan.studied[0]: list(plan.studied[1].values)}
    return {
        "select": plan.select,
        "mode": plan.mode,
        "draw_seed": plan.seed,
        "space": {path: to_section(each) for path, each in plan.space.items()},
        "study": studied,
        "config": config,
    }


def _flat(section: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in section.items():
        if isinstance(value, Mapping) and value and prefix != "space.":
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = json.dumps(value)
    return flat

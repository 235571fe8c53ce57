"""The plan of a sweep: its search space, and all else that determines its trials."""

import ast
import dataclasses
import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import optuna
from absl import logging
from ml_collections import ConfigDict
from optuna.distributions import FloatDistribution, IntDistribution

from xmodal.api.run_training import metric_tags, resolve
from xmodal.apps.arguments import literal
from xmodal.core.config import flatten_section, lookup
from xmodal.core.errors import UnknownKeyError, UserError
from xmodal.evals.reports.metrics import lower_is_better
from xmodal.similarity.similarity import SimilarityConfig

Space = Mapping[str, tuple[Any, ...]]
"""Path of the config -> `("log", low, high)`, `("uniform", low, high)`, `("int", low, high)` or
`("choice", value, ...)`."""
_NAMES = dict.fromkeys(("choice", "int", "log", "uniform"))
_FEW = 1000  # Combinations.
# Keys that belong to the entry that a section names, and those that every entry has.
_OF_ENTRY = {"optimizer": {"options"}, "loss": {"options", "inputs", "reads", "module"}}
_OF_SECTION = {
    "schedule": {"warmup_steps"},
    "similarity": {each.name for each in dataclasses.fields(SimilarityConfig)},
}
_RETRIED = optuna.storages.RetryHeartbeatStaleTrialCallback.retried_trial_number
PRUNERS = {
    "none": optuna.pruners.NopPruner,
    "median": optuna.pruners.MedianPruner,
    "halving": optuna.pruners.SuccessiveHalvingPruner,
    "hyperband": optuna.pruners.HyperbandPruner,
}
# Config values that do not affect trials.
_FREE = re.compile(
    r"config\.(name|log_every|checkpoint|mesh|sharding|tensorboard|frozen_features\.folder)(\.|$)"
    r"|config\.(.+\.)?(data_dir|manual_dir|ratings_dir|prefetch|workers)$"
)


def parse_space(text: str) -> tuple[str, tuple[Any, ...]]:
    """Returns the path and the distribution of a flag `PATH:log:1e-4:1e-2`."""
    path, name, values = (*text.split(":", 2), "", "")[:3]
    given = values.split(",") if name == "choice" else values.split(":")
    try:  # Lists and sections have commas of their own; other strings need no quotes.
        found = ast.literal_eval(f"[{values}]") if name == "choice" else map(literal, given)
    except (SyntaxError, ValueError):
        found = map(literal, given)
    path = path.removeprefix("--").removeprefix("config.")
    return path, check_distribution(f"--space={text}", name, *found)


def check_distribution(where: str, name: str, *values: Any) -> tuple[Any, ...]:
    """Returns a distribution of `Space`, after checking it."""
    lookup(where, name, _NAMES)
    if name != "choice":
        kind = IntDistribution if name == "int" else FloatDistribution
        try:
            low, high = values
            kind(low, high, log=name == "log")
        except (TypeError, ValueError) as error:
            raise UserError(f"{where} must be PATH:{name}:LOW:HIGH in numbers: {error}.") from error
    return name, *values


def suggest(trial: optuna.Trial, space: Space) -> dict[str, Any]:
    """Returns the values of a trial by path."""
    values: dict[str, Any] = {}
    for path, (name, *given) in space.items():
        if name == "choice":  # Optuna stores texts, but neither lists nor sections.
            texts = {json.dumps(value): value for value in given}
            values[path] = texts[trial.suggest_categorical(path, list(texts))]
        elif name == "int":
            values[path] = trial.suggest_int(path, *given)
        else:
            values[path] = trial.suggest_float(path, *given, log=name == "log")
    return values


def count_combinations(space: Space) -> float:
    """Returns how many different draws a space has; infinity with continuous parameters."""
    sizes = {"choice": len, "int": lambda ends: ends[1] - ends[0] + 1}
    return math.prod(sizes.get(name, lambda _: math.inf)(given) for name, *given in space.values())


def describe(distribution: tuple[Any, ...]) -> str:
    """Returns a distribution as written after `--space=PATH:`."""
    name, *values = distribution
    texts = [each if isinstance(each, str) else repr(each) for each in values]
    return f"{name}:{(',' if name == 'choice' else ':').join(texts)}"


def with_values(config: ConfigDict, values: Mapping[str, Any]) -> ConfigDict:
    """Returns a copy of a config with other values by path.

    A mapping replaces a whole section, in which other values may be set, also in sections that it
    leaves out. The name of another entry, such as a loss, removes the options of the one before.
    """
    config = config.copy_and_resolve_references()
    # Sections before their keys, names before options.
    for path in sorted(values, key=lambda path: (path.count("."), not path.endswith(".name"))):
        *parents, last = path.split(".")
        value, section, place = values[path], config, "config"
        for name in parents:
            place += f".{name}"
            with section.unlocked():
                inner = section[name] = section.get(name, ConfigDict())
            if not isinstance(inner, ConfigDict):
                raise UnknownKeyError(
                    f"{path} cannot be drawn: {place} is {inner!r}. Draw {place} as a whole."
                )
            section = inner
        with section.unlocked(), section.ignore_type():
            if parents and last == "name" and value != section.get(last):
                others = set(section) - _OF_SECTION.get(parents[-1], set())
                for key in _OF_ENTRY.get(parents[-1], others) & set(section):
                    del section[key]
            section[last] = ConfigDict(value) if isinstance(value, Mapping) else value
    return config


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
      absent: position of a studied value -> drawn paths of the studied section that it does not
        have, such as the number of layers of a bag of words. Their values are drawn nevertheless,
        so that all studied values share their draws.
    """

    config: ConfigDict
    space: Space
    studied: tuple[str, tuple[Any, ...]] | None
    seed: int
    select: str
    mode: str
    sampler: str = "random"
    pruner: str = "none"
    absent: Mapping[int, Collection[str]] = dataclasses.field(default_factory=dict)

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
        if self.sampler == "random" and self.space:
            draws = int(min(draws, count_combinations(self.space)))
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
        """Makes the next draw depend on the seed and the number of draws so far.

        So studies and separate searches share their draws, also where trials were killed.
        """
        known = study.get_trials(deepcopy=False)
        draws = [x for x in known if not x.user_attrs.get("studied") and _RETRIED(x) is None]
        seed = (self.seed + 1_000_003 * len(draws)) % 2**32
        if self.sampler == "tpe":
            study.sampler = optuna.samplers.TPESampler(seed=seed)
        elif count_combinations(self.space) <= _FEW:
            study.sampler = optuna.samplers.BruteForceSampler(seed)
        else:
            study.sampler = optuna.samplers.RandomSampler(seed)

    def draw(self, study: optuna.Study, trial: optuna.Trial) -> dict[str, Any]:
        """Returns the values of a trial; of a new draw, also queues the other studied values."""
        values = suggest(trial, self.space)
        if "values" in trial.user_attrs:  # The trial is resumed.
            return trial.user_attrs["values"]
        if self.studied:
            path, studied = self.studied
            place = trial.user_attrs.get("studied", 0)
            for other in range(1, len(studied)) if place == 0 else ():
                study.enqueue_trial(trial.params, user_attrs={"studied": other})
            own = {key: x for key, x in values.items() if key not in self.absent.get(place, ())}
            values = {path: studied[place]} | own
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
    path, studied = plan.studied or ("", (None,))
    section, absent = path.removesuffix(".name"), {}
    inside = {key: each for key, each in plan.space.items() if path and is_in(key, section)}
    for place, value in enumerate(studied):
        own = {path: value} if path else {}
        checked = resolve(with_values(plan.config, own))
        lost = absent[place] = {
            key for key, each in inside.items() if not _has(plan.config, own, {key: each[1]})
        }
        # The other parameters have the first of their values: some need each other.
        own |= {key: each[1] for key, each in plan.space.items() if key not in lost}
        for key, (_, *ends) in (plan.space if place == 0 else inside).items():
            for end in ends if key not in lost else ():
                resolve(with_values(plan.config, own | {key: end}))
    for key in set(plan.space).intersection(*absent.values()):
        raise UserError(f"{key} is drawn, but no studied value of {path} has it: leave it out.")
    best = checked.settings.best_checkpoint
    metric, mode = best.metric, best.mode
    if select is not None:
        tags = lookup(f"--select={select}", select.partition("/")[0], metric_tags(checked))
        # A table stands for the first of its metrics.
        metric = next((x for x in tags if x.rpartition("/")[0] == select), select)
        lookup(f"--select={select}", metric, tags)
    if mode != "last":  # A metric of --select may be better where that of the config is worse.
        mode = "min" if lower_is_better(metric) else "max"
    return dataclasses.replace(plan, select=metric, mode=mode, absent=absent)


def is_in(path: str, section: str) -> bool:
    """Returns whether a config path is equal to another one or inside it."""
    return f"{path}.".startswith(f"{section}.")


def _has(config: ConfigDict, own: Mapping[str, Any], drawn: Mapping[str, Any]) -> bool:
    """Returns whether the config with a studied value reads a drawn path."""
    try:
        resolve(with_values(config, {**own, **drawn}))
    except UnknownKeyError:
        return False
    except UserError:  # Its values may need those of others.
        pass
    return True


def keep(plan: Plan, study: optuna.Study) -> None:
    """Stores the plan in its study, which must not have trials of another one."""
    content = {
        "select": plan.select,
        "mode": plan.mode,
        "draw_seed": plan.seed,
        "space": {path: describe(each) for path, each in plan.parameters.items()},
        "config": json.loads(plan.config.to_json_best_effort()),
    }
    new = {key: x for key, x in flatten_section(content).items() if not _FREE.match(key)}
    old = study.user_attrs.get("plan", new)
    if different := [key for key in {**old, **new} if old.get(key) != new.get(key)]:
        lines = "".join(f"  {key}: {old.get(key)} -> {new.get(key)}\n" for key in different)
        raise UserError(
            f"The folder has trials of another sweep:\n{lines}Set the values before the arrows, or "
            "use another --workdir."
        )
    study.set_user_attr("plan", new)

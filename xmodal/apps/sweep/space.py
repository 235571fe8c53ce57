"""The search space of a sweep: an Optuna distribution for each path of the config that it draws."""

import ast
import dataclasses
import itertools
import json
import math
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from xmodal.apps.arguments import literal
from xmodal.core.config import check_value, lookup
from xmodal.core.errors import UserError
from xmodal.similarity.similarity import SimilarityConfig

Space = Mapping[str, BaseDistribution]
"""Path of the config, such as `optimizer.learning_rate` -> distribution of its values."""
_NAMES = dict.fromkeys(("choice", "int", "log", "uniform"))
_DIGITS = 4
_FEW = 1000  # Combinations.
# Optuna reports every study that it creates.
optuna.logging.set_verbosity(optuna.logging.WARNING)

# Keys that belong to the entry that a section names, and those that every entry has.
_OF_ENTRY = {"optimizer": {"options"}, "loss": {"options", "inputs", "reads", "module"}}
_OF_SECTION = {
    "schedule": {"warmup_steps"},
    "similarity": {each.name for each in dataclasses.fields(SimilarityConfig)},
}


def read_space(given: Mapping[str, tuple[Any, ...]], where: str) -> Space:
    """Returns the space of a config file.

    Args:
      given: path -> name and values of a distribution: `("log", low, high)`, `("uniform", low,
        high)`, `("int", low, high)` or `("choice", value, ...)`.
      where: place of the space, for errors.

    Raises:
      UserError: an unknown distribution, or bounds out of order.
    """
    if not isinstance(given, Mapping) or not all(
        isinstance(each, tuple) for each in given.values()
    ):
        raise UserError(f"{where} must map paths of the config to tuples: ('log', LOW, HIGH).")
    return {strip(path): _read(f"{where}[{path!r}]", *each) for path, each in given.items()}


def parse_space(text: str) -> tuple[str, BaseDistribution]:
    """Returns the path and the distribution of a flag `PATH:log:1e-4:1e-2`.

    Raises:
      UserError: says what is wrong with the flag.
    """
    path, name, values = (*text.split(":", 2), "", "")[:3]
    given = parse_values(values) if name == "choice" else map(literal, values.split(":"))
    return strip(path), _read(f"--space={text}", name, *given)


def parse_values(text: str) -> tuple[Any, ...]:
    """Returns the values of a list `64,128` or `pearson,rank`; strings need no quotes."""
    try:
        return tuple(ast.literal_eval(f"[{text}]"))
    except (SyntaxError, ValueError):
        return tuple(literal(each) for each in text.split(","))


def choices(values: tuple[Any, ...]) -> CategoricalDistribution:
    """Returns a choice of values of any type.

    Raises:
      ValueError: it has no values, or a duplicate value.
    """
    if len({repr(value) for value in values}) < len(values):
        raise ValueError(f"a choice of {list(values)} has a value twice.")
    with warnings.catch_warnings(action="ignore"):  # Lists and sections, see `as_category`.
        return CategoricalDistribution(values)


def as_category(value: Any) -> Any:
    """Returns a value that Optuna can store: lists and sections become JSON."""
    is_plain = value is None or isinstance(value, bool | int | float | str)
    return value if is_plain else json.dumps(value)


def draw(space: Space, seed: int, count: int) -> list[dict[str, Any]]:
    """Returns up to `count` random draws, a value for every path; more begin with the same ones.

    A space of few combinations is drawn without repetition, so there are no more draws than that.
    In any other space, a draw of a path depends only on the seed and the path, and a parameter
    with few values takes all of them before it takes one again.
    """
    if space and _has_few_combinations(space):
        return _shuffle(space, seed)[:count]
    drawn: list[dict[str, Any]] = [{} for _ in range(count)]
    for path, each in space.items():
        draws = _cycle if _has_few_combinations({path: each}) else _sample
        for values, value in zip(drawn, draws(path, each, seed), strict=False):
            values[path] = value
    return drawn


def _cycle(path: str, distribution: BaseDistribution, seed: int) -> Iterator[Any]:
    for cycle in itertools.count():
        for values in _shuffle({path: distribution}, zlib.crc32(f"{seed} {path} {cycle}".encode())):
            yield values[path]


def _sample(path: str, distribution: BaseDistribution, seed: int) -> Iterator[Any]:
    study = optuna.create_study()
    trial = optuna.trial.create_trial(state=optuna.trial.TrialState.RUNNING)
    sampler = optuna.samplers.RandomSampler(zlib.crc32(f"{seed} {path}".encode()))
    while True:
        value = sampler.sample_independent(study, trial, path, distribution)
        if isinstance(distribution, FloatDistribution):
            value = float(f"{value:.{_DIGITS}g}")
            value = min(max(value, distribution.low), distribution.high)
        yield value


def _shuffle(space: Space, seed: int) -> list[dict[str, Any]]:
    """Returns all combinations in random order."""
    values = {path: _values(each) for path, each in space.items()}
    places = {path: range(len(each)) for path, each in values.items()}
    study = optuna.create_study(sampler=optuna.samplers.GridSampler(places, seed))
    trials = [study.ask() for _ in itertools.product(*places.values())]
    return [
        {path: each[trial.suggest_categorical(path, places[path])] for path, each in values.items()}
        for trial in trials
    ]


def _has_few_combinations(space: Space) -> bool:
    return 0 < math.prod(len(_values(each)) for each in space.values()) <= _FEW


def _values(distribution: BaseDistribution) -> Sequence[Any]:
    """Returns all values; none for a distribution of real numbers."""
    if isinstance(distribution, IntDistribution):
        return range(distribution.low, distribution.high + 1)
    return distribution.choices if isinstance(distribution, CategoricalDistribution) else ()


def ends(distribution: BaseDistribution) -> tuple[Any, ...]:
    """Returns values such that a config that allows them allows the whole distribution."""
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    return (distribution.low, distribution.high)


def describe(distribution: BaseDistribution) -> str:
    """Returns a distribution as written after `--space=PATH:`."""
    values = [each if isinstance(each, str) else repr(each) for each in ends(distribution)]
    if isinstance(distribution, CategoricalDistribution):
        return f"choice:{','.join(values)}"
    name = "int" if isinstance(distribution, IntDistribution) else "uniform"
    return ":".join(["log" if getattr(distribution, "log", False) else name, *values])


def chooses(path: str, other: str) -> bool:
    """Whether a path is the name of an entry, such as a loss, and another one is its option."""
    place, _, last = path.rpartition(".")
    if not place or last != "name" or not other.startswith(f"{place}."):
        return False
    section, key = place.rpartition(".")[2], other.removeprefix(f"{place}.").partition(".")[0]
    if section in _OF_ENTRY:
        return key in _OF_ENTRY[section]
    return key != "name" and key not in _OF_SECTION.get(section, ())


def strip(path: str) -> str:
    """Returns a path without `--config.`, with which flags are written."""
    return path.removeprefix("--").removeprefix("config.")


def _read(where: str, name: str, *values: Any) -> BaseDistribution:
    lookup(where, name, _NAMES)
    if name != "choice" and len(values) != 2:
        raise UserError(f"{where} needs the smallest and the largest value: PATH:{name}:LOW:HIGH.")
    for bound in () if name == "choice" else values:
        check_value(f"A bound of {where}", int if name == "int" else float, bound)
    try:
        if name == "choice":
            return choices(values)
        low, high = values
        if name == "int":
            return IntDistribution(low, high)
        return FloatDistribution(low, high, log=name == "log")
    except ValueError as error:  # Bounds out of order, or a value twice.
        raise UserError(f"{where}: {error}") from error

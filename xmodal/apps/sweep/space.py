"""The search space of a sweep: an Optuna distribution for each path of the config that it draws."""

import ast
import json
import math
import warnings
import zlib
from collections.abc import Mapping
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from xmodal.base.config import UserError, lookup
from xmodal.cli.arguments import literal

Space = Mapping[str, BaseDistribution]
"""Path of the config, such as `optimizer.learning_rate` -> distribution of its values."""
_NAMES = dict.fromkeys(("choice", "int", "log", "uniform"))
_DIGITS = 4


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
    """Returns `count` independent draws: a value for every path.

    Every path has an Optuna sampler of its own, seeded with the seed and the path. A value thus
    depends neither on the number of draws nor on the other paths of the space.
    """
    study = optuna.create_study()
    trial = optuna.trial.create_trial(state=optuna.trial.TrialState.RUNNING)
    drawn: list[dict[str, Any]] = [{} for _ in range(count)]
    for path, each in space.items():
        sampler = optuna.samplers.RandomSampler(zlib.crc32(f"{seed} {path}".encode()))
        for values in drawn:
            value = sampler.sample_independent(study, trial, path, each)
            if isinstance(each, FloatDistribution):
                value = min(max(float(f"{value:.{_DIGITS}g}"), each.low), each.high)
            values[path] = value
    return drawn


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


def strip(path: str) -> str:
    """Returns a path without `--config.`, with which flags are written."""
    return path.removeprefix("--").removeprefix("config.")


def _read(where: str, name: str, *values: Any) -> BaseDistribution:
    lookup(where, name, _NAMES)
    if name != "choice" and len(values) != 2:
        raise UserError(f"{where} needs the smallest and the largest value: PATH:{name}:LOW:HIGH.")
    kind, needed = (int, "integers") if name == "int" else (int | float, "finite numbers")
    if name != "choice" and not all(isinstance(x, kind) and math.isfinite(x) for x in values):
        raise UserError(f"{where} needs {needed}.")
    try:
        if name == "choice":
            return choices(values)
        low, high = values
        if name == "int":
            return IntDistribution(low, high)
        return FloatDistribution(low, high, log=name == "log")
    except (TypeError, ValueError) as error:
        raise UserError(f"{where}: {error}") from error

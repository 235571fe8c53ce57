"""The search space of a sweep: which values of a config are drawn, and from which distribution."""

import ast
import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

import optuna
from ml_collections import ConfigDict
from optuna.distributions import FloatDistribution, IntDistribution

from xmodal.apps.arguments import literal
from xmodal.core.config import lookup
from xmodal.core.errors import UserError
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


def read_space(given: Mapping[str, tuple[Any, ...]], where: str) -> Space:
    """Returns the space of a config file; `where` is its place, for errors."""
    return {strip(path): _checked(f"{where}[{path!r}]", *each) for path, each in given.items()}


def parse_space(text: str) -> tuple[str, tuple[Any, ...]]:
    """Returns the path and the distribution of a flag `PATH:log:1e-4:1e-2`."""
    path, name, values = (*text.split(":", 2), "", "")[:3]
    given = parse_values(values) if name == "choice" else map(literal, values.split(":"))
    return strip(path), _checked(f"--space={text}", name, *given)


def parse_values(text: str) -> tuple[Any, ...]:
    """Returns the values of a list `64,128` or `pearson,rank`; strings need no quotes."""
    try:
        return tuple(ast.literal_eval(f"[{text}]"))
    except (SyntaxError, ValueError):
        return tuple(literal(each) for each in text.split(","))


def _checked(where: str, name: str, *values: Any) -> tuple[Any, ...]:
    lookup(where, name, _NAMES)
    if name == "choice":
        return name, *values
    kind = IntDistribution if name == "int" else FloatDistribution
    try:
        low, high = values
        kind(low, high, log=name == "log")
    except (TypeError, ValueError) as error:
        raise UserError(f"{where} must be PATH:{name}:LOW:HIGH, with numbers: {error}.") from error
    return name, low, high


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


def grid(space: Space) -> dict[str, list[Any]] | None:
    """Returns all values of a space, as `suggest` stores them; None if it has many."""
    if not space or any(name in ("log", "uniform") for name, *_ in space.values()):
        return None
    found = {
        path: [*map(json.dumps, given)] if name == "choice" else range(given[0], given[1] + 1)
        for path, (name, *given) in space.items()
    }
    few = math.prod(map(len, found.values())) <= _FEW
    return {path: list(values) for path, values in found.items()} if few else None


def describe(distribution: tuple[Any, ...]) -> str:
    """Returns a distribution as written after `--space=PATH:`."""
    name, *values = distribution
    texts = [each if isinstance(each, str) else repr(each) for each in values]
    return f"{name}:{(',' if name == 'choice' else ':').join(texts)}"


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


def with_values(config: ConfigDict, values: Mapping[str, Any]) -> ConfigDict:
    """Returns a copy of a config with other values by path.

    A mapping replaces a whole section, in which other values may be set. The name of another entry,
    such as a loss, removes the options of the one before.
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

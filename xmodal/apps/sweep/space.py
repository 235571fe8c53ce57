"""The search space of a sweep: a distribution for each path of the config that it draws."""

import ast
import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

from xmodal.apps.sweep.distributions import DISTRIBUTIONS, Choice, Distribution, name_of
from xmodal.base.config import UserError, as_dict, lookup, read_named

Space = Mapping[str, Distribution]
"""Path of the config, such as `optimizer.learning_rate` -> distribution of its values."""


def read_space(given: Any, where: str) -> Space:
    """Returns the space of a config file.

    Args:
      given: path -> section of a distribution, `{"name": "log", "low": 1e-4, "high": 1e-2}`, or
        `{"name": "choice", "values": [64, 128]}`.
      where: place of the space, for errors.

    Raises:
      UserError: an unknown distribution or key, or bounds out of order.
    """
    given = as_dict(given)
    if not isinstance(given, Mapping):
        raise UserError(f"{where} is {given!r}; it must map paths of the config to sections.")
    return {
        _strip(path): _read_distribution(f"{where}[{path!r}]", section)
        for path, section in given.items()
    }


def parse_space(text: str) -> tuple[str, Distribution]:
    """Returns the path and the distribution of a flag `PATH:log:1e-4:1e-2`.

    Raises:
      UserError: says what is wrong with the flag.
    """
    where = f"--space={text}"
    path, *parts = text.split(":", 2)
    if len(parts) < 2:
        raise UserError(
            f"{where} must be PATH:NAME:VALUES, such as optimizer.learning_rate:log:1e-4:1e-2 "
            "or batch_size:choice:64,128."
        )
    name, values = parts
    row = lookup(where, name, DISTRIBUTIONS)
    if row is Choice:
        return _strip(path), _read_distribution(
            where, {"name": name, "values": parse_values(values)}
        )
    bounds = [parse_value(each) for each in values.split(":")]
    if len(bounds) != 2:
        raise UserError(
            f"{where} needs the smallest and the largest value: {path}:{name}:LOW:HIGH."
        )
    section = {"name": name} | dict(zip(("low", "high"), bounds, strict=True))
    return _strip(path), _read_distribution(where, section)


def parse_study(text: str) -> tuple[str, Choice]:
    """Returns the path and the values of a flag `PATH=VALUE,VALUE`.

    Raises:
      UserError: it has no values, or a duplicate value.
    """
    where = f"--study={text}"
    path, equals, values = text.partition("=")
    if not equals or not values:
        raise UserError(f"{where} must be PATH=VALUE,VALUE, such as seed=0,1,2.")
    section = {"name": "choice", "values": parse_values(values)}
    distribution = _read_distribution(where, section)
    assert isinstance(distribution, Choice)
    return _strip(path), distribution


def parse_values(text: str) -> tuple[Any, ...]:
    """Returns the values of a list `64,128` or `pearson,rank`, see `parse_value`."""
    try:
        found = ast.literal_eval(f"[{text}]")
    except (SyntaxError, ValueError):
        found = [parse_value(each) for each in text.split(",")]
    return tuple(found)


def parse_value(text: str) -> Any:
    """Returns a Python literal, or the string itself if it is not one."""
    try:
        return ast.literal_eval({"true": "True", "false": "False"}.get(text, text))
    except (SyntaxError, ValueError):
        return text


def draw(space: Space, seed: int, index: int) -> dict[str, Any]:
    """Returns a value for every path.

    The value of a path depends only on the seed, the path and the index: draws are the same for any
    number of trials, and for every space in which the path has this distribution.

    Args:
      space: the space.
      seed: seed of all draws.
      index: index of the draw.
    """
    return {
        path: distribution.at(_quantile(f"{seed} {index} {path}"))
        for path, distribution in space.items()
    }


def to_section(distribution: Distribution) -> dict[str, Any]:
    """Returns the section that `read_space` reads."""
    return {"name": name_of(distribution)} | dataclasses.asdict(distribution)


def describe(distribution: Distribution) -> str:
    """Returns a distribution as written after `--space=PATH:`."""
    if isinstance(distribution, Choice):
        values = (each if isinstance(each, str) else repr(each) for each in distribution.values)
        return f"choice:{','.join(values)}"
    ends = (f"{end:g}" if isinstance(end, float) else str(end) for end in distribution.ends())
    return ":".join([name_of(distribution), *ends])


def _quantile(key: str) -> float:
    """Returns a number in [0, 1) that depends only on the text, on every machine."""
    # The 53 bits of a float.
    return (int.from_bytes(hashlib.sha256(key.encode()).digest()[:8]) >> 11) / 2**53


def _read_distribution(where: str, section: Any) -> Distribution:
    try:
        return read_named(where, section, DISTRIBUTIONS, lambda row: row)[1]
    except UserError as error:
        # A distribution does not know its place in the config.
        raise error if where in str(error) else UserError(f"{where}: {error}") from error


def _strip(path: str) -> str:
    return path.removeprefix("--").removeprefix("config.")

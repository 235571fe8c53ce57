"""Reads sections of a config into calls and dataclasses, with errors that list the known names.

Each package describes its own sections as frozen dataclasses, whose fields may carry a range::

    @dataclasses.dataclass(frozen=True)
    class LogConfig:
        every: int = setting(50, at_least=1)

    read(LogConfig, "config.log", {"evry": 10})
    # UserError: Unknown key(s) ['evry'] in config.log; known: ['every']. Did you mean 'every'?

Every package may import this module; it imports none of them.
"""

import dataclasses
import difflib
import inspect
import math
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class UserError(ValueError):
    """The user gave something wrong; the commands print it without a stack trace."""


def setting(
    default: Any = dataclasses.MISSING,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    one_of: Collection[str] | None = None,
) -> Any:
    """Returns a dataclass field whose value, or each item of it, `read` checks against a range.

    Args:
      default: of the field; left out, the section has to set it.
      at_least: smallest number allowed.
      above: number that the value must exceed.
      at_most: largest number allowed.
      below: number that the value must not reach.
      one_of: names allowed.
    """
    checks = {
        "at_least": at_least,
        "above": above,
        "at_most": at_most,
        "below": below,
        "one_of": one_of,
    }
    metadata = {name: bound for name, bound in checks.items() if bound is not None}
    return dataclasses.field(default=default, metadata=metadata)


def read(cls: type[T], where: str, given: Mapping[str, Any] | T, *, instead: str = "") -> T:
    """Returns a section of a config as its dataclass.

    Args:
      cls: frozen dataclass; fields may be dataclasses themselves.
      where: the section as a user writes it: `config.optimizer`.
      given: the section, or an instance of `cls`, which is returned as it is.
      instead: see `check_keys`.

    Raises:
      UserError: names the unknown or missing key, or the value of another type or out of range.
    """
    if isinstance(given, cls):
        return given
    given = as_dict(given)
    if not isinstance(given, Mapping):
        raise UserError(f"{where} is {given!r}; it has to be a section with keys.")
    fields = {field.name: field for field in dataclasses.fields(cls)}
    check_keys(where, given, fields, instead=instead)
    missing = [
        name
        for name, field in fields.items()
        if name not in given
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise UserError(f"{where} lacks {missing}; known: {sorted(fields)}.")
    hints = typing.get_type_hints(cls)
    values = {}
    for name, value in given.items():
        place = f"{where}.{name}"
        values[name] = _convert(hints[name], place, value)
        _check_range(fields[name].metadata, place, values[name])
    return cls(**values)


def as_dict(section: Any) -> Any:
    """Returns a section as nested plain dicts; an `ml_collections.ConfigDict` is no `Mapping`."""
    if dataclasses.is_dataclass(section) or not hasattr(section, "items"):
        return section
    return {key: as_dict(value) for key, value in section.items()}


def read_named(
    where: str, section: Mapping[str, Any], table: Mapping[str, R], cls: Callable[[R], type[T]]
) -> tuple[R, T]:
    """Returns the row of a table that a section names, and its other keys as a dataclass.

    Args:
      where: the section as a user writes it: `config.optimizer.schedule`.
      section: `name`, a key of the table, and the keys that belong to that row.
      table: rows by name.
      cls: row -> dataclass of its keys.

    Raises:
      UserError: the name or a key is missing or unknown, or a value is out of range.
    """
    if not isinstance(section, Mapping) or "name" not in section:
        raise UserError(f"{where} lacks 'name'; known: {sorted(table)}.")
    row = lookup(f"{where}.name", section["name"], table)
    keys = {key: value for key, value in section.items() if key != "name"}
    return row, read(cls(row), where, keys, instead=set_whole(where, name=section["name"]))


def set_whole(where: str, **keys: Any) -> str:
    """Returns the flag that replaces a whole section: `--config.x="{'name': 'y'}"`."""
    return f'--{where}="{keys}"'


def check_keys(
    section: str, given: Iterable[str], known: Collection[str], *, instead: str = ""
) -> None:
    """Refuses keys that nothing would read.

    Args:
      section: where the keys stand, as a user would write it: `config.optimizer`.
      given: the section.
      known: every key its reader understands.
      instead: flag that replaces the section, which may have keys of another name left over.

    Raises:
      UserError: names the unknown keys, lists the known ones and suggests the nearest.
    """
    if unknown := sorted(set(given) - set(known)):
        whole = f" To drop keys that belong to another name, set all at once: {instead}."
        raise UserError(
            f"Unknown key(s) {unknown} in {section}; {suggest(unknown, known)}"
            f"{whole if instead else ''}"
        )


def lookup(section: str, name: str, table: Mapping[str, T]) -> T:
    """Returns the row called `name`.

    Raises:
      UserError: names the unknown row, where it was asked for, and lists the known ones.
    """
    if not isinstance(name, str) or name not in table:
        raise UserError(f"Unknown name {name!r} in {section}; {suggest([name], table)}")
    return table[name]


def suggest(names: Iterable[str], known: Collection[str]) -> str:
    """Returns `known: [...].` and, where known names are near the given ones, a question."""
    near = [difflib.get_close_matches(str(name), list(known), n=1) for name in names]
    found = " and ".join(repr(match[0]) for match in near if match)
    return f"known: {sorted(known)}." + (f" Did you mean {found}?" if found else "")


def keyword_options(function: Callable[..., Any]) -> list[str]:
    """Returns the names of the keyword-only arguments of a function."""
    parameters = inspect.signature(function).parameters.values()
    return [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]


def call(section: str, factory: Callable[..., T], options: Mapping[str, Any], **given: Any) -> T:
    """Calls `factory(**options, **given)`.

    Args:
      section: where the options stand in the config.
      factory: a function with keyword arguments.
      options: set by the config.
      **given: set by the code; the config may not set them.

    Raises:
      UserError: an option `factory` does not take, or one it needs is missing.
    """
    parameters = inspect.signature(factory).parameters
    known = [name for name in parameters if name not in given]
    check_keys(section, options, known)
    missing = [
        name
        for name in known
        if parameters[name].default is inspect.Parameter.empty and name not in options
    ]
    if missing:
        raise UserError(f"{section} lacks {missing}; known: {sorted(known)}.")
    return factory(**dict(options.items()), **given)


def _convert(hint: Any, where: str, value: Any) -> Any:
    """Returns `value` as the type of a field, or refuses it."""
    alternatives = _alternatives(hint)
    if value is None and type(None) in alternatives:
        return None
    for each in alternatives:
        if dataclasses.is_dataclass(each) and isinstance(value, (Mapping, each)):
            return read(each, where, value)
    if int in alternatives and isinstance(value, str) and value.isdecimal():
        value = int(value)  # set on the command line in place of a length such as "3 epochs"
    for each in alternatives:
        if _fits(each, value):
            return _as_plain(each, value)
    names = " or ".join(_name(each) for each in alternatives)
    raise UserError(f"{where} is {value!r}; it has to be {names}.")


def _alternatives(hint: Any) -> tuple[Any, ...]:
    is_union = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
    return typing.get_args(hint) if is_union else (hint,)


def _fits(hint: Any, value: Any) -> bool:
    kind = typing.get_origin(hint) or hint
    if kind is Any:
        return True
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if isinstance(kind, type) and issubclass(kind, (tuple, Sequence)) and kind is not str:
        if not isinstance(value, (list, tuple)):
            return False
        inner = [each for each in typing.get_args(hint) if each is not Ellipsis]
        return not inner or all(
            any(_fits(each, item) for each in _alternatives(inner[min(i, len(inner) - 1)]))
            for i, item in enumerate(value)
        )
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return isinstance(value, Mapping)
    return isinstance(value, kind)


def _as_plain(hint: Any, value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    return float(value) if hint is float else value


def _name(hint: Any) -> str:
    kind = typing.get_origin(hint) or hint
    if dataclasses.is_dataclass(kind):
        return "a section"
    return _TYPE_NAMES.get(kind, getattr(kind, "__name__", str(kind)))


_TYPE_NAMES = {
    type(None): "None",
    bool: "True or False",
    float: "a number",
    int: "a whole number",
    str: "a text",
    tuple: "a list such as ['a', 'b']",
    Sequence: "a list such as [0.5, 1.0]",
    Mapping: "a section",
}


def _check_range(bounds: Mapping[str, Any], where: str, value: Any) -> None:
    items = value if isinstance(value, tuple) else (value,)
    for item in items:
        if isinstance(item, float) and not math.isfinite(item):
            raise UserError(f"{where} is {item}; it has to be a finite number.")
        if isinstance(item, str) and "one_of" in bounds:
            lookup(where, item, dict.fromkeys(bounds["one_of"]))
        if isinstance(item, bool) or not isinstance(item, (int, float)):
            continue
        for name, (is_inside, words) in _RANGES.items():
            if name in bounds and not is_inside(item, bounds[name]):
                raise UserError(f"{where} is {item}; it has to be {words} {bounds[name]}.")


_RANGES: Mapping[str, tuple[Callable[[float, float], bool], str]] = {
    "at_least": (lambda value, bound: value >= bound, "at least"),
    "above": (lambda value, bound: value > bound, "more than"),
    "at_most": (lambda value, bound: value <= bound, "at most"),
    "below": (lambda value, bound: value < bound, "less than"),
}

"""Reads sections of a config into calls and dataclasses, with errors that list the known names.

Each package describes its own sections as frozen dataclasses, whose fields may have a range::

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
import re
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

from xmodal.core.errors import UnknownKeyError, UserError

if typing.TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")
Section = TypeVar("Section", bound="DataclassInstance")


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Conditions on a value, or on each item of a list, besides its type.

    A field of a section takes the same keywords through `setting`; a keyword-only argument that
    becomes an option has them in its hint: `margin: Annotated[float, Bounds(at_least=0)]`.

    Attributes:
      at_least: smallest number allowed.
      above: number that the value must exceed.
      at_most: largest number allowed.
      below: number that the value must not reach.
      one_of: allowed values; None allows all.
      pattern: whether strings are regular expressions.
    """

    at_least: float = -math.inf
    above: float = -math.inf
    at_most: float = math.inf
    below: float = math.inf
    one_of: Collection[str | int] | None = None
    pattern: bool = False

    def check(self, where: str, value: Any) -> None:
        """Raises an error if a value is out of bounds or a number is not finite."""
        problem = ""
        if isinstance(value, tuple):
            for item in value:
                self.check(where, item)
        elif self.one_of is not None and value is not None:
            lookup(where, value, dict.fromkeys(self.one_of))
        elif isinstance(value, str) and self.pattern:
            try:
                re.compile(value)
            except re.error as error:
                problem = f"a valid regular expression ({error})"
        elif isinstance(value, (int, float)):
            conditions = {
                "a finite number": math.isfinite(value),
                f"at least {self.at_least}": value >= self.at_least,
                f"more than {self.above}": value > self.above,
                f"at most {self.at_most}": value <= self.at_most,
                f"less than {self.below}": value < self.below,
            }
            problem = next((words for words, is_met in conditions.items() if not is_met), "")
        if problem:
            raise UserError(f"{where} is {value!r}; it must be {problem}.")


def setting(default: Any = dataclasses.MISSING, **bounds: Any) -> Any:
    """Returns a dataclass field that `read` checks.

    Args:
      default: default of the field; without one, the section has to set the field.
      **bounds: see `Bounds`.
    """
    return dataclasses.field(default=default, metadata={"bounds": Bounds(**bounds)})


def defaults(cls: type["DataclassInstance"]) -> dict[str, Any]:
    """Returns the fields of a dataclass that have a default, nested ones as plain dicts."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        if field.default is not dataclasses.MISSING:
            found[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            found[field.name] = field.default_factory()
    is_section: Callable[[Any], bool] = dataclasses.is_dataclass
    return {k: dataclasses.asdict(v) if is_section(v) else v for k, v in found.items()}


def read(
    cls: type[Section], where: str, given: Mapping[str, Any] | Section, *, named: bool = False
) -> Section:
    """Returns a section of a config as its dataclass.

    Args:
      cls: frozen dataclass; fields may be dataclasses themselves.
      where: the section as a user writes it: `config.optimizer`.
      given: the section, or an instance of `cls`, which is returned as it is.
      named: see `check_keys`.
    """
    if isinstance(given, cls):
        return given
    section: Any = given
    if not hasattr(section, "items"):
        raise UserError(f"{where} is {section!r}; it must be a section with keys.")
    # An `ml_collections.ConfigDict` is not a `Mapping`.
    section = {k: v.to_dict() if hasattr(v, "to_dict") else v for k, v in section.items()}
    fields = {field.name: field for field in dataclasses.fields(cls)}
    check_keys(where, section, fields, set(fields) - set(defaults(cls)), named=named)
    hints = typing.get_type_hints(cls)
    for name, value in section.items():
        bounds = fields[name].metadata.get("bounds", Bounds())
        section[name] = check_value(f"{where}.{name}", Annotated[hints[name], bounds], value)
    return cls(**section)


def flatten_section(section: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns nested sections as `{"optimizer.learning_rate": 0.001}`; an empty one is a value."""
    flat: dict[str, Any] = {}
    for key, value in section.items():
        is_nested = isinstance(value, Mapping) and value
        path = f"{prefix}{key}"
        flat |= flatten_section(value, f"{path}.") if is_nested else {path: value}
    return flat


def read_named(
    where: str,
    section: Mapping[str, Any],
    table: Mapping[str, T],
    cls: Callable[[T], type[Section]],
) -> tuple[T, Section]:
    """Returns the row of a table that a section names, and its other keys as a dataclass.

    Args:
      where: the section as a user writes it: `config.optimizer.schedule`.
      section: `name`, a key of the table, and the keys that belong to that row.
      table: rows by name.
      cls: row -> dataclass of its keys.
    """
    if not isinstance(section, Mapping) or "name" not in section:
        raise UserError(f"{where} lacks 'name'; known: {sorted(table)}.")
    row = lookup(f"{where}.name", section["name"], table)
    keys = {key: value for key, value in section.items() if key != "name"}
    return row, read(cls(row), where, keys, named=True)


def check_keys(
    section: str,
    given: Collection[str],
    known: Collection[str],
    needed: Iterable[str] = (),
    *,
    named: bool = False,
) -> None:
    """Raises an error for keys that nothing would read, or that are missing.

    Args:
      section: place of the keys, as a user would write it: `config.optimizer`.
      given: the section.
      known: every key its reader understands.
      needed: those without a default.
      named: whether the known keys depend on a name, so that keys of another name may be left.
    """
    if unknown := sorted(set(given) - set(known)):
        hint = suggest(unknown, known)
        if named and section.startswith("config."):
            hint += f' To drop keys of another name, set all at once: --{section}="{{...}}".'
        raise UnknownKeyError(f"Unknown key(s) {unknown} in {section}; {hint}")
    if missing := sorted(set(needed) - set(given)):
        raise UserError(f"{section} lacks {missing}; known: {sorted(known)}.")


def lookup(section: str, name: Any, table: Mapping[Any, T]) -> T:
    """Returns the row called `name`, or raises an error that lists the known ones."""
    if not isinstance(name, (str, int)) or name not in table:
        raise UserError(f"Unknown name {name!r} in {section}; {suggest([name], table)}")
    return table[name]


def suggest(names: Iterable[str], known: Collection[str]) -> str:
    """Returns `known: [...].` and, if known names are close to the given ones, a question."""
    near = (difflib.get_close_matches(str(name), map(str, known), n=1) for name in names)
    found = " and ".join(repr(match) for matches in near for match in matches)
    return f"known: {sorted(known)}." + (f" Did you mean {found}?" if found else "")


def check_options(
    where: str,
    function: Callable[..., Any],
    options: Mapping[str, Any],
    expand: Callable[[str, Any, Any], Iterable[Any]] = lambda where, hint, value: [value],
) -> None:
    """Raises an error for options or values that a function does not accept.

    The options are the keyword-only arguments; their hints give the types and `Bounds`.

    Args:
      where: section of the options as a user writes it.
      function: function with hints.
      options: options by name.
      expand: (place, hint, value) -> all values of an option during a run.
    """
    parameters = inspect.signature(function).parameters.values()
    known = {each.name: each for each in parameters if each.kind is each.KEYWORD_ONLY}
    needed = [name for name, each in known.items() if each.default is each.empty]
    check_keys(where, options, known, needed, named=True)
    hints = typing.get_type_hints(function, include_extras=True)
    for name, value in options.items():
        for each in expand(f"{where}.{name}", hints[name], value):
            check_value(f"{where}.{name}", hints[name], each)


def check_value(where: str, hint: Any, value: Any) -> Any:
    """Returns a value as one of the types of a hint, if it is one and within its `Bounds`."""
    kinds = alternatives(hint)
    if int in kinds and isinstance(value, str) and re.fullmatch(r"-?\d+", value):
        value = int(value)  # Set on the command line instead of a length such as "3 epochs".
    if (found := _fit(where, hint, value)) is not _MISFIT:
        for bounds in getattr(hint, "__metadata__", (Bounds(),)):
            bounds.check(where, found)
        return found
    names = " or ".join(
        "a section" if dataclasses.is_dataclass(kind) else inspect.formatannotation(kind)
        for kind in kinds
    )
    is_entry = _fit(where, hint, [value]) is not _MISFIT
    one = f"; for one entry, write [{value!r}]" if is_entry else ""
    raise UserError(f"{where} is {value!r}; it must be {names}{one}.")


def alternatives(hint: Any) -> tuple[Any, ...]:
    """Returns the types that a hint allows; for `float | None`, both."""
    if typing.get_origin(hint) is Annotated:
        hint = typing.get_args(hint)[0]
    is_union = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
    return typing.get_args(hint) if is_union else (hint,)


_MISFIT = object()


def _fit(where: str, hint: Any, value: Any) -> Any:
    """Returns `value` as one of the types of a hint, lists as tuples; `_MISFIT` if it is none."""
    for each in alternatives(hint):
        kind, inner = typing.get_origin(each) or each, typing.get_args(each) or (Any, ...)
        if dataclasses.is_dataclass(kind):
            if isinstance(value, (Mapping, each)):
                return read(each, where, value)
        elif kind in (int, float):
            if isinstance(value, (int, kind)) and not isinstance(value, bool):
                return kind(value)
        elif isinstance(value, (list, tuple)):
            any_length = kind is not tuple or inner[-1] is Ellipsis
            hints = [inner[0]] * len(value) if any_length else inner
            if kind in (tuple, Sequence, Any) and len(hints) == len(value):
                items = tuple(_fit(where, *each) for each in zip(hints, value, strict=True))
                if _MISFIT not in items:
                    return items
        elif kind is Any or (kind is not Sequence and isinstance(value, kind)):
            return value
    return _MISFIT

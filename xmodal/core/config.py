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

from xmodal.core.errors import UserError

if typing.TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")
R = TypeVar("R")
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
      one_of: allowed strings; None allows all.
      pattern: whether strings are regular expressions.
    """

    at_least: float = -math.inf
    above: float = -math.inf
    at_most: float = math.inf
    below: float = math.inf
    one_of: Collection[str] | None = None
    pattern: bool = False

    def check(self, where: str, value: Any) -> None:
        """Raises an error if a value is out of bounds or a number is not finite.

        Raises:
          UserError: names the place and the bound, or the closest allowed string.
        """
        if isinstance(value, tuple):
            for item in value:
                self.check(where, item)
        elif isinstance(value, str):
            if self.one_of is not None:
                lookup(where, value, dict.fromkeys(self.one_of))
            if self.pattern:
                check_pattern(where, value)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            self._check_number(where, value)

    def _check_number(self, where: str, value: float) -> None:
        if not math.isfinite(value):
            raise UserError(f"{where} is {value}; it must be a finite number.")
        for is_inside, words, bound in (
            (value >= self.at_least, "at least", self.at_least),
            (value > self.above, "more than", self.above),
            (value <= self.at_most, "at most", self.at_most),
            (value < self.below, "less than", self.below),
        ):
            if not is_inside:
                raise UserError(f"{where} is {value}; it must be {words} {bound}.")


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
        value: Any = field.default
        if field.default_factory is not dataclasses.MISSING:
            value = field.default_factory()
        if value is not dataclasses.MISSING:
            is_section = dataclasses.is_dataclass(value) and not isinstance(value, type)
            found[field.name] = dataclasses.asdict(value) if is_section else value
    return found


def read(
    cls: type[Section], where: str, given: Mapping[str, Any] | Section, *, instead: str = ""
) -> Section:
    """Returns a section of a config as its dataclass.

    Args:
      cls: frozen dataclass; fields may be dataclasses themselves.
      where: the section as a user writes it: `config.optimizer`.
      given: the section, or an instance of `cls`, which is returned as it is.
      instead: see `check_keys`.

    Raises:
      UserError: names the unknown or missing key, or the value of wrong type or out of range.
    """
    if isinstance(given, cls):
        return given
    given = as_dict(given)
    if not isinstance(given, Mapping):
        raise UserError(f"{where} is {given!r}; it must be a section with keys.")
    fields = {field.name: field for field in dataclasses.fields(cls)}
    needed = set(fields) - set(defaults(cls))
    check_keys(where, given, fields, needed, instead=instead)
    hints = typing.get_type_hints(cls)
    values = {}
    for name, value in given.items():
        place = f"{where}.{name}"
        values[name] = _convert(alternatives(hints[name]), place, value)
        fields[name].metadata.get("bounds", Bounds()).check(place, values[name])
    return cls(**values)


def as_dict(section: Any) -> Any:
    """Returns a section as nested plain dicts; `ml_collections.ConfigDict` is not a `Mapping`."""
    if dataclasses.is_dataclass(section) or not hasattr(section, "items"):
        return section
    return {key: as_dict(value) for key, value in section.items()}


def find_section(config: Mapping[str, Any], path: str) -> dict[str, Any] | None:
    """Returns the section at a path; None if it, or one that it is in, is None or missing.

    Raises:
      UserError: another value stands in place of a section.
    """
    section: Any
    section, place = config, "config"
    for name in path.split("."):
        section, place = (section or {}).get(name), f"{place}.{name}"
        if not isinstance(section, dict | None):
            raise UserError(f"{place} is {section!r}; it must be a section.")
    return section


def flatten_section(section: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns nested sections as `{"optimizer.learning_rate": 0.001}`; an empty one is a value."""
    flat: dict[str, Any] = {}
    for key, value in section.items():
        path = f"{prefix}{key}"
        is_nested = isinstance(value, Mapping) and value
        flat |= flatten_section(value, f"{path}.") if is_nested else {path: value}
    return flat


def read_named(
    where: str,
    section: Mapping[str, Any],
    table: Mapping[str, R],
    cls: Callable[[R], type[Section]],
) -> tuple[R, Section]:
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
    section: str,
    given: Collection[str],
    known: Collection[str],
    needed: Iterable[str] = (),
    *,
    instead: str = "",
) -> None:
    """Raises an error for keys that nothing would read, or that are missing.

    Args:
      section: place of the keys, as a user would write it: `config.optimizer`.
      given: the section.
      known: every key its reader understands.
      needed: those without a default.
      instead: flag that replaces the section, which may have leftover keys of another name.

    Raises:
      UserError: names the unknown keys, lists the known ones and suggests the closest.
    """
    if unknown := sorted(set(given) - set(known)):
        whole = f" To drop keys that belong to another name, set all at once: {instead}."
        raise UserError(
            f"Unknown key(s) {unknown} in {section}; {suggest(unknown, known)}"
            f"{whole if instead else ''}"
        )
    if missing := sorted(set(needed) - set(given)):
        raise UserError(f"{section} lacks {missing}; known: {sorted(known)}.")


def lookup(section: str, name: str, table: Mapping[str, T]) -> T:
    """Returns the row called `name`.

    Raises:
      UserError: names the unknown row and its place, and lists the known ones.
    """
    if not isinstance(name, str) or name not in table:
        raise UserError(f"Unknown name {name!r} in {section}; {suggest([name], table)}")
    return table[name]


def suggest(names: Iterable[str], known: Collection[str]) -> str:
    """Returns `known: [...].` and, if known names are close to the given ones, a question.

    The question precedes a list that is so long that the question would be overlooked after it.
    """
    near = [difflib.get_close_matches(str(name), list(known), n=1) for name in names]
    found = " and ".join(repr(match[0]) for match in near if match)
    if found and len(known) > 20:
        return f"did you mean {found}? Known: {sorted(known)}."
    question = f"Did you mean {found}?" if found else ""
    return f"known: {sorted(known)}. {question}".rstrip()


def check_pattern(where: str, pattern: str) -> None:
    """Raises an error if a string is not a valid regular expression.

    Raises:
      UserError: says why.
    """
    try:
        re.compile(pattern)
    except re.error as error:
        raise UserError(
            f"{where} is {pattern!r}, not a valid regular expression: {error}."
        ) from error


def check_options(
    where: str,
    function: Callable[..., Any],
    options: Mapping[str, Any],
    *,
    instead: str = "",
    expand: Callable[[str, Any, Any], Iterable[Any]] = lambda where, hint, value: [value],
) -> None:
    """Raises an error for options or values that a function does not accept.

    The options are the keyword-only arguments; their hints give the types and `Bounds`.

    Args:
      where: section of the options as a user writes it.
      function: function with hints.
      options: options by name.
      instead: see `check_keys`.
      expand: (place, hint, value) -> all values of an option during a run.

    Raises:
      UserError: an unknown or missing option, another type, or a value out of range.
    """
    parameters = inspect.signature(function).parameters.values()
    known = {each.name: each for each in parameters if each.kind is each.KEYWORD_ONLY}
    needed = [name for name, each in known.items() if each.default is each.empty]
    check_keys(where, options, known, needed, instead=instead)
    hints = typing.get_type_hints(function, include_extras=True)
    for name, value in options.items():
        for each in expand(f"{where}.{name}", hints[name], value):
            check_value(f"{where}.{name}", hints[name], each)


def check_value(where: str, hint: Any, value: Any) -> None:
    """Raises an error for a value of a wrong type, or outside the `Bounds` of an `Annotated` type.

    Raises:
      UserError: names the place, the value and its type or bound.
    """
    converted = _convert(alternatives(hint), where, value)
    for each in [*getattr(hint, "__metadata__", ()), Bounds()]:
        if isinstance(each, Bounds):
            each.check(where, converted)


def _convert(kinds: Sequence[Any], where: str, value: Any) -> Any:
    """Returns `value` as one of the types of a field, or raises an error."""
    if value is None and type(None) in kinds:
        return None
    for each in kinds:
        if not (isinstance(each, type) and dataclasses.is_dataclass(each)):
            continue
        if isinstance(value, (Mapping, each)):
            return read(each, where, value)
    if int in kinds and isinstance(value, str) and re.fullmatch(r"-?\d+", value):
        value = int(value)  # Set on the command line instead of a length such as "3 epochs".
    for each in kinds:
        if _fits(each, value):
            return _as_plain(each, value)
    names = " or ".join(name for name in map(_name, kinds) if name)
    is_entry = isinstance(value, str) and any(_fits(each, [value]) for each in kinds)
    one = f"; for one entry, write [{value!r}]" if is_entry else ""
    raise UserError(f"{where} is {value!r}; it must be {names}{one}.")


def alternatives(hint: Any) -> tuple[Any, ...]:
    """Returns the types that a hint allows; for `float | None`, both."""
    if typing.get_origin(hint) is Annotated:
        hint = typing.get_args(hint)[0]
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
        inner = typing.get_args(hint)
        if kind is tuple and inner and inner[-1] is not Ellipsis:
            return len(inner) == len(value) and all(map(_fits, inner, value))
        return not inner or all(
            any(_fits(each, item) for each in alternatives(inner[0])) for item in value
        )
    return isinstance(value, kind)


def _as_plain(hint: Any, value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(_as_plain(Any, item) for item in value)
    return float(value) if hint is float else value


def _name(hint: Any) -> str:
    """Returns the words for a type that a config can hold; "" for other types."""
    kind = typing.get_origin(hint) or hint
    return "a section" if dataclasses.is_dataclass(kind) else _TYPE_NAMES.get(kind, "")


_TYPE_NAMES = {
    type(None): "None",
    bool: "True or False",
    float: "a number",
    int: "an integer",
    str: "a string",
    tuple: "a list such as ['a', 'b']",
    Sequence: "a list such as [0.5, 1.0]",
    Mapping: "a section",
}

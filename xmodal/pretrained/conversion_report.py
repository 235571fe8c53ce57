"""A report on how every array of a source is used."""

import dataclasses
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import ml_dtypes
import numpy as np

from xmodal.core.errors import UserError

_SHOWN = 8


@dataclasses.dataclass(frozen=True)
class Report:
    """The result of a converter, with a line for every omitted or uninitialized array.

    Attributes:
      loaded: name of one of our arrays -> the arrays of the source it was made of.
      missing: name of one of our arrays -> the arrays it needs that the source does not have.
      unexpected: arrays of the source that none of our arrays uses.
      reshaped: name of one of our arrays -> description of its layout change.
      notes: sentences about settings that the source does not name.
    """

    loaded: Mapping[str, Sequence[str]]
    missing: Mapping[str, Sequence[str]]
    unexpected: Sequence[str]
    reshaped: Mapping[str, str]
    notes: Sequence[str] = ()

    def text(self) -> str:
        """Returns all names, one per line, grouped by kind with their number, and the notes."""
        reshaped = {name: self.reshaped[name] for name in sorted(self.reshaped)}
        return "\n".join(
            [
                f"loaded: {len(self.loaded)}",
                *(f"  {name} <- {_shorten(self.loaded[name])}" for name in sorted(self.loaded)),
                f"missing: {len(self.missing)}",
                *(f"  {name} <- {_shorten(self.missing[name])}" for name in sorted(self.missing)),
                f"unexpected: {len(self.unexpected)}",
                *(f"  {name}" for name in sorted(self.unexpected)),
                f"reshaped: {len(reshaped)}",
                *(f"  {name}: {how}" for name, how in reshaped.items()),
                *(f"note: {note}" for note in self.notes),
                "",
            ]
        )

    def summary(self) -> str:
        """Returns one line: the number of arrays of each kind, and names of those left over."""
        parts = [f"{len(self.loaded)} arrays loaded, {len(self.reshaped)} of them reshaped"]
        for kind, names in (("missing", self.missing), ("unexpected", self.unexpected)):
            parts.append(
                f"{len(names)} {kind}" + (f" ({_shorten(sorted(names))})" if names else "")
            )
        return "; ".join(parts)

    def check(
        self, expected_missing: Collection[str] = (), expected_unexpected: Collection[str] = ()
    ) -> None:
        """Raises an error for missing and unexpected arrays; `text` lists every name.

        Args:
          expected_missing: regular expressions, matched from the start of our names.
          expected_unexpected: regular expressions, matched from the start of the source's names.

        Raises:
          UserError: names arrays that are missing or unexpected and match no expression.
        """
        missing = [
            f"{name} (from {_shorten(self.missing[name])})"
            for name in sorted(self.missing)
            if not _matches(name, expected_missing)
        ]
        unexpected = [
            name for name in sorted(self.unexpected) if not _matches(name, expected_unexpected)
        ]
        parts = []
        if missing:
            parts.append(f"{len(missing)} array(s) are missing:{_list(missing)}")
        if unexpected:
            parts.append(f"{len(unexpected)} array(s) are not expected:{_list(unexpected)}")
        if parts:
            raise UserError(
                "The source is not the requested architecture. "
                + "\n".join(parts)
                + "\nRequest the architecture that it has, or allow differences with regular "
                "expressions: --allow_missing (our names), --allow_unexpected (the source's)."
            )


class Taken(NamedTuple):
    """An array of the source.

    Attributes:
      name: its name, or the names of several, which are stacked along a first axis.
      change: change of the layout of each; None for no change.
      how: description of `change`.
    """

    name: str | tuple[str, ...]
    change: Callable[[np.ndarray], np.ndarray] | None = None
    how: str = ""


class Mapper:
    """Takes arrays from a source one by one and builds a `Report`."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._arrays = arrays
        self._flat: dict[str, np.ndarray] = {}
        self._loaded: dict[str, tuple[str, ...]] = {}
        self._missing: dict[str, tuple[str, ...]] = {}
        self._reshaped: dict[str, str] = {}

    def take(self, name: str, taken: Taken, shape: Sequence[int]) -> None:
        """Adds our array `name`, float32.

        Args:
          name: `params/...` or `batch_stats/...`.
          taken: the array of the source, or several.
          shape: shape of the result.

        Raises:
          UserError: the result has the wrong shape, or a value that is not a finite real number.
        """
        names = (taken.name,) if isinstance(taken.name, str) else taken.name
        stacked = not isinstance(taken.name, str)
        if absent := tuple(source for source in names if source not in self._arrays):
            self._missing[name] = absent
            return
        wanted = tuple(shape)[1:] if stacked else tuple(shape)
        changed = []
        for source in names:
            array = np.asarray(self._arrays[source])
            _check_floats(array, source)
            try:
                found = array if taken.change is None else taken.change(array)
            except (ValueError, IndexError):
                found = None  # Its shape is so different that it cannot be changed.
            if found is None or found.shape != wanted:
                raise UserError(
                    f"{source} has the shape {list(array.shape)}, which does not give "
                    f"{list(wanted)} for {name}: the source has a different size or architecture "
                    "from the requested one."
                )
            with np.errstate(over="ignore"):
                changed.append(np.asarray(found, np.float32))
            if not np.isfinite(changed[-1]).all():
                raise UserError(
                    f"{source} has numbers that are not finite in float32: it is damaged, download "
                    "it again."
                )
        joined = np.stack(changed) if stacked else changed[0]
        self._flat[name] = np.asarray(joined, order="C")
        self._loaded[name] = names
        words = [taken.how] if taken.how else []
        if stacked:
            words.append(f"{len(names)} stacked")
        if words:
            self._reshaped[name] = ", ".join(words)

    def result(self, ignored: Collection[str] = ()) -> tuple[dict[str, np.ndarray], Report]:
        """Returns the arrays by name, and the report.

        Args:
          ignored: names in the source that are not weights (step counters, index buffers).
        """
        used = {source for sources in self._loaded.values() for source in sources}
        unexpected = sorted(set(self._arrays) - used - set(ignored))
        return self._flat, Report(self._loaded, self._missing, unexpected, self._reshaped)


def _check_floats(array: np.ndarray, source: str) -> None:
    """Refuses integers, which may be quantized with a scale elsewhere, and complex numbers."""
    if array.dtype != ml_dtypes.bfloat16 and array.dtype.kind != "f":
        raise UserError(
            f"{source} has numbers of the type {array.dtype}, which may be quantized: save the "
            "weights as float32."
        )


def _matches(name: str, patterns: Collection[str]) -> bool:
    return any(re.match(pattern, name) for pattern in patterns)


def _list(names: Sequence[str]) -> str:
    more = [f"... and {len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
    return "".join(f"\n  {name}" for name in [*names[:_SHOWN], *more])


def _shorten(names: Sequence[str]) -> str:
    if len(names) <= _SHOWN:
        return ", ".join(names)
    return f"{', '.join(names[: _SHOWN - 1])}, ... {names[-1]} ({len(names)} in all)"

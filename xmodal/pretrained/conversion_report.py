"""A report on how every array of a source is used."""

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence

import ml_dtypes
import numpy as np

from xmodal.core.errors import UserError
from xmodal.pretrained.layer_rules import Arrays, Taken

_SHOWN = 8
# Counters, which are not weights.
_COUNTERS = re.compile(r"(.*[/.])?(global_step|num_batches_tracked|save_counter)\b")


@dataclasses.dataclass(frozen=True)
class Report:
    """The result of a converter, with a line for every omitted or uninitialized array.

    Attributes:
      loaded: name of one of our arrays -> the arrays of the source it was made of.
      missing: name of one of our arrays -> the arrays it needs that the source does not have.
      unexpected: arrays of the source that none of our arrays uses.
      notes: sentences about settings that the source does not name, and about its publisher's code.
    """

    loaded: Mapping[str, Sequence[str]]
    missing: Mapping[str, Sequence[str]]
    unexpected: Sequence[str]
    notes: Sequence[str] = ()

    def text(self) -> str:
        """Returns all names, one per line, grouped by kind with their number, and the notes."""
        lines = []
        for kind, names in (
            ("loaded", _arrows(self.loaded)),
            ("missing", _arrows(self.missing)),
            ("unexpected", self.unexpected),
        ):
            lines += [f"{kind}: {len(names)}", *(f"  {name}" for name in sorted(names))]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes), ""])

    def check(
        self, expected_missing: Collection[str] = (), expected_unexpected: Collection[str] = ()
    ) -> None:
        """Raises an error that lists missing and unexpected arrays.

        Args:
          expected_missing: regular expressions, matched from the start of our names.
          expected_unexpected: regular expressions, matched from the start of the source's names.
        """
        missing = {n: s for n, s in self.missing.items() if not _matches(n, expected_missing)}
        unexpected = [name for name in self.unexpected if not _matches(name, expected_unexpected)]
        if missing or unexpected:
            raise UserError(
                "The source is not the requested architecture.\n"
                f"{len(missing)} array(s) are missing: {', '.join(_arrows(missing))}\n"
                f"{len(unexpected)} array(s) are not expected: {', '.join(unexpected)}\n"
                "Request the architecture that it has, or allow differences with regular "
                "expressions: --allow_missing (our names), --allow_unexpected (the source's)."
            )


def take_all(
    arrays: Arrays,
    wanted: Mapping[str, tuple[Taken, tuple[int, ...] | None]],
    notes: Sequence[str] = (),
) -> tuple[dict[str, np.ndarray], Report]:
    """Returns our arrays by name, float32, and the report.

    Arrays that have more axes than ours are reshaped: heads that are an axis of their own are
    joined, and axes of one are left out.

    Args:
      arrays: arrays of the source.
      wanted: our name, such as `params/...` -> the array of the source, and the shape of the
        result; None for any shape.
      notes: see `Report`.
    """
    flat: dict[str, np.ndarray] = {}
    loaded: dict[str, Sequence[str]] = {}
    missing: dict[str, Sequence[str]] = {}
    for name, (taken, shape) in wanted.items():
        depth = shape[0] if shape and "{}" in taken.name else None
        names = [taken.name.format(number) for number in range(depth or 1)]
        if absent := [source for source in names if source not in arrays]:
            missing[name] = absent
            continue
        own = shape[1:] if shape and depth else shape
        layers = [_take(np.asarray(arrays[source]), source, taken, own, name) for source in names]
        flat[name] = np.asarray(np.stack(layers) if depth else layers[0], order="C")
        loaded[name] = names
    used = {source for names in loaded.values() for source in names}
    unexpected = sorted(name for name in {*arrays} - used if not _COUNTERS.match(name))
    return flat, Report(loaded, missing, unexpected, notes)


def _take(
    array: np.ndarray, source: str, taken: Taken, wanted: tuple[int, ...] | None, name: str
) -> np.ndarray:
    # Integers may be quantized with a scale elsewhere.
    if array.dtype != ml_dtypes.bfloat16 and array.dtype.kind != "f":
        raise UserError(f"{source} has the type {array.dtype}: save the weights as float32.")
    try:
        found = taken.change(array)
        if wanted is not None and found.ndim > len(wanted):
            found = found.reshape(wanted)
    except (ValueError, IndexError):
        found = None  # Its shape is so different that it cannot be changed.
    if found is None or wanted not in (None, found.shape):
        raise UserError(
            f"{source} has the shape {list(array.shape)}, which does not give {list(wanted or ())} "
            f"for {name}: the source has another size or architecture than the requested one."
        )
    return np.asarray(found, np.float32)


def _matches(name: str, patterns: Collection[str]) -> bool:
    return any(re.match(pattern, name) for pattern in patterns)


def _arrows(arrays: Mapping[str, Sequence[str]]) -> list[str]:
    return [f"{name} <- {_shorten(names)}" for name, names in arrays.items()]


def _shorten(names: Sequence[str]) -> str:
    if len(names) <= _SHOWN:
        return ", ".join(names)
    return f"{', '.join(names[: _SHOWN - 1])}, ... {names[-1]} ({len(names)} in all)"

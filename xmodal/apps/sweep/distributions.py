"""Distributions of one config value, each a row of `DISTRIBUTIONS`."""

import dataclasses
import math
from typing import Any, ClassVar

from xmodal.base.config import UserError, setting

_DIGITS = 4


@dataclasses.dataclass(frozen=True)
class Uniform:
    """Numbers between two bounds, all equally likely; rounded to four significant digits.

    Attributes:
      low: smallest value.
      high: largest value.
    """

    is_log: ClassVar[bool] = False

    low: float = setting()
    high: float = setting()

    def __post_init__(self) -> None:
        _check_order(self.low, self.high)

    def at(self, quantile: float) -> float:
        """Returns the quantile of the draws at a given fraction, in [0, 1)."""
        return self._round(self.low + (self.high - self.low) * quantile)

    def ends(self) -> tuple[float, ...]:
        """Returns values such that a config that allows them allows the whole distribution."""
        return (self.low, self.high)

    def _round(self, value: float) -> float:
        return min(max(float(f"{value:.{_DIGITS}g}"), self.low), self.high)


@dataclasses.dataclass(frozen=True)
class LogUniform(Uniform):
    """Numbers between two positive bounds whose logarithms are equally likely."""

    is_log: ClassVar[bool] = True

    low: float = setting(above=0)
    high: float = setting(above=0)

    def at(self, quantile: float) -> float:
        """See `Uniform`."""
        return self._round(self.low * math.exp(math.log(self.high / self.low) * quantile))


@dataclasses.dataclass(frozen=True)
class Integers:
    """Integers from `low` to `high`, both included, all equally likely."""

    low: int = setting()
    high: int = setting()

    def __post_init__(self) -> None:
        _check_order(self.low, self.high)

    def at(self, quantile: float) -> int:
        """See `Uniform`."""
        return self.low + int((self.high - self.low + 1) * quantile)

    def ends(self) -> tuple[int, ...]:
        """See `Uniform`."""
        return (self.low, self.high)


@dataclasses.dataclass(frozen=True)
class Choice:
    """One of several values of any type, all equally likely."""

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise UserError("A choice needs at least one value.")
        if len({repr(value) for value in self.values}) < len(self.values):
            raise UserError(f"A choice of {list(self.values)} has a value twice.")

    def at(self, quantile: float) -> Any:
        """See `Uniform`."""
        return self.values[int(len(self.values) * quantile)]

    def ends(self) -> tuple[Any, ...]:
        """See `Uniform`."""
        return self.values


Distribution = Uniform | Integers | Choice

DISTRIBUTIONS: dict[str, type[Uniform] | type[Integers] | type[Choice]] = {
    "choice": Choice,
    "int": Integers,
    "log": LogUniform,
    "uniform": Uniform,
}


def name_of(distribution: Distribution) -> str:
    """Returns the name of a distribution's row."""
    return next(name for name, row in DISTRIBUTIONS.items() if row is type(distribution))


def _check_order(low: float, high: float) -> None:
    if not low < high:
        raise UserError(f"low={low} is not below high={high}.")

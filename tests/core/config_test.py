import dataclasses
from collections.abc import Sequence
from typing import Annotated

import pytest

from xmodal.core import config
from xmodal.core.config import Bounds, setting


def scale(
    score,
    *,
    size: Annotated[int, Bounds(at_least=1)],
    rate: Annotated[float | None, Bounds(above=0, below=1)] = 0.5,
    areas: Annotated[Sequence[float], Bounds(at_most=1)] = (),
    mode: str = "fast",
):
    """A function with options."""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 3, "rte": 1}, r"\['rte'\] in config.x; known: .*'rate', 'size'\]. Did you mean"),
        ({"rate": 0.5}, r"config.x lacks \['size'\]; known: "),
        ({"size": 0}, "config.x.size is 0; it must be at least 1"),
        ({"size": "4th"}, "config.x.size is '4th'; it must be int"),
    ],
)
def test_options_that_do_not_fit(options, message):
    with pytest.raises(config.UserError, match=message):
        config.check_options("config.x", scale, options)


@dataclasses.dataclass(frozen=True)
class Inner:
    rate: float = setting(0.1, above=0, below=1)


@dataclasses.dataclass(frozen=True)
class Section:
    size: int = setting(at_least=1)
    kind: str = setting("a", one_of=("a", "b"))
    biases: int = setting(2, one_of=(1, 2))
    area: tuple[float, float] = setting((0.5, 1.0), at_least=0, at_most=1)
    names: tuple[str, ...] = setting((), pattern=True)
    inner: Inner | None = None


def test_read_fills_defaults_and_converts():
    found = config.read(Section, "config.x", {"size": 2, "area": [0, 1], "inner": {"rate": 0.5}})
    assert found == Section(2, "a", 2, (0, 1), (), Inner(0.5))
    assert config.read(Section, "config.x", found) is found


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"size": 1, "area": (0.5, 2.0)}, r"config.x.area is 2.0; it must be at most 1"),
        ({"size": 1, "inner": {"rate": 1.0}}, r"config.x.inner.rate is 1.0; .* less than 1"),
        ({"size": 1, "biases": 3}, r"Unknown name 3 in config.x.biases; known: \[1, 2\]"),
        ({"size": 1, "area": (0.5,)}, r"config.x.area is \(0.5,\); it must be tuple"),
        ({"size": 1, "names": ["("]}, r"config.x.names is '\('; it must be a valid reg"),
    ],
)
def test_read_refuses_values_outside_of_their_range(given, message):
    with pytest.raises(config.UserError, match=message):
        config.read(Section, "config.x", given)

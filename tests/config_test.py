import dataclasses

import pytest

from xmodal import config
from xmodal.config import setting


def factory(size, *, rate=0.5, devices):
    return size, rate, devices


def test_call_joins_what_the_config_sets_and_what_the_code_gives():
    assert config.call("config.x", factory, {"size": 3}, devices=2) == (3, 0.5, 2)
    assert config.call("config.x", factory, {"size": 3, "rate": 1}, devices=2) == (3, 1, 2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"size": 3, "rte": 1}, r"\['rte'\] in config.x; known: \['rate', 'size'\]\."),
        # The code gives it: users may not set it.
        ({"size": 3, "devices": 4}, r"\['devices'\] in config.x; known: \['rate', 'size'\]"),
        ({"rate": 1}, r"config.x lacks \['size'\]; known: \['rate', 'size'\]"),
    ],
)
def test_call_refuses_what_does_not_fit(given, message):
    with pytest.raises(config.UserError, match=message):
        config.call("config.x", factory, given, devices=2)


def test_lookup():
    table = {"b": 1, "a": 2}
    assert config.lookup("config.x.name", "b", table) == 1
    with pytest.raises(config.UserError, match=r"'c' in config.x.name; known: \['a', 'b'\]"):
        config.lookup("config.x.name", "c", table)


def test_check_keys_names_every_unknown_key():
    config.check_keys("config.x", {"a": 1}, ("a", "b"))
    message = r"Unknown key\(s\) \['c', 'd'\] in config.x; known: \['a', 'b'\]"
    with pytest.raises(config.UserError, match=message):
        config.check_keys("config.x", {"d": 1, "c": 1, "a": 1}, ("b", "a"))


@dataclasses.dataclass(frozen=True)
class Inner:
    rate: float = setting(0.1, above=0, below=1)


@dataclasses.dataclass(frozen=True)
class Section:
    size: int = setting(at_least=1)
    kind: str = setting("a", one_of=("a", "b"))
    area: tuple[float, float] = setting((0.5, 1.0), at_least=0, at_most=1)
    inner: Inner | None = None


def test_read_fills_defaults_and_converts():
    found = config.read(Section, "config.x", {"size": 2, "area": [0, 1], "inner": {"rate": 0.5}})
    assert found == Section(2, "a", (0, 1), Inner(0.5))
    assert config.read(Section, "config.x", found) is found


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, r"config.x lacks \['size'\]"),
        ({"size": 0}, r"config.x.size is 0; it has to be at least 1"),
        ({"size": True}, r"config.x.size is True; it has to be a whole number"),
        ({"size": 1.5}, r"config.x.size is 1.5; it has to be a whole number"),
        ({"size": 1, "kind": "c"}, r"Unknown name 'c' in config.x.kind"),
        ({"size": 1, "area": (0.5, 2.0)}, r"config.x.area is 2.0; it has to be at most 1"),
        ({"size": 1, "area": "all"}, r"config.x.area is 'all'"),
        ({"size": 1, "inner": {"rate": 1.0}}, r"config.x.inner.rate is 1.0; .* less than 1"),
        ({"size": 1, "inner": {"rate": float("nan")}}, r"config.x.inner.rate .* finite"),
        ({"size": 1, "inner": 3}, r"config.x.inner is 3; it has to be a section or None"),
        ({"size": 1, "iner": {}}, r"Unknown key\(s\) \['iner'\] .* Did you mean 'inner'\?"),
    ],
)
def test_read_refuses_values_outside_of_their_range(given, message):
    with pytest.raises(config.UserError, match=message):
        config.read(Section, "config.x", given)

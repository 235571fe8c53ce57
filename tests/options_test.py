import pytest

from xmodal import options


def factory(size, *, rate=0.5, devices):
    return size, rate, devices


def test_call_joins_what_the_config_sets_and_what_the_code_gives():
    assert options.call("config.x", factory, {"size": 3}, devices=2) == (3, 0.5, 2)
    assert options.call("config.x", factory, {"size": 3, "rate": 1}, devices=2) == (3, 1, 2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"size": 3, "rte": 1}, r"\['rte'\] in config.x; known: \['rate', 'size'\]\."),
        # What the code gives is not the user's to set.
        ({"size": 3, "devices": 4}, r"\['devices'\] in config.x; known: \['rate', 'size'\]"),
        ({"rate": 1}, r"config.x lacks \['size'\]; known: \['rate', 'size'\]"),
    ],
)
def test_call_refuses_what_does_not_fit(given, message):
    with pytest.raises(options.UserError, match=message):
        options.call("config.x", factory, given, devices=2)


def test_lookup():
    table = {"b": 1, "a": 2}
    assert options.lookup("config.x.name", "b", table) == 1
    with pytest.raises(options.UserError, match=r"'c' in config.x.name; known: \['a', 'b'\]"):
        options.lookup("config.x.name", "c", table)


def test_check_keys_names_every_unknown_key():
    options.check_keys("config.x", {"a": 1}, ("a", "b"))
    message = r"Unknown key\(s\) \['c', 'd'\] in config.x; known: \['a', 'b'\]"
    with pytest.raises(options.UserError, match=message):
        options.check_keys("config.x", {"d": 1, "c": 1, "a": 1}, ("b", "a"))

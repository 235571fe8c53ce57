"""Every value of every config can be set on the command line."""

import functools
import keyword
import sys

import pytest
from absl import flags
from ml_collections import ConfigDict

from tests.configs.configs_test import FOLDER, VARIANTS
from xmodal.apps import config_flag

ALL = [*dict(reversed(VARIANTS)).items(), ("baselines", "bow"), ("baselines", "simclr")]


def load(name, argument, overrides=()):
    """Loads the config of a command line."""
    path = f"{FOLDER / name}.py" + (f":{argument}" if argument else "")
    sys.argv = ["main", f"--config={path}", *overrides]
    flags.FLAGS.unparse_flags()
    config_flag._parse_flags(sys.argv)
    return config_flag.read_config()


@functools.cache
def load_unchanged(name, argument):
    """The config without overrides, which nobody may change."""
    return load(name, argument)


@pytest.fixture(autouse=True)
def own_command_line(own_flags, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["main"])


def leaves(config, path=()):
    for key, value in config.items():
        # ml_collections mistakes a section called `values` for the method of that name.
        if isinstance(value, ConfigDict) and len(value) and not hasattr(ConfigDict, key):
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value


def value_at(config, path):
    """A value as plain Python; a list becomes a tuple, as in `xmodal.core.config.read`."""
    for key in path:
        config = config[key]
    if isinstance(config, ConfigDict):
        return config.to_dict()
    return tuple(config) if isinstance(config, list) else config


def spell(path):
    """A path as a flag; a key that is not a name, such as a step, is put in brackets."""
    is_name = {key: key.isidentifier() and not keyword.iskeyword(key) for key in path}
    return "config" + "".join(f".{key}" if is_name[key] else f'["{key}"]' for key in path)


def another(value):
    """A value of the same type that occurs in no config, or any value for None."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value * 2 + 3
    if isinstance(value, str):
        return f"7{value}/x y"
    if isinstance(value, (list, tuple)):
        return ("text/bert/", ("a.*", 0.5))
    return {"name": "x", "steps": 3, "inner": {"pattern": "image/.*(a|b)$"}}


@pytest.mark.parametrize(("name", "argument"), ALL)
@pytest.mark.parametrize("change", [another, lambda _: None], ids=["another value", "None"])
def test_every_leaf_can_be_set(name, argument, change):
    before = dict(leaves(load_unchanged(name, argument)))
    # A bool stays a bool: `--config.x=None` has no meaning for it.
    wanted = {
        path: another(value) if isinstance(value, bool) else change(value)
        for path, value in before.items()
    }
    overrides = [f"--{spell(path)}={value}" for path, value in wanted.items()]
    config = load(name, argument, overrides)
    assert len(wanted) > 50
    for path, value in wanted.items():
        assert value_at(config, path) == value, path
    assert all(value != before[path] or change(1) is None for path, value in wanted.items())


@pytest.mark.parametrize(("name", "argument"), ALL)
def test_every_section_can_be_replaced(name, argument):
    config = load_unchanged(name, argument)
    sections = [key for key, value in config.items() if isinstance(value, ConfigDict)]
    assert {"model", "tasks", "optimizer", "data", "evals"} <= set(sections)
    found = load(name, argument, [f"--config.{key}={{'name': 'x'}}" for key in sections])
    assert all(found[key].to_dict() == {"name": "x"} for key in sections)


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("freeze=['text/bert/']", "freeze", ("text/bert/",)),
        ("init_from.include=['image/.*', 'text/.*']", "init_from.include", ("image/.*", "text/.*")),
        ("sharding=[('.*kernel', 'fsdp')]", "sharding", ((".*kernel", "fsdp"),)),
        ("total_steps=3 epochs", "total_steps", "3 epochs"),
        ("optimizer.clip_norm=None", "optimizer.clip_norm", None),
        ("optimizer.learning_rate=3e-4", "optimizer.learning_rate", 3e-4),
        ("init_from.run=2014", "init_from.run", "2014"),
        ("model.image.encoder.remat=true", "model.image.encoder.remat", True),
        # A key for which the file uses the default.
        ("data.image.max_regions=36", "data.image.max_regions", 36),
        ("evals.coco.annotations=DIR", "evals.coco.annotations", "DIR"),
        ("evals.coco.boards=['coco5k']", "evals.coco.boards", ("coco5k",)),
        (
            "tasks.i2t.weight={'schedule': 'linear', 'from': 0.0, 'to': 1.0, 'end': 9}",
            "tasks.i2t.weight",
            {"schedule": "linear", "from": 0.0, "to": 1.0, "end": 9},
        ),
        (
            "tasks.i2t.loss.options.margin={'schedule': 'piecewise', 'values': {'0': 0.1}}",
            "tasks.i2t.loss.options.margin",
            {"schedule": "piecewise", "values": {"0": 0.1}},
        ),
    ],
)
def test_values_as_users_write_them(override, path, value):
    config = load("cxc_multitask", "", [f"--config.{override}"])
    assert value_at(config, path.split(".")) == value


def test_a_replaced_section_takes_further_keys():
    config = load(
        "cxc_multitask",
        "",
        [
            "--config.optimizer.schedule={'name': 'linear'}",
            "--config.optimizer.schedule.warmup_steps=10",
        ],
    )
    assert config.optimizer.schedule.to_dict() == {"name": "linear", "warmup_steps": 10}


def test_an_evaluator_of_a_run_without_a_config():
    flags.FLAGS.unparse_flags()
    with pytest.raises(SystemExit, match="evals.mrr sets .* To add an evaluator to a run, repeat"):
        config_flag._parse_flags(["main", "--config.evals.mrr={'type': 'boards'}"])

"""Every value of every config can be set on the command line."""

import sys

import pytest
from absl import flags
from ml_collections import ConfigDict

from tests.configs.configs_test import FOLDER
from xmodal.apps import config_flag


def load(name, argument, overrides=()):
    """Loads the config of a command line."""
    path = f"{FOLDER / name}.py" + (f":{argument}" if argument else "")
    sys.argv = ["main", f"--config={path}", *overrides]
    flags.FLAGS.unparse_flags()
    config_flag._parse_flags(sys.argv)
    return config_flag.read_config()


@pytest.fixture(autouse=True)
def own_command_line(own_flags, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["main"])


def value_at(config, path):
    """A value as plain Python; a list becomes a tuple, as in `xmodal.core.config.read`."""
    for key in path:
        config = config[key]
    if isinstance(config, ConfigDict):
        return config.to_dict()
    return tuple(config) if isinstance(config, list) else config


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("freeze=['text/bert/']", "freeze", ("text/bert/",)),
        ("sharding=[('.*kernel', 'fsdp')]", "sharding", ((".*kernel", "fsdp"),)),
        ("total_steps=3 epochs", "total_steps", "3 epochs"),
        ("optimizer.clip_norm=None", "optimizer.clip_norm", None),
        ("init_from.run=2014", "init_from.run", "2014"),
        ("model.image.encoder.remat=true", "model.image.encoder.remat", True),
        # A key for which the file uses the default.
        ("data.image.max_regions=36", "data.image.max_regions", 36),
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

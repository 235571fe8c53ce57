"""A start traces the model once."""

import jax
import pytest

from configs import quickstart
from xmodal import data
from xmodal.core import mesh as mesh_lib
from xmodal.train import run as run_lib
from xmodal.train.resolve import resolve
from xmodal.train.step import state


@pytest.fixture
def traces(monkeypatch):
    """A list that grows with every trace of the first parameters."""
    found, trace = [], run_lib.init_params

    def counted(*arguments):
        found.append(arguments)
        return trace(*arguments)

    monkeypatch.setattr(run_lib, "init_params", counted)
    return found


@pytest.fixture
def config(few_shapes):
    config = quickstart.get_config("t2t")
    config.data.data_dir, config.batch_size = few_shapes, 16
    config.model.text.encoder.vocab_size = data.vocabulary_size(config.data.to_dict())
    return config


def make_state(config):
    parts = resolve(config, mesh=mesh_lib.make_mesh(jax.devices()[:2]))
    return parts, state.create_state(parts.init_state, parts.state_shapes, parts.key_data)


def test_everything_else_is_checked_before_a_dataset_is_built(config, traces, monkeypatch):
    found, prepare = [], data.prepare

    def build(*args, **kwargs):
        found.append(len(traces))
        prepare(*args, **kwargs)

    monkeypatch.setattr(data, "is_prepared", lambda config: False)
    monkeypatch.setattr(data, "prepare", build)
    make_state(config)
    assert found == [1]
    assert len(traces) == 2

"""Parts built before and after the dataset is known share the trace of equal parameters."""

import jax
import pytest

from configs import quickstart
from xmodal import data
from xmodal.base import mesh as mesh_lib
from xmodal.runs import parts as parts_lib
from xmodal.runs import run
from xmodal.training import state


@pytest.fixture
def traces(monkeypatch):
    """A list that grows with every trace of the first parameters."""
    found, trace = [], parts_lib.init_params

    def counted(*arguments):
        found.append(arguments)
        return trace(*arguments)

    monkeypatch.setattr(parts_lib, "init_params", counted)
    return found


@pytest.fixture
def config(few_shapes):
    config = quickstart.get_config("t2t")
    config.data.data_dir, config.batch_size = few_shapes, 16
    config.model.text.encoder.vocab_size = data.vocabulary_size(config.data.to_dict())
    return config


def make_state(config):
    parts = run.assemble(config, mesh_lib.make_mesh(jax.devices()[:2]))
    return parts, state.create_state(parts.init_state, parts.state_shapes)


def test_the_first_parameters_are_traced_once(config, traces):
    parts, first = make_state(config)
    assert len(traces) == 1
    shapes = jax.tree.map(lambda x: (x.shape, x.dtype), parts.state_shapes)
    assert jax.tree.map(lambda x: (x.shape, x.dtype), first) == shapes


def test_a_vocabulary_to_be_learned_changes_the_parameters(config, traces):
    rows = config.model.text.encoder.vocab_size
    config.model.text.encoder.vocab_size = 0
    parts, first = make_state(config)
    assert len(traces) == 2
    assert parts.config.model.text.encoder.vocab_size == rows
    assert rows in {leaf.shape[0] for leaf in jax.tree.leaves(first.params["text"]) if leaf.ndim}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("seed", 1),
        ("model.text.encoder.width", 64),
        ("data.text.max_length", 12),
        ("tasks.t2t.weight", 0.5),
    ],
)
def test_other_parts_start_otherwise(config, path, value):
    mesh = mesh_lib.make_mesh(jax.devices()[:1])
    parts = run.build(config, mesh)
    other = config.copy_and_resolve_references()
    other.update_from_flattened_dict({path: value})
    assert parts.starts_like(run.build(config, mesh))
    assert not parts.starts_like(run.build(other, mesh))

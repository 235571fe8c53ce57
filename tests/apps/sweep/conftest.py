"""A sweep of tiny runs."""

import gc

import jax
import pytest

from tests.apps.sweep.bag import SELECT, SPACE, make_config
from xmodal.apps.sweep.plan import Plan
from xmodal.core import mesh as mesh_lib


@pytest.fixture
def config(few_shapes):
    """The config that all trials share."""
    return make_config(few_shapes)


@pytest.fixture
def plan(config):
    """Two parameters, none of them studied."""
    return Plan(config, SPACE, None, 0, SELECT, "max")


@pytest.fixture
def one_device(monkeypatch):
    """One device for whole runs, which take longer on eight."""
    mesh = mesh_lib.make_mesh(jax.devices()[:1])
    monkeypatch.setattr(mesh_lib, "make_mesh", lambda *_: mesh)


@pytest.fixture
def kept_functions(monkeypatch):
    """Trials do not free memory when they end: the next ones, and other tests, trace the same."""
    monkeypatch.setattr(jax, "clear_caches", lambda: None)
    monkeypatch.setattr(gc, "collect", lambda: None)

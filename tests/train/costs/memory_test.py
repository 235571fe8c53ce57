"""Programs that do not fit in memory, and the options that steps are compiled with."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import tiny_encoder as tiny
from xmodal.core import mesh as mesh_lib
from xmodal.core.errors import UserError
from xmodal.train.costs import memory
from xmodal.train.costs.cost import Cost, format_costs


@pytest.mark.parametrize(
    ("what", "flag"),
    [(memory.STEP, "--config.batch_size (now 16)"), ("embedding", "(now {'shapes': 512})")],
)
def test_a_program_that_does_not_fit_names_what_to_change(what, flag):
    run = tiny.make_parts(tiny.make_config())
    cost = Cost(5 * 2**30, 4 * 2**30, 0, 2**30, 2e12, 3e9, None)
    memory.check_fits(cost, 2**40, what, run)
    with pytest.raises(UserError, match=f"The {what} does not fit: it needs 10.00 GiB") as error:
        memory.check_fits(cost, 8 * 2**30, what, run)
    assert "state and batch alone 5.00 GiB, per device (cpu)" in str(error.value)
    assert flag in str(error.value)
    header, row = format_costs({what: cost}, 20 * 2**30).splitlines()
    assert header.split()[-3:] == ["GB", "moved", "s"]
    assert row.endswith("5          4     1  10 (50%)      2         3")


@pytest.fixture
def optimized():
    """Programs compile as outside of tests, which disable most optimizations."""
    name = "jax_disable_most_optimizations"
    jax.config.update(name, False)
    yield
    jax.config.update(name, True)


@pytest.mark.usefixtures("optimized")
@pytest.mark.parametrize(
    "options",
    [
        memory._CPU_STEP_OPTIONS,
        {"xla_no_such_option": ""},
        {"xla_cpu_experimental_ynn_fusion_type": "NO_SUCH_KIND"},
    ],
)
def test_a_step_compiles_with_options_that_this_version_of_xla_may_lack(options, monkeypatch):
    parts = types.SimpleNamespace(mesh=mesh_lib.make_mesh(jax.devices()[:1]))
    lowered = jax.jit(lambda x: 2 * x).lower(1.0)
    if options is memory._CPU_STEP_OPTIONS:  # Those in use do something.
        lowered.compile(options)
    monkeypatch.setattr(memory, "_CPU_STEP_OPTIONS", options)
    assert memory.compile_program(lowered, memory.STEP, parts)(1.0) == 2.0


@pytest.mark.usefixtures("optimized")
def test_options_of_a_step_keep_the_digits_of_sums():
    parts = types.SimpleNamespace(mesh=mesh_lib.make_mesh(jax.devices()[:1]))
    values = np.random.default_rng(0).random((32, 32, 32, 32), np.float32)
    lowered = jax.jit(lambda x: jnp.sum(jnp.square(x))).lower(values)
    found = memory.compile_program(lowered, memory.STEP, parts)(values)
    assert float(found) == pytest.approx(np.sum(np.square(values, dtype=np.float64)), rel=2e-6)

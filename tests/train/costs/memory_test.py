"""Suggestions for a program that does not fit in memory."""

import dataclasses
import re
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs import base
from xmodal.core import mesh as mesh_lib
from xmodal.core.errors import UserError
from xmodal.evals import read_options
from xmodal.train.costs import memory
from xmodal.train.costs.cost import Cost


def make_parts(devices=8, engine=None, loss="softmax", batch_size=65536, parts=1, sharding=()):
    task = base.task("image", "caption_0", loss)
    if engine is not None:
        task["loss"]["options"] = {"engine": engine}
    encoder = {"name": "efficientnet", "variant": "b0"}
    settings = types.SimpleNamespace(
        batch_size=batch_size,
        accumulation_steps=parts,
        sharding=sharding,
        model={"image": {"encoder": encoder}},
        tasks={"i2t": task},
    )
    evals = {
        "coco": {"type": "boards", "batch_size": 512},
        "sts": {"type": "pairs", "batch_size": 64},
        "usual": {"type": "boards"},  # 256
    }
    device = types.SimpleNamespace(device_kind="cpu")
    return types.SimpleNamespace(
        settings=settings,
        evals=read_options(evals),
        mesh=types.SimpleNamespace(size=devices, devices=np.array([device])),
        model=types.SimpleNamespace(towers=["image"]),
        trained={"image": {"encoder": {"kernel": np.zeros(1)}}},
    )


def test_changes_of_no_number_come_first():
    flags = [remedy.partition("=")[0] for remedy in memory.step_remedies(make_parts())]
    assert flags == [
        "--config.model.image.encoder.remat",
        "--config.sharding",
        "--config.tasks.i2t.loss.options.engine",
        "--config.accumulation_steps",
        "--config.batch_size",
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "ring"),  # By default.
        ({"engine": "dense"}, "ring"),
        ({"devices": 1}, "chunked"),
        ({"engine": "auto:100000"}, "ring"),
        ({"engine": "auto:1"}, None),
        ({"engine": "chunked"}, None),
        ({"batch_size": 1024}, None),
        ({"loss": "pearson"}, None),
    ],
)
def test_scores_of_all_pairs_are_found_whatever_engine_is_named(options, expected):
    named = [each for each in memory.step_remedies(make_parts(**options)) if "engine=" in each]
    assert [each.partition("engine=")[2].split()[0] for each in named] == [expected][: len(named)]
    assert bool(named) == (expected is not None)


def test_a_smaller_batch_is_one_that_can_be_trained():
    remedies = memory.step_remedies(make_parts(batch_size=96, parts=3))
    assert remedies[-1].startswith("--config.batch_size=48 (now 96)")
    remedies = memory.step_remedies(make_parts(batch_size=24, parts=3))
    assert not any("batch_size" in each for each in remedies)


def make_cost(arguments, temporaries):
    numbers = dict.fromkeys([field.name for field in dataclasses.fields(Cost)], 0)
    return Cost(**numbers | {"argument_bytes": arguments, "temporary_bytes": temporaries})


@pytest.mark.parametrize(
    ("what", "arguments", "expected"),
    [
        (memory.STEP, 1, ["model", "sharding", "tasks", "accumulation_steps", "batch_size"]),
        # No change to the computation helps if the state does not fit.
        (memory.STEP, 5, ["sharding", "freeze", "batch_size"]),
        ("embedding of 512 images", 1, ["evals", "sharding"]),
    ],
)
def test_remedies_are_those_of_the_program(what, arguments, expected):
    cost = make_cost(arguments * 2**30, 4 * 2**30)
    memory.check_fits(cost, 2**40, what, make_parts())
    with pytest.raises(UserError, match=f"The {what} does not fit: it needs") as error:
        memory.check_fits(cost, 4 * 2**30, what, make_parts())
    flags = re.findall(r"--config\.(\w+)", str(error.value))
    assert flags == expected
    assert ("state and batch alone 5.00 GiB" in str(error.value)) == (arguments == 5)
    if what != memory.STEP:
        assert "--config.evals.coco.batch_size=256 (now 512)" in str(error.value)


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

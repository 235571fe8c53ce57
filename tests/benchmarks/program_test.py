"""Compiled programs are read as the compiler counts them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec

from tests.benchmarks.collectives import Collectives, count_collectives
from tests.benchmarks.program import read_program
from tests.benchmarks.traffic import count_moved, count_traffic
from xmodal.core import mesh as mesh_lib

SIZE, WIDTH = 96, 40


def test_traffic_by_part_adds_up_to_the_compiler_s_count():
    def step(x, kernel):
        def loss(kernel):
            with jax.named_scope("image"), jax.named_scope("encoder"):
                embedded = jnp.tanh(x @ kernel)
            with jax.named_scope("losses"):
                return jnp.sum(jax.nn.logsumexp(embedded @ embedded.T, axis=0))

        gradient = jax.grad(loss)(kernel)
        with jax.named_scope("update"):
            return kernel - 0.1 * gradient

    x, kernel = (np.zeros(shape, np.float32) for shape in ((SIZE, WIDTH), (WIDTH, WIDTH)))
    compiled = jax.jit(step).lower(x, kernel).compile()
    program, counted = read_program(compiled.as_text()), compiled.cost_analysis()["bytes accessed"]
    traffic = count_traffic(program)
    total = sum(sum(kinds.values()) for kinds in traffic.values())
    assert total == pytest.approx(counted, rel=0.01)
    assert count_moved(program, counted) == counted
    needed = 4 * (2 * SIZE * WIDTH + WIDTH * WIDTH)
    assert traffic["image/encoder forward"]["products"] >= needed
    assert traffic["update"]["products"] == 0 < traffic["update"]["other"]


def test_collectives_in_a_loop_count_as_often_as_it_runs():
    mesh = mesh_lib.make_mesh(jax.devices()[:4])
    rows = PartitionSpec(mesh_lib.BATCH_AXIS)

    @functools.partial(jax.shard_map, mesh=mesh, in_specs=rows, out_specs=rows)
    def add_three_times(x):
        def turn(carry, _):
            return jnp.tanh(jax.lax.ppermute(carry, mesh_lib.BATCH_AXIS, [(0, 1), (1, 0)])), None

        return jax.lax.scan(turn, x, length=3)[0]

    text = jax.jit(add_three_times).lower(np.zeros((8, 5), np.float32)).compile().as_text()
    assert count_collectives(read_program(text)) == {
        "collective-permute": Collectives(3, 3 * 4 * 2 * 5)
    }

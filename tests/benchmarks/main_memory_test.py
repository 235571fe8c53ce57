"""A compiled program moves as much memory as the compiler counts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.benchmarks.main_memory import count_moved, sum_operands


def test_operands_add_up_to_the_compiler_s_count():
    def loss(x, kernel):
        embedded = jnp.tanh(x @ kernel)
        return jnp.sum(jax.nn.logsumexp(embedded @ embedded.T, axis=0))

    x, kernel = (np.zeros(shape, np.float32) for shape in ((96, 40), (40, 40)))
    compiled = jax.jit(jax.grad(loss, argnums=1)).lower(x, kernel).compile()
    text, counted = compiled.as_text(), compiled.cost_analysis()["bytes accessed"]
    assert sum_operands(text, on_chip=True) == pytest.approx(counted, rel=0.01)
    assert count_moved(text, counted) == counted


def test_arrays_on_the_chip_of_a_tpu_are_left_out():
    text = """
HloModule step
ENTRY %main (a: f32[8,128]) -> f32[8,128] {
  %a = f32[8,128]{1,0:T(8,128)} parameter(0)
  %b = f32[8,128]{1,0:T(8,128)S(1)} tanh(%a)
  ROOT %c = f32[8,100]{1,0:T(8,128)} slice(%b), slice={[0:8], [0:100]}
}
"""
    size = 4 * 8 * 128
    assert sum_operands(text, on_chip=True) == 4 * size
    assert count_moved(text, 1.0) == 2 * size

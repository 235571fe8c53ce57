"""Bytes by part of the model: the total is XLA's count, attributed to the traced parts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.benchmarks.program import read_program
from tests.benchmarks.traffic import KINDS, count_moved, count_traffic
from xmodal.train.costs.accelerators import slice_devices

SIZE, WIDTH = 96, 40


def compile_step(loops):
    def embed(x, kernel):
        with jax.named_scope("image"), jax.named_scope("encoder"):
            if not loops:
                return jnp.tanh(x @ kernel)
            return jax.lax.scan(lambda y, _: (jnp.tanh(y @ kernel), None), x, length=loops)[0]

    def step(x, kernel):
        def loss(kernel):
            embedded = embed(x, kernel)
            with jax.named_scope("losses"):
                return jnp.sum(jax.nn.logsumexp(embedded @ embedded.T, axis=0))

        gradient = jax.grad(loss)(kernel)
        with jax.named_scope("update"):
            return kernel - 0.1 * gradient

    x, kernel = (np.zeros(shape, np.float32) for shape in ((SIZE, WIDTH), (WIDTH, WIDTH)))
    return jax.jit(step).lower(x, kernel).compile()


def total(traffic):
    return sum(sum(kinds.values()) for kinds in traffic.values())


def test_parts_add_up_to_the_compiler_s_count():
    compiled = compile_step(loops=0)
    traffic = count_traffic(read_program(compiled.as_text()))
    assert total(traffic) == pytest.approx(compiled.cost_analysis()["bytes accessed"], rel=0.01)
    assert {"image/encoder forward", "image/encoder backward", "update"} <= set(traffic)
    assert all(tuple(kinds) == KINDS for kinds in traffic.values())
    # It reads the inputs and the kernel, and writes the products.
    needed = 4 * (SIZE * WIDTH + WIDTH * WIDTH + SIZE * WIDTH)
    assert traffic["image/encoder forward"]["products"] >= needed
    assert traffic["losses forward"]["products"] >= 4 * (SIZE * WIDTH + SIZE * SIZE)
    assert traffic["update"]["products"] == 0 < traffic["update"]["other"]


def test_an_operation_called_transpose_is_no_gradient():
    def embed(x):
        with jax.named_scope("image"), jax.named_scope("encoder"):
            return x.T

    compiled = jax.jit(embed).lower(np.zeros((SIZE, WIDTH), np.float32)).compile()
    assert list(count_traffic(read_program(compiled.as_text()))) == ["image/encoder forward"]


def test_a_loop_counts_as_often_as_it_runs():
    few, many = (count_traffic(read_program(compile_step(n).as_text())) for n in (10, 30))
    part = "image/encoder forward"
    grown = sum(many[part].values()) - sum(few[part].values())
    # Twenty times more: the state is read and written.
    assert grown >= 20 * 4 * 2 * SIZE * WIDTH
    assert many["losses forward"] == few["losses forward"]


def test_kinds_of_operations():
    traffic = count_traffic(
        read_program("""
%fused (p: f32[8,8]) -> f32[8,8] {
  %p = f32[8,8]{1,0} parameter(0)
  ROOT %d = f32[8,8]{1,0} convolution(%p, %p), dim_labels=bf_io->bf
}

ENTRY %main (a: f32[8,8]) -> f32[8,8] {
  %a = f32[8,8]{1,0} parameter(0)
  %c = (f32[8,8]{1,0}, f32[8,8]{1,0}, u32[]) copy-start(%a), metadata={op_name="jit(f)/text/head/x"}
  %e = f32[8,8]{1,0} copy-done(%c)
  %f = f32[8,8]{1,0} fusion(%e), kind=kOutput, calls=%fused, metadata={op_name="jit(f)/jvp(text)/Side/head/dot"}
  %g = f32[8,8]{1,0} all-reduce(%f), to_apply=%fused
  ROOT %h = f32[8,8]{1,0} add(%g, %f), metadata={op_name="jit(f)/transpose(jvp(text))/Side/head/add"}
}
""")  # noqa: E501
    )
    size = 8 * 8 * 4
    assert traffic == {
        "text/head forward": dict.fromkeys(KINDS, 0) | {"copies": 2 * size, "products": 2 * size},
        "text/head backward": dict.fromkeys(KINDS, 0) | {"other": 3 * size},
        "not named": dict.fromkeys(KINDS, 0) | {"collectives": 2 * size},
    }
    assert next(iter(traffic)) == "text/head forward"


def test_a_computation_with_two_callers_counts_twice():
    traffic = count_traffic(
        read_program("""
%shared (p: f32[8,8]) -> f32[8,8] {
  %p = f32[8,8]{1,0} parameter(0)
  ROOT %n = f32[8,8]{1,0} negate(%p)
}

ENTRY %main (a: f32[8,8]) -> f32[8,8] {
  %a = f32[8,8]{1,0} parameter(0)
  %b = f32[8,8]{1,0} call(%a), to_apply=%shared
  ROOT %c = f32[8,8]{1,0} call(%b), to_apply=%shared
}
""")
    )
    assert total(traffic) == 2 * 2 * 8 * 8 * 4


def test_arrays_on_the_chip_are_no_traffic():
    program = read_program("""
ENTRY %main (a: f32[8,128], w: f32[32,128]) -> f32[8,128] {
  %a = f32[8,128]{1,0:T(8,128)} parameter(0)
  %w = f32[32,128]{1,0:T(8,128)} parameter(1)
  %c = (f32[8,128]{1,0:T(8,128)S(1)}, f32[8,128]{1,0:T(8,128)}, u32[]{:S(2)}) copy-start(%a)
  %d = f32[8,128]{1,0:T(8,128)S(1)} copy-done(%c)
  %s = ((f32[32,128]{1,0:T(8,128)}), f32[16,128]{1,0:T(8,128)S(1)}, s32[]{:S(2)}) slice-start(%w), slice={[0:16], [0:128]}
  %e = f32[16,128]{1,0:T(8,128)S(1)} slice-done(%s)
  %f = f32[8,128]{1,0:T(8,128)S(1)} add(%d, %a)
  %h = f32[8,128]{1,0:T(8,128)S(5)} copy(%f)
  ROOT %g = f32[8,128]{1,0:T(8,128)} add(%f, %e)
}
""")  # noqa: E501
    row = 4 * 128
    # The first copy and the slice are read, %a once more, %h (to the host) and %g are written.
    assert count_traffic(program) == {
        "not named": dict.fromkeys(KINDS, 0)
        | {"copies": (8 + 16 + 8) * row, "other": (8 + 8) * row}
    }
    # XLA counts the operations on the chip, and fewer bytes if they read a slice.
    for counted in (10 * row, 100 * row):
        assert count_moved(program, counted) == (8 + 16 + 8 + 8 + 8) * row


@pytest.mark.slow
def test_a_tpu_that_keeps_activations_on_the_chip():
    pytest.importorskip("libtpu")
    device = slice_devices("v5e:2x2")[0]
    sharding = jax.sharding.SingleDeviceSharding(device)
    kernels = [jax.ShapeDtypeStruct((1024, 1024), jnp.bfloat16, sharding=sharding)] * 4
    x = jax.ShapeDtypeStruct((2048, 1024), jnp.bfloat16, sharding=sharding)

    def loss(kernels, x):
        for kernel in kernels:
            x = jnp.tanh(x @ kernel)
        return jnp.sum(x)

    compiled = jax.jit(jax.grad(loss)).lower(kernels, x).compile()
    program = read_program(compiled.as_text())
    counted = compiled.cost_analysis()["bytes accessed"]
    found = count_moved(program, counted)
    # The kernels, their gradients and the input; all activations stay on the chip.
    assert found == pytest.approx(2 * (2 * 4 * 1024 * 1024 + 2048 * 1024), rel=0.01)
    assert found < counted / 2
    assert found == total(count_traffic(program))

    def softmax(kernel, x):  # A slice of an array on the chip is read.
        logits = (x @ kernel) @ (x @ kernel).T
        return jnp.sum(jax.nn.logsumexp(logits, axis=0) - jnp.diagonal(logits))

    compiled = jax.jit(jax.grad(softmax)).lower(kernels[0], x).compile()
    moved = count_moved(
        read_program(compiled.as_text()), compiled.cost_analysis()["bytes accessed"]
    )
    assert moved >= 2 * (2 * 1024 * 1024 + 2048 * 1024)


def test_a_program_without_text():
    assert count_traffic(read_program("")) == {}

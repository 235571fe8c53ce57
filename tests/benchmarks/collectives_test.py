"""Counts of collectives in programs with known collectives."""

import re

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from tests.benchmarks.collectives import Collectives, count_collectives
from tests.benchmarks.program import read_program
from xmodal.core import mesh as mesh_lib


def test_of_compiled_functions():
    mesh = mesh_lib.make_mesh()
    rows = mesh_lib.batch_sharded(mesh)
    x = jax.ShapeDtypeStruct((16, 6), np.float32, sharding=rows)

    def compile_text(function, out):
        return jax.jit(function, out_shardings=out).lower(x).compile().as_text()

    def compiled(function, out):
        return count_collectives(read_program(compile_text(function, out)))

    assert compiled(lambda x: x * 2, rows) == {}
    copy = mesh_lib.replicated(mesh)
    assert compiled(lambda x: x + 1, copy) == {"all-gather": Collectives(1, 16 * 6 * 4)}
    assert compiled(lambda x: x.sum(0), copy) == {"all-reduce": Collectives(1, 6 * 4)}

    def rotate(x):
        def body(_, y):
            return jax.lax.ppermute(y, "data", [(i, (i + 1) % 8) for i in range(8)]) * 2

        return jax.lax.fori_loop(0, 5, body, x)

    ring = jax.shard_map(
        rotate, mesh=mesh, in_specs=PartitionSpec("data"), out_specs=PartitionSpec("data")
    )
    text = compile_text(ring, NamedSharding(mesh, PartitionSpec("data")))
    program = read_program(text)
    assert program.loop_lengths() == (5,)
    # As written by a TPU compiler.
    silent_text = re.sub('"known_trip_count":{"n":"5"}', '"other":0', text)
    assert silent_text != text
    silent = read_program(silent_text)
    assert silent.loop_lengths() == (5,)
    assert count_collectives(silent) == count_collectives(program)
    found = count_collectives(program)
    # Five times the two rows of a device.
    assert found == {"collective-permute": Collectives(5, 5 * 2 * 6 * 4)}


def test_of_asynchronous_pairs():
    program = """
ENTRY %main (p: f32[4,8]) -> f32[32,8] {
  %g = (bf16[4,8]{1,0}, bf16[32,8]{1,0}) all-gather-start(%p), dimensions={0}
  %d = bf16[32,8]{1,0} all-gather-done(%g)
  %several = ((f32[4], f32[2]), (f32[32], f32[16])) all-gather-start(%a, %b), dimensions={0}
  %r = (f32[8]{0}, f32[]) all-reduce-start(%a, %b), to_apply=%add
  %s = (f32[4,8], f32[4,8], u32[], u32[]) collective-permute-start(%p)
}
"""
    assert count_collectives(read_program(program)) == {
        "all-gather": Collectives(2, 2 * 32 * 8 + 4 * 48),
        "all-reduce": Collectives(1, 36),
        "collective-permute": Collectives(1, 4 * 32),
    }


def test_pieces_of_one_collective_count_once():
    # As for TPU v5e: the gather continues during fusions that do not need its result. Two
    # permutations on one channel are two.
    program = """
%start (p: f32[4,8]) -> f32[32,8] {
  %g = f32[32,8]{1,0} all-gather(%p), channel_id=3, dimensions={0}
  ROOT %s = (f32[4,8], f32[32,8]) custom-call(%g), custom_call_target="AsyncCollectiveStart"
}

%meanwhile (p: f32[4,8], q: f32[8,8]) -> f32[8,8] {
  %g.1 = f32[32,8]{1,0} all-gather(%p), channel_id=3, dimensions={0}
  ROOT %c = f32[8,8]{1,0} convolution(%q, %q), dim_labels=bf_io->bf
}

%other (p: f32[4,8]) -> f32[4,8] {
  ROOT %r = f32[4,8]{1,0} all-reduce(%p), channel_id=4, to_apply=%add
}

ENTRY %main (p: f32[4,8]) -> f32[32,8] {
  %a = (f32[4,8], f32[32,8]) fusion(%p), kind=kCustom, calls=%start
  %b = f32[8,8]{1,0} fusion(%p, %q), kind=kOutput, calls=%meanwhile
  %c = f32[4,8]{1,0} fusion(%p), kind=kCustom, calls=%other
  %d = f32[4,8]{1,0} collective-permute(%p), channel_id=1, source_target_pairs={{0,1}}
  %e = f32[4,8]{1,0} collective-permute(%d), channel_id=1, source_target_pairs={{0,1}}
}
"""
    assert count_collectives(read_program(program)) == {
        "all-gather": Collectives(1, 4 * 32 * 8),
        "all-reduce": Collectives(1, 4 * 4 * 8),
        "collective-permute": Collectives(2, 2 * 4 * 4 * 8),
    }


def test_nothing_of_a_program_without_any():
    text = jax.jit(jnp.sin).lower(jnp.ones(3)).compile().as_text()
    assert count_collectives(read_program(text)) == {}

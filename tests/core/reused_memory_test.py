"""Tests that steps on a CPU write to the same pages again."""

import subprocess
import sys

import pytest

# Of the program's array: 100 MiB, more than glibc keeps for other threads; pages have at most
# 64 KiB.
PAGES = 5120 * 5120 * 4 // 2**16
PROGRAM = """
import resource, sys
import jax, jax.numpy as jnp, numpy as np
from xmodal.core import mesh as mesh_lib
from xmodal.core.reused_memory import compute_in_caller, keep_freed_memory

@jax.jit
def step(batch):
    large = jnp.arange(5120.0 * 5120).reshape(5120, 5120) * batch.max()
    return jnp.sum(large / jnp.sum(large))

if sys.argv[1:]:
    compute_in_caller()
keep_freed_memory()
mesh = mesh_lib.make_mesh(jax.devices()[:1])
# JAX copies arrays in another thread if they are large and not aligned.
rows = np.ones(20_000_001, np.uint8)[1:].reshape(4, -1)
for _ in range(20):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    step(mesh_lib.global_batch(rows, mesh)).block_until_ready()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
@pytest.mark.parametrize("arguments", [["in caller"], []])
def test_memory_is_kept_for_the_next_step(arguments: list[str]) -> None:
    command = [sys.executable, "-c", PROGRAM, *arguments]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    takes_new_pages = [int(faults) >= PAGES / 4 for faults in found.stdout.split()]
    # Small allocations may split the kept memory in some of the first steps.
    assert sum(takes_new_pages) <= 4 if arguments else all(takes_new_pages)

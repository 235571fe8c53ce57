"""Tests that steps on a CPU write to the same pages again."""

import statistics
import subprocess
import sys

import pytest

PAGES = 3072 * 3072 * 4 // 2**16  # of the program's array, 36 MiB; pages have at most 64 KiB
PROGRAM = """
import resource, sys
import jax, jax.numpy as jnp
from xmodal.train.reused_memory import compute_in_caller, keep_freed_memory

@jax.jit
def step(x):
    large = jnp.arange(3072.0 * 3072).reshape(3072, 3072) * x
    return jnp.sum(large / jnp.sum(large))

platform, *rest = sys.argv[1:]
if rest:
    compute_in_caller()
keep_freed_memory(platform)
for _ in range(15):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    step(1.0).block_until_ready()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
@pytest.mark.parametrize(("arguments", "is_kept"), [("cpu caller", True), ("cpu", False)])
def test_memory_is_kept_for_the_next_step(arguments: str, is_kept: bool) -> None:
    command = [sys.executable, "-c", PROGRAM, *arguments.split()]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    # Small allocations may split the kept memory in some of the first steps, which then take more.
    faults = statistics.median(map(int, found.stdout.split()))
    assert faults < PAGES / 4 if is_kept else faults >= PAGES

"""Tests that computations on a CPU write to the same pages again."""

import os
import subprocess
import sys

import pytest

# More than the 64 MiB that another arena than the first can keep.
PAGES = 4160 * 4160 * 4 // 2**16  # of the program's array; pages have at most 64 KiB
PROGRAM = """
import os, resource, sys, threading
import jax, jax.numpy as jnp
from xmodal.base.reused_memory import keep_freed_memory, share_arena

@jax.jit
def step(x):
    large = jnp.arange(4160.0 * 4160).reshape(4160, 4160) * x
    return jnp.sum(large / jnp.sum(large))

platform, cores = sys.argv[1:]
os.cpu_count = lambda: int(cores)
share_arena()
keep_freed_memory(platform)

def run():  # Not in the first thread, as most of XLA's work.
    for _ in range(11):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        step(1.0).block_until_ready()
        print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)

threading.Thread(target=run).start()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
@pytest.mark.parametrize(
    ("platform", "cores", "is_kept"), [("cpu", 16, True), ("cpu", 17, False), ("tpu", 16, False)]
)
def test_memory_is_kept_for_the_next_step(platform: str, cores: int, is_kept: bool) -> None:
    command = [sys.executable, "-c", PROGRAM, platform, str(cores)]
    one_device = {**os.environ, "XLA_FLAGS": ""}  # So many threads as of eight share arenas anyway.
    found = subprocess.run(command, env=one_device, capture_output=True, text=True, check=True)
    # Small allocations may split the kept memory in some of the steps, which then take more.
    faults = min(map(int, found.stdout.split()))
    assert faults < PAGES / 4 if is_kept else faults >= PAGES

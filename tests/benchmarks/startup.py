"""Measures the time until the end of the first step, without and with cached compilations.

    python -m tests.benchmarks.startup [--config=quickstart:i2t]

Runs the same start twice in separate processes, initially with an empty cache. Prints one line of
JSON per start: seconds for the imports, the parts and their data, the first state, compiling the
training step, and the first step; `of_cold` is the fraction of the cold start.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

START = """
import json, sys, time
times, last = {}, time.perf_counter()
def lap(name):
    global last
    now = time.perf_counter()
    times[name], last = round(now - last, 2), now
from xmodal.base import mesh as mesh_lib
from xmodal.cli import config_flag
from xmodal.runs import compiled_step, loop, run
from xmodal.runs import start
def main(argv):
    lap("imports")
    parts = run.resolve(config_flag.read_config())
    lap("parts")
    state = start.starting_state(parts, "no/such/run")
    lap("first_state")
    step = compiled_step.compile_step(parts, state)
    lap("compilation")
    batch = mesh_lib.global_batch(next(loop.make_batches(parts, 0)), parts.mesh)
    _, scalars = step(state, batch, mesh_lib.put_step(0, parts.mesh))
    float(scalars["train/loss"])
    lap("first_step")
    print(json.dumps(times), flush=True)
config_flag.run(main)
"""


def start(arguments: list[str], cache: str) -> dict[str, float]:
    """Seconds for every part of a start, and in total."""
    environment = os.environ | {
        "JAX_COMPILATION_CACHE_DIR": cache,
        "JAX_ENABLE_COMPILATION_CACHE": "true",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    done = subprocess.run(
        [sys.executable, "-c", START, *arguments], env=environment, stdout=subprocess.PIPE,
        check=True, text=True,
    )  # fmt: skip
    times = json.loads(done.stdout.splitlines()[-1])
    return times | {"all": round(sum(times.values()), 2)}


def main() -> None:
    """Prints a line per start."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", default="quickstart:i2t")
    args, others = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as cache:
        arguments = [f"--config={args.config}", *others]
        cold = start(arguments, cache)
        warm = start(arguments, cache)
    for name, times in (("cold", cold), ("warm", warm)):
        share = {key: round(times[key] / cold[key], 2) for key in ("compilation", "all")}
        line = {"figure": "startup", "config": args.config, "start": name, **times}
        print(json.dumps(line | {"of_cold": share}), flush=True)


if __name__ == "__main__":
    main()

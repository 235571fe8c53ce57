"""Measures the time until the end of the first step, and until commands answer.

    python -m tests.benchmarks.startup [--config=quickstart:i2t]
    python -m tests.benchmarks.startup --run=runs/quickstart

The first command runs the same start twice in separate processes, initially with an empty cache. It
prints one line of JSON per start: seconds for the imports, the parts and their data, the first
state, compiling the training step while the first batches are made, and the first step, and CPU
seconds in all; `of_cold` is the fraction of the cold start. The third line, `limit`, is a bare
program that does only what cannot be avoided with the same model: it imports JAX, flax, optax,
Orbax and the modules of the model and its training, traces the first state and the step, reads
both from the cache and takes a step on zeros, without dataset, checks, evaluators and log.

The second command prints a line per command on a finished run: CPU seconds, which other processes
hardly change, and seconds from start to answer, medians of `--rounds` after one that fills the
compilation cache; `limit` is the CPU seconds of a bare program that does only what cannot be
avoided: it starts Python, and for answers imports JAX and multiplies two matrices.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

START = """
import json, os, pathlib, time
times, last = {}, time.perf_counter()
def lap(name):
    global last
    now = time.perf_counter()
    times[name], last = round(now - last, 2), now
from xmodal.apps import config_flag
def main(argv):
    from xmodal.core import mesh as mesh_lib
    from xmodal.core.compilation_cache import use_compilation_cache
    from xmodal.train import compiled_step, loop, start
    from xmodal.train.resolve import resolve
    use_compilation_cache()
    lap("imports")
    parts = resolve(config_flag.read_config())
    lap("parts")
    state = start.starting_state(parts, "no/such/run")
    lap("first_state")
    batches = loop.make_batches(parts, 0)
    step = compiled_step.compile_step(parts, state)
    lap("compilation")
    batch = mesh_lib.global_batch(next(batches), parts.mesh)
    _, scalars = step(state, batch, mesh_lib.put_step(0, parts.mesh))
    float(scalars["train/loss"])
    lap("first_step")
    times["cpu"] = round(time.process_time(), 2)
    print(json.dumps(times), flush=True)
    columns = {name: (spec.shape, spec.dtype.name) for name, spec in parts.batch.items()}
    pathlib.Path(os.environ["RESOLVED"]).write_text(
        json.dumps({"config": parts.config.to_dict(), "batch": columns})
    )
config_flag.run(main)
"""
LIMIT = """
import json, os, pathlib, time
times, last = {}, time.perf_counter()
def lap(name):
    global last
    now = time.perf_counter()
    times[name], last = round(now - last, 2), now
def main():
    import jax, numpy as np, orbax.checkpoint
    from xmodal.core import config as config_lib, mesh as mesh_lib
    from xmodal.core.compilation_cache import use_compilation_cache
    from xmodal.models import Devices, make_dual_encoder
    from xmodal.train.costs import memory
    from xmodal.train import rngs, state as state_lib, step as step_lib, tasks as tasks_lib
    from xmodal.train.optimization import optimizer as optimizer_lib, schedules
    use_compilation_cache()
    lap("imports")
    resolved = json.loads(pathlib.Path(os.environ["RESOLVED"]).read_text())
    config, mesh = resolved["config"], mesh_lib.make_mesh()
    batch = {name: np.zeros(shape, dtype) for name, (shape, dtype) in resolved["batch"].items()}
    model = make_dual_encoder(config["model"], Devices(mesh.size))
    tasks = tasks_lib.make_tasks(config["tasks"])
    one, key = {name: column[:1] for name, column in batch.items()}, rngs.key_data(0)
    init = jax.jit(lambda key: state_lib.init_params(model, tasks, one, key))
    shapes = jax.eval_shape(init, key)
    section = config_lib.read(optimizer_lib.OptimizerConfig, "", config["optimizer"])
    optimizer = optimizer_lib.make_optimizer(section, config["total_steps"], shapes[0])
    first = lambda key: state_lib.first_state(*init(key), optimizer, ())
    everywhere = mesh_lib.replicated(mesh)
    state = jax.jit(first, out_shardings=everywhere)(key)
    lap("first_state")
    function = step_lib.make_step(model, tasks, optimizer, seed=0, mesh=mesh)
    count = mesh_lib.put_step(0, mesh)
    batch = mesh_lib.global_batch(batch, mesh)
    arguments = batch, count, schedules.Lengths(count, count), mesh_lib.put(key, everywhere)
    lowered = step_lib.jit_step(function, state, mesh).lower(state, *arguments)
    lap("tracing")
    step = lowered.compile(memory._CPU_STEP_OPTIONS)
    lap("compilation")
    float(step(state, *arguments)[1]["train/loss"])
    lap("first_step")
    times["cpu"] = round(time.process_time(), 2)
    print(json.dumps(times), flush=True)
main()
"""


def start(program: str, arguments: list[str], cache: str) -> dict[str, float]:
    """Seconds for every part of a start, and in total, and CPU seconds."""
    environment = os.environ | {
        "XDG_CACHE_HOME": cache,
        "JAX_ENABLE_COMPILATION_CACHE": "true",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "RESOLVED": os.path.join(cache, "resolved.json"),
    }
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], env=environment, stdout=subprocess.PIPE,
        check=True, text=True,
    )  # fmt: skip
    times = json.loads(done.stdout.splitlines()[-1])
    return times | {"all": round(sum(times.values()) - times["cpu"], 2)}


HELP = "search", "convert", "export", "annotate", "board", "reproduce", "train", "evaluate"
BARE_HELP = "import argparse; argparse.ArgumentParser()"
BARE_ANSWER = """
import jax, numpy as np
query, items = np.ones((1, 256), np.float32), np.ones((256, 5000), np.float32)
print(np.asarray(jax.jit(lambda x, y: x @ y)(query, items)).argmax())
"""


def time_program(*arguments: str) -> tuple[float, float]:
    """CPU seconds and seconds of a Python program and its children."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    elapsed, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, elapsed


def print_commands(run: str, rounds: int) -> None:
    """Prints a line per command."""
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        index, saved = folder / "index", folder / "model.npz"
        evaluate = "xmodal.eval_main", f"--run={run}", f"--save_embeddings={saved}"
        time_program("-m", *evaluate, f"--output={folder / 'saved'}")
        config = json.loads((pathlib.Path(run) / "config.json").read_text())
        where = {key: config["data"][key] or "" for key in ("dataset", "config", "data_dir")}
        data = [f"--{key}={value}" for key, value in where.items()]
        time_program(
            "-m", "xmodal", "search", "build", f"--model={run}", f"--output={index}", *data
        )
        of_file = f"--embeddings={saved}", "--config=quickstart", "--similarity=dot"
        page = f"--output={folder / 'page.html'}"
        answers = {
            "search query": ("search", "query", f"--index={index}", "a red star"),
            "show": ("show", f"--model={run}", "--count=5", page),
            "evaluate a file": (
                *("evaluate", *of_file, f"--config.data.data_dir={where['data_dir']}"),
                *(f"--output={folder / 'of_file'}", "--overwrite"),
            ),
        }
        helps = {"--help": ("--help",)} | {f"{name} --help": (name, "--help") for name in HELP}
        for commands, bare in ((helps, BARE_HELP), (answers, BARE_ANSWER)):
            limit = statistics.median(time_program("-c", bare)[0] for _ in range(rounds))
            for name, arguments in commands.items():
                times = [time_program("-m", "xmodal", *arguments) for _ in range(rounds + 1)][1:]
                cpu, seconds = (
                    round(statistics.median(each), 2) for each in zip(*times, strict=True)
                )
                line = {"figure": "command", "command": name, "cpu": cpu, "seconds": seconds}
                print(json.dumps(line | {"limit": round(limit, 2)}), flush=True)


def main() -> None:
    """Prints a line per start, or per command."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", default="quickstart:i2t")
    parser.add_argument("--run", help="a run of the quickstart, to measure commands instead")
    parser.add_argument("--rounds", type=int, default=3)
    args, others = parser.parse_known_args()
    if args.run:
        print_commands(args.run, args.rounds)
        return
    with tempfile.TemporaryDirectory() as cache:
        arguments = [f"--config={args.config}", *others]
        cold = start(START, arguments, cache)
        warm = start(START, arguments, cache)
        start(LIMIT, [], cache)  # Compiles what differs from the run's own programs.
        limit = start(LIMIT, [], cache)
    for name, times in (("cold", cold), ("warm", warm), ("limit", limit)):
        share = {key: round(times[key] / cold[key], 2) for key in ("compilation", "all", "cpu")}
        line = {"figure": "startup", "config": args.config, "start": name, **times}
        print(json.dumps(line | {"of_cold": share}), flush=True)


if __name__ == "__main__":
    main()

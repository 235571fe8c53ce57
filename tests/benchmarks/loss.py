r"""Compares the time and memory of batch losses in every mode with dense ones and with torch.

    python -m tests.benchmarks.loss [--batch_size=8192] [--width=1792] [--devices=1] [--rounds=5]

Computes values and gradients of both embeddings. Prints one line of JSON per loss and mode: `units`
is the median time in bare B x B x D products of the same rounds, `of_dense` and `of_torch` are the
ratios to the dense mode and to torch's dense form (extra `parity`), and `temporaries_mb` is the
memory per device that the compiled program needs in addition to arguments and results. With
--devices=8, the batch is split over virtual devices, which share the processor, and the ring is
also measured. With --rounds=0, programs are compiled but not run, so that batches may have any
size:

    python -m tests.benchmarks.loss --family=softmax --engines ring --batch_size=32768 \
        --chunk_size=256 --devices=8 --rounds=0
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from xmodal.core.processor import describe_processor

# Name -> loss, options, similarity.
FAMILIES: dict[str, tuple[str, dict, dict]] = {
    "softmax": ("softmax", {}, {"name": "dot"}),
    "decoupled": ("softmax", {"form": "printed"}, {"name": "dot"}),
    "sigmoid": ("sigmoid", {}, {"name": "cosine"}),
    "hinge_sum": ("triplet", {"mining": "all"}, {"name": "cosine"}),
    "hinge_hardest": ("triplet", {"mining": "hardest"}, {"name": "cosine"}),
    "hinge_semi_hard": ("triplet", {"mining": "semi_hard"}, {"name": "cosine"}),
    "max_cosine": ("triplet", {"mining": "hardest"}, {"name": "max_cosine"}),
}
SAMPLES = 2  # embeddings per item, for max_cosine


def make_batch(family: str, size: int, width: int) -> list[np.ndarray]:
    """Two views, items first, that are close to each other."""
    shape = (size, SAMPLES, width // SAMPLES) if family == "max_cosine" else (size, width)
    rng = np.random.default_rng(0)
    left = rng.standard_normal(shape, np.float32)
    right = 0.5 * left + rng.standard_normal(shape, np.float32)
    return [view / np.sqrt(width) for view in (left, right)]


def compile_ours(family: str, engine: str, args: argparse.Namespace) -> tuple[Callable, float]:
    """Returns a function without arguments, and megabytes of temporaries per device."""
    import jax

    from xmodal.core import mesh as mesh_lib
    from xmodal.losses import LOSSES, Context
    from xmodal.models import Embedding
    from xmodal.similarity import make_similarity

    name, options, similarity = FAMILIES[family]
    score = make_similarity(similarity)
    params = score.init()
    ids = np.arange(args.batch_size, dtype=np.int32)
    mesh = mesh_lib.make_mesh(jax.devices()[: args.devices])

    def loss(views: list, ids: jax.Array) -> jax.Array:
        embeddings = [Embedding(view, None, {}) for view in views]
        context = Context(ids, ids, score, params, mesh=mesh if args.devices > 1 else None)
        mode = {"engine": engine, "chunk_size": args.chunk_size}
        return LOSSES[name].function(*embeddings, context, **options, **mode)[0]

    rows = mesh_lib.batch_sharded(mesh)
    views, ids = jax.device_put((make_batch(family, args.batch_size, args.width), ids), rows)
    compiled = jax.jit(jax.value_and_grad(loss)).lower(views, ids).compile()
    temporaries = compiled.memory_analysis().temp_size_in_bytes / 1e6
    return lambda: jax.block_until_ready(compiled(views, ids)), temporaries


def compile_product(args: argparse.Namespace) -> Callable:
    """One bare product, the unit."""
    import jax

    left, right = make_batch("softmax", args.batch_size, args.width)
    left, right = jax.device_put((left, right))
    product = jax.jit(lambda a, b: a @ b.T)
    return lambda: jax.block_until_ready(product(left, right))


def make_torch(family: str, args: argparse.Namespace) -> Callable | None:
    """The usual dense form in torch; None if torch is not installed."""
    try:
        import torch
    except ImportError:
        return None
    views = [torch.tensor(v) for v in make_batch(family, args.batch_size, args.width)]
    for view in views:
        view.requires_grad_(True)
    items, functional = torch.arange(args.batch_size), torch.nn.functional

    def softmax(scores: Any) -> Any:
        rows, columns = (functional.cross_entropy(each, items) for each in (scores, scores.T))
        return (rows + columns) / 2

    def decoupled(scores: Any) -> Any:
        apart = torch.eye(len(scores), dtype=torch.bool)
        negatives = scores.masked_fill(apart, -torch.inf)
        sides = (torch.logsumexp(negatives, dim) - scores.diagonal() for dim in (1, 0))
        return sum(side.mean() for side in sides) / 2

    def sigmoid(scores: Any) -> Any:
        signs = 2 * torch.eye(len(scores)) - 1
        return -functional.logsigmoid(signs * scores).sum() / len(scores)

    def hinges(scores: Any, reduce: Callable) -> Any:
        positive = scores.diagonal()
        apart = torch.eye(len(scores), dtype=torch.bool)
        sides = (0.2 + scores - positive[:, None], 0.2 + scores - positive[None])
        rows, columns = (side.clamp(min=0).masked_fill(apart, 0) for side in sides)
        return reduce(rows, 1).sum() + reduce(columns, 0).sum()

    def semi_hard(scores: Any) -> Any:
        positive, sides = scores.diagonal(), []
        for each in (scores, scores.T):
            below = each.masked_fill(each >= positive[:, None], -torch.inf).amax(1)
            sides.append((0.2 + below - positive).clamp(min=0).sum())
        return sum(sides)

    losses = {
        "softmax": softmax,
        "decoupled": decoupled,
        "sigmoid": sigmoid,
        "hinge_sum": lambda scores: hinges(scores, torch.sum),
        "hinge_hardest": lambda scores: hinges(scores, torch.amax),
        "hinge_semi_hard": semi_hard,
        "max_cosine": lambda scores: hinges(scores, torch.amax),
    }

    def run() -> float:
        left, right = views
        if FAMILIES[family][2]["name"] != "dot":
            left, right = (functional.normalize(view, dim=-1) for view in views)
        for view in views:
            view.grad = None
        scores = left.flatten(0, -2) @ right.flatten(0, -2).T
        if family == "max_cosine":
            scores = scores.reshape(args.batch_size, SAMPLES, args.batch_size, SAMPLES)
            scores = scores.amax((1, 3))
        loss = losses[family](scores)
        loss.backward()
        return loss.item()

    return run


def measure(family: str, args: argparse.Namespace) -> None:
    """Prints a line per mode; all modes and rivals take turns."""
    runs, memory = {}, {}
    for engine in args.engines:
        runs[engine], memory[engine] = compile_ours(family, engine, args)
    medians = time_all(family, runs, args) if args.rounds else {}
    for engine in args.engines:
        line = {
            "figure": "loss",
            "loss": family,
            "engine": engine,
            "batch_size": args.batch_size,
            "width": args.width,
            "chunk_size": args.chunk_size,
            "devices": args.devices,
            "temporaries_mb": round(memory[engine], 1),
        }
        if "dense" in memory:
            line["temporaries_of_dense"] = round(memory[engine] / memory["dense"], 3)
        if medians:
            line["seconds"] = round(medians[engine], 4)
        for name, other in {"units": "product", "of_dense": "dense", "of_torch": "torch"}.items():
            if other in medians:
                line[name] = round(medians[engine] / medians[other], 2)
        print(json.dumps(line | {"processor": describe_processor()}), flush=True)


def time_all(family: str, ours: dict[str, Callable], args: argparse.Namespace) -> dict[str, float]:
    """Median seconds of every mode, of a bare product and of torch."""
    runs = {"product": compile_product(args), **ours}
    if (rival := make_torch(family, args)) is not None:
        value, _ = next(iter(ours.values()))()
        np.testing.assert_allclose(rival(), value, rtol=1e-4)
        runs["torch"] = rival
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(args.rounds + 1):
        for name, run in runs.items():
            started = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - started)
    # The first round warms up.
    return {name: statistics.median(found[1:]) for name, found in times.items()}


def main() -> None:
    """Measures all families, or one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--family", choices=FAMILIES)
    parser.add_argument("--engines", nargs="+", help="default: those for this many devices")
    for name, default in {
        "batch_size": 8192, "width": 1792, "chunk_size": 1024, "devices": 1, "rounds": 5
    }.items():  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    args.engines = args.engines or ["dense", "chunked", *(["ring"] if args.devices > 1 else [])]
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={args.devices}"
    for family in [args.family] if args.family else FAMILIES:
        measure(family, args)


if __name__ == "__main__":
    main()

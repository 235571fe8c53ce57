r"""Measures how time and memory grow with the gallery, the batch and the number of pairs.

    python -m tests.benchmarks.growth [--parts evaluation loss pairs gallery] [--images=400]
        [--dim=256] [--batch_size=256] [--pairs=512]

Every size runs 1, 4 and 16 times as large, where memory is measured in a process of its own. A
first run compiles. Prints one line of JSON per figure: wall and CPU seconds and peak MB of resident
memory beyond the inputs for every size, and the exponents of powers of the size fitted to them.
Losses are also compiled for larger batches without running them.

`gallery` ranks a gallery on 8 virtual devices, which share the processor. It opens a 16th and a
quarter of --full_images, with five captions each, and ranks the first rows, from which on memory
no longer grows; with --measure_full also the whole gallery, which is else extrapolated:

    python -m tests.benchmarks.growth --parts gallery --dim=512 --measure_full
"""

import argparse
import concurrent.futures
import dataclasses
import itertools
import json
import multiprocessing
import os
import resource
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.benchmarks import evaluation, loss, pair_scores
from xmodal.core.processor import describe_processor

SCALES = (1, 4, 16)
DEVICES = 8
BOARDS = ("coco5k",)
ENGINES = {"dense": 1, "chunked": 1, "ring": DEVICES}  # With their numbers of devices.
COMPILED_BATCH = 4096
# A small scorer of pairs: most of its time is in products, as in a large one.
TEXTS, IMAGE_TOKENS, TEXT_TOKENS, WIDTH = 64, 50, 16, 128
BLOCKS = 4


@dataclasses.dataclass(frozen=True)
class Cost:
    """Seconds of a run after compilation, and peak MB of its process beyond its inputs."""

    seconds: float
    cpu_seconds: float
    peak_mb: float


FIELDS = tuple(field.name for field in dataclasses.fields(Cost))


def main() -> None:
    """Prints the figures of every requested part."""
    args = _parse()
    # Inherited by all processes; a program of one device still has both cores.
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"
    for part in args.parts:
        PARTS[part](args)


def measure_evaluation(args: argparse.Namespace) -> None:
    """Ranks in four directions with intervals, and the products that symmetry allows."""
    tasks = [evaluation.Task("", scale * args.images, args.dim, BOARDS) for scale in SCALES]
    items = [task.images * (1 + evaluation.CAPTIONS_PER_IMAGE) for task in tasks]
    suite = [measure(evaluation.make_suite, task) for task in tasks]
    bare = [measure(evaluation.make_halved_products, task) for task in tasks]
    show("evaluation", "items", items, suite)
    show("bare products", "items", items, bare)
    ratios = [one.cpu_seconds / other.cpu_seconds for one, other in zip(suite, bare, strict=True)]
    growth = [later / ratio for ratio, later in itertools.pairwise(ratios)]
    print_figure("evaluation / bare products", items=items, cpu_ratio=ratios, growth_per_4x=growth)


def measure_loss(args: argparse.Namespace) -> None:
    """The symmetric softmax loss and its gradient, with every engine."""
    batches, compiled = (
        [scale * size for scale in SCALES] for size in (args.batch_size, COMPILED_BATCH)
    )
    for engine, devices in ENGINES.items():

        def settings(size: int, devices: int = devices) -> argparse.Namespace:
            return argparse.Namespace(
                batch_size=size, width=args.dim, devices=devices, chunk_size=1024
            )

        costs = [run_here(make_loss, (engine, settings(size)), runs=2) for size in batches]
        times = [field for field in FIELDS if "seconds" in field]
        show(f"softmax, {engine}", "batch", batches, costs, times)
        mb = [loss.compile_ours("softmax", engine, settings(size))[1] for size in compiled]
        print_figure(
            f"softmax, {engine}, temporaries per device as compiled",
            batch=compiled,
            mb=mb,
            exponent=fit(compiled, mb),
        )


def measure_pairs(args: argparse.Namespace) -> None:
    """Scores of pairs by a cross-attention pair scorer, for more images and the same texts."""
    pairs = [scale * args.pairs for scale in SCALES]
    costs = [measure(make_pairs, number // TEXTS) for number in pairs]
    show("pair scores", "pairs", pairs, costs)


def measure_gallery(args: argparse.Namespace) -> None:
    """The largest gallery: a complete run and the first rows of smaller ones, as compiled."""
    per_image = 1 + evaluation.CAPTIONS_PER_IMAGE
    full = evaluation.Task("", args.full_images, args.dim, BOARDS, devices=DEVICES)
    ranked = dataclasses.replace(full, images=4 * args.images)
    cost = measure(evaluation.make_suite, ranked)
    hours = cost.cpu_seconds / 3600 * (args.full_images / ranked.images) ** 2
    print_figure(
        "gallery on 8 devices, ranked",
        items=ranked.images * per_image,
        dim=args.dim,
        cpu_seconds=cost.cpu_seconds,
        extrapolated_cpu_hours=hours,
    )
    shares = (16, 4, 1) if args.measure_full else (16, 4)
    tasks = [dataclasses.replace(full, images=full.images // share) for share in shares]
    items = [task.images * per_image for task in tasks]
    gib = [
        items_of_one * args.dim * 4 / 2**30 + measure(make_first_rows, task, runs=1).peak_mb / 1024
        for items_of_one, task in zip(items, tasks, strict=True)
    ]
    print_figure(
        "gallery on 8 devices, memory of the process, first rows",
        items=items,
        dim=args.dim,
        gib=gib,
        exponent=fit(items, gib),
        extrapolated_gib=float(
            np.polyval(np.polyfit(items[:2], gib[:2], 1), full.images * per_image)
        ),
    )


PARTS = {
    "evaluation": measure_evaluation,
    "loss": measure_loss,
    "pairs": measure_pairs,
    "gallery": measure_gallery,
}


def make_loss(engine: str, args: argparse.Namespace) -> Callable[[], Any]:
    """See `loss.compile_ours`."""
    return loss.compile_ours("softmax", engine, args)[0]


def make_pairs(images: int) -> Callable[[], Any]:
    """Scores all pairs of some images with `TEXTS` texts."""
    rng = np.random.default_rng(0)
    tokens = rng.normal(size=(images, IMAGE_TOKENS, WIDTH)).astype(np.float32)
    ids = rng.integers(1, 1000, (TEXTS, TEXT_TOKENS))
    sizes = {"width": WIDTH, "depth": 2, "heads": 2, "mlp_dim": 4 * WIDTH}
    return pair_scores.make_ours(tokens, ids, sizes)


def make_first_rows(task: evaluation.Task) -> Callable[[], Any]:
    """Opens a gallery and computes the first blocks of rows of captions with captions."""
    import jax

    from xmodal.core.mesh import make_mesh
    from xmodal.evals.scores.score_rows import open_scores
    from xmodal.evals.scores.sources import Embeddings

    labels = evaluation.make_labels(task)
    images, captions = evaluation.make_embeddings(task)
    mesh = make_mesh(jax.devices()[: task.devices])

    def run() -> None:
        source = Embeddings(
            "here", labels.image_ids, images, labels.caption_ids, captions, evaluation.SIMILARITY
        )
        scores = open_scores(source, mesh=mesh)["text", "text"]
        for _ in itertools.islice(scores.blocks(np.arange(len(captions))), BLOCKS):
            pass

    return run


def measure(make: Callable[..., Callable[[], Any]], *args: Any, runs: int = 2) -> Cost:
    """The cost of the last run, in a new process."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as process:
        return process.submit(run_here, make, args, runs).result()


def run_here(make: Callable[..., Callable[[], Any]], args: Sequence[Any], runs: int) -> Cost:
    """See `measure`."""
    run = make(*args)
    before = evaluation.resident_mb()
    for _ in range(runs):
        started, used = time.perf_counter(), time.process_time()
        run()
        seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Cost(seconds, cpu_seconds, peak - before)


def fit(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The exponent of a power of the size: the slope of a line through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def show(
    figure: str,
    axis: str,
    sizes: Sequence[int],
    costs: Sequence[Cost],
    fields: Sequence[str] = FIELDS,
) -> None:
    """Prints costs with their exponents."""
    values: dict[str, Any] = {axis: sizes}
    for field in fields:
        each = [getattr(cost, field) for cost in costs]
        values |= {field: each, f"{field}_exponent": fit(sizes, each)}
    print_figure(figure, **values)


def print_figure(figure: str, **values: Any) -> None:
    """Prints a line of JSON with numbers rounded."""

    def rounded(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [rounded(each) for each in value]
        return round(value, 3) if isinstance(value, float) else value

    line = {name: rounded(value) for name, value in values.items()}
    print(json.dumps({"figure": figure, **line, "processor": describe_processor()}), flush=True)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    for name, default in {
        "images": 400, "dim": 256, "batch_size": 256, "pairs": 512, "full_images": 200_000
    }.items():  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--measure_full", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()

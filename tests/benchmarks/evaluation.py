"""Compares the evaluation suite with the matrix products it needs and with other tools.

    python -m tests.benchmarks.evaluation --annotations=FOLDER [--scale=4] [--peers=false]

Every rival runs in its own process, which creates its embeddings, warms up on the same shapes and
waits; timed runs take turns. Prints one line of JSON per figure: medians of wall and CPU seconds
(the latter for a busy machine), and the peak resident memory beyond what the process used with its
embeddings.
"""

import dataclasses
import json
import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from absl import app, flags

SCALE = flags.DEFINE_integer("scale", 1, "1: 5,000 images of the test split; 4: 20,000, own pairs.")
DIM = flags.DEFINE_integer("dim", 1792, "Width of the embeddings.")
ANNOTATIONS = flags.DEFINE_string("annotations", None, "Released label files.", required=True)
ROUNDS = flags.DEFINE_integer("rounds", 3, "Timed runs of the suite and of the products.")
LIMITS = flags.DEFINE_list("limits", ["products", "products_halved"], "Bare products to compare.")
PEERS = flags.DEFINE_boolean("peers", True, "Whether to run eccv_caption, argsort and SciPy, too.")

IMAGES, CAPTIONS_PER_IMAGE, BLOCK = 5000, 5, 1024
BOARDS = ("coco5k", "coco1k", "cxc", "cxc_sits_only", "eccv", "pmrp")
SIMILARITY = "cosine"
RIVALS = ("eccv_caption", "text_argsort", "scipy_bootstrap")


@dataclasses.dataclass(frozen=True)
class Task:
    """A measurement for one process."""

    name: str
    images: int
    dim: int
    boards: tuple[str, ...]
    annotations: str = ""
    devices: int = 1


@dataclasses.dataclass(frozen=True)
class Found:
    """A run: wall and CPU seconds, results, and the peak memory of its process so far."""

    seconds: float
    cpu_seconds: float
    numbers: dict[str, float]
    peak_mb: float


class Worker:
    """A process that measures one task."""

    def __init__(self, task: Task) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(task, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def run(self) -> Found:
        """Runs the task once more; the first run compiles."""
        self._connection.send(True)
        return self._connection.recv()

    def stop(self) -> None:
        """Ends the process."""
        self._connection.send(False)
        self._process.join()


def serve(task: Task, connection: Connection) -> None:
    """Runs a task on request."""
    run = MAKERS[task.name](task)
    before = resident_mb()
    while connection.recv():
        started, used = time.perf_counter(), time.process_time()
        numbers = run()
        seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - used
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before
        connection.send(Found(seconds, cpu_seconds, numbers, peak))


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def make_embeddings(task: Task) -> tuple[Any, Any]:
    """Fills images [N, D] and captions [5 N, D]; a caption is its image plus strong noise."""
    import numpy as np

    generator = np.random.default_rng(0)
    images = generator.standard_normal((task.images, task.dim), dtype=np.float32)
    captions = np.empty((len(images), CAPTIONS_PER_IMAGE, task.dim), np.float32)
    for own, image in zip(captions, images, strict=True):
        generator.standard_normal(out=own, dtype=np.float32)
        own *= 10.0
        own += image
    return images, captions.reshape(-1, task.dim)


def make_labels(task: Task) -> Any:
    """Released labels, or original pairs without them."""
    import numpy as np

    from xmodal.evals.labels.annotations import read_annotations
    from xmodal.evals.labels.types import Labels

    if task.annotations:
        return read_annotations(task.annotations, "test")
    images = np.arange(task.images)
    owner = np.repeat(images, CAPTIONS_PER_IMAGE)
    folds = (images // 1000).astype(np.int32)
    return Labels(
        "coco_captions", "test", images, np.arange(len(owner)), owner, {}, {}, folds=folds
    )


def make_suite(task: Task) -> Callable[[], dict[str, float]]:
    """All boards and their intervals."""
    import jax

    from xmodal.core.mesh import make_mesh
    from xmodal.evals.evaluators.runner import compute_boards
    from xmodal.evals.labels.make import make_boards
    from xmodal.evals.reports.summary import summarize
    from xmodal.evals.scores.sources import Embeddings

    labels = make_labels(task)
    boards = make_boards(labels, task.boards)
    images, captions = make_embeddings(task)
    mesh = make_mesh(jax.devices()[: task.devices]) if task.devices > 1 else None

    def run() -> dict[str, float]:
        source = Embeddings(
            "here", labels.image_ids, images, labels.caption_ids, captions, SIMILARITY
        )
        return summarize(compute_boards(source, labels, boards, mesh=mesh), intervals=True)

    return run


def make_products(task: Task, *, halved: bool = False) -> Callable[[], dict[str, float]]:
    """Every product of two galleries once; for a gallery with itself, all of it or half."""
    import jax
    import jax.numpy as jnp

    galleries = [
        [jax.device_put(jnp.asarray(rows[i : i + BLOCK])) for i in range(0, len(rows), BLOCK)]
        for rows in make_embeddings(task)
    ]
    multiply = jax.jit(
        lambda x, y: jax.lax.dot_general(x, y, (((1,), (1,)), ((), ())), precision="highest")
    )

    def run() -> dict[str, float]:
        images, captions = galleries
        for left, right in ((images, captions), (captions, captions), (images, images)):
            for i, block in enumerate(left):
                for other in right[i if halved and left is right else 0 :]:
                    multiply(block, other).block_until_ready()
        return {}

    return run


def make_halved_products(task: Task) -> Callable[[], dict[str, float]]:
    """See `make_products`."""
    return make_products(task, halved=True)


def normalized(task: Task) -> tuple[Any, Any]:
    """Embeddings of length 1."""
    import numpy as np

    images, captions = make_embeddings(task)
    for rows in (images, captions):
        for row in rows:
            row /= np.linalg.norm(row)
    return images, captions


def make_eccv_caption(task: Task) -> Callable[[], dict[str, float]]:
    """One product, rankings in both directions as id lists, and the package's loops."""
    import contextlib
    import os

    import eccv_caption
    import numpy as np

    labels = make_labels(task)
    images, captions = normalized(task)
    image_ids, caption_ids = labels.image_ids, labels.caption_ids
    package = eccv_caption.Metrics()
    asked = ("coco_1k_recalls", "coco_5k_recalls", "cxc_recalls")
    listed = ("eccv_map_at_r", "eccv_rprecision", "eccv_r1")
    names = {"coco1k": "coco_1k", "coco5k": "coco_5k", "cxc_sits_only": "cxc"}

    def rank(scores: Any, queries: Any, items: Any) -> dict[int, list[int]]:
        return {
            int(query): items[np.argsort(-row, kind="stable")].tolist()
            for query, row in zip(queries, scores, strict=True)
        }

    def run() -> dict[str, float]:
        scores = images @ captions.T
        rankings = rank(scores, image_ids, caption_ids), rank(scores.T, caption_ids, image_ids)
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
            found = package.compute_all_metrics(*rankings, target_metrics=asked + listed)
        numbers = {}
        for side in ("i2t", "t2i"):
            for board, name in names.items():
                for k in (1, 5, 10):
                    numbers[f"{board}/{side}/recall@{k}"] = 100 * found[f"{name}_r{k}"][side]
            for metric, name in zip(("map@r", "r_precision", "recall@1"), listed, strict=True):
                numbers[f"eccv/{side}/{metric}"] = 100 * found[name][side]
        return numbers

    return run


def make_text_argsort(task: Task) -> Callable[[], dict[str, float]]:
    """Caption-caption retrieval: products by block, and a sort of every row."""
    import numpy as np

    from xmodal.evals.labels.make import make_boards

    boards = make_boards(make_labels(task), ("coco5k", "cxc"))
    _, captions = normalized(task)

    def run() -> dict[str, float]:
        ranks = {board.name: np.empty(len(captions), int) for board in boards}
        place = np.empty(len(captions), int)
        for start in range(0, len(captions), BLOCK):
            scores = captions[start : start + BLOCK] @ captions.T
            for row, own in enumerate(scores, start):
                own[row] = -np.inf
                place[np.argsort(-own, kind="stable")] = np.arange(len(own))
                for board in boards:
                    positives = board.directions["t2t"].positives
                    begin, end = positives.offsets[row : row + 2]
                    ranks[board.name][row] = place[positives.values[begin:end]].min()
        return {
            f"{name}/t2t/recall@{k}": 100 * float(np.mean(rank < k))
            for name, rank in ranks.items()
            for k in (1, 5, 10)
        }

    return run


def make_scipy_bootstrap(task: Task) -> Callable[[], dict[str, float]]:
    """The three correlations, with one SciPy call per sample, on the same draws."""
    import numpy as np
    from scipy import stats

    from xmodal.evals.labels.make import make_boards
    from xmodal.evals.reports.metrics import draw_pairs

    (board,) = make_boards(make_labels(task), ("cxc",))
    images, captions = normalized(task)
    galleries = {"image": images, "text": captions}

    def run() -> dict[str, float]:
        numbers = {}
        for name, pairs in board.graded.items():
            left, right = (galleries[kind] for kind in pairs.modalities)
            scores = score_pairs(left, right, pairs.left, pairs.right)
            drawn = draw_pairs(pairs.pairs_of_query, samples=1000, seed=0)
            samples = [stats.spearmanr(scores[row], pairs.scores[row]).statistic for row in drawn]
            numbers[f"cxc/{name}/spearman"] = 100 * float(np.mean(samples))
            numbers[f"cxc/{name}/spearman_std"] = 100 * float(np.std(samples))
        return numbers

    return run


def score_pairs(left: Any, right: Any, rows: Any, columns: Any) -> Any:
    """Dot products of selected row pairs of left and right."""
    import numpy as np

    scores = np.empty(len(rows), np.float32)
    for start in range(0, len(scores), 4096):  # keeps copies of the vectors small
        part = slice(start, start + 4096)
        scores[part] = np.einsum("pd,pd->p", left[rows[part]], right[columns[part]])
    return scores


MAKERS = {
    "suite": make_suite,
    "products": make_products,
    "products_halved": make_halved_products,
    "eccv_caption": make_eccv_caption,
    "text_argsort": make_text_argsort,
    "scipy_bootstrap": make_scipy_bootstrap,
}


def measure(names: tuple[str, ...], rounds: int) -> dict[str, Found]:
    """Warms up all rivals and runs them in turn; prints and returns medians."""
    if SCALE.value == 1:
        given = (IMAGES, DIM.value, BOARDS, ANNOTATIONS.value)
    else:
        given = (IMAGES * SCALE.value, DIM.value, BOARDS[:2])
    tasks = [Task(name, *given) for name in names]
    workers = {task.name: Worker(task) for task in tasks}
    first = {name: worker.run() for name, worker in workers.items()}
    runs = [{name: worker.run() for name, worker in workers.items()} for _ in range(rounds)]
    for worker in workers.values():
        worker.stop()
    found = {}
    for name in names:
        each = [run[name] for run in runs] or [first[name]]
        seconds = statistics.median(run.seconds for run in each)
        cpu_seconds = statistics.median(run.cpu_seconds for run in each)
        last = each[-1]
        found[name] = Found(seconds, cpu_seconds, last.numbers, last.peak_mb)
        show(
            name,
            seconds=seconds,
            cpu_seconds=cpu_seconds,
            rounds=[round(run.seconds, 2) for run in each],
            first_run_seconds=first[name].seconds,
            peak_mb_beyond_embeddings=last.peak_mb,
        )
    return found


def compare(ours: dict[str, float], theirs: dict[str, float]) -> None:
    """Prints the largest differences; rounding may change one or two queries."""
    largest = {"queries": 0.0, "spearman": 0.0}
    for tag, value in theirs.items():
        difference = abs(ours[tag] - value)
        if "spearman" in tag:
            largest["spearman"] = max(largest["spearman"], difference)
        else:
            queries = ours[f"{tag.rsplit('/', 1)[0]}/queries"]
            largest["queries"] = max(largest["queries"], difference / 100 * queries)
    show("difference of shared numbers", count=len(theirs), **largest)
    assert largest["queries"] < 2.01, "more than two queries apart"
    assert largest["spearman"] < 1e-3, "correlations differ"


def show(figure: str, **values: Any) -> None:
    rounded = {k: round(v, 6) if isinstance(v, float) else v for k, v in values.items()}
    print(
        json.dumps({"figure": figure, "scale": SCALE.value, "dim": DIM.value, **rounded}),
        flush=True,
    )


def main(argv: list[str]) -> None:
    del argv
    found = measure(("suite", *LIMITS.value), ROUNDS.value)
    suite = found["suite"]
    for limit in LIMITS.value:
        show(
            f"suite / {limit}",
            ratio=suite.seconds / found[limit].seconds,
            cpu_ratio=suite.cpu_seconds / found[limit].cpu_seconds,
        )
    if not PEERS.value or SCALE.value > 1:
        return
    rivals = {}
    for name in RIVALS:  # one by one: the rankings take 10 GB
        rivals |= measure((name,), rounds=0)
    for name in ("suite", *LIMITS.value):  # what only computes the products shows the highest ratio
        show(
            f"rivals / {name}",
            ratio=sum(each.seconds for each in rivals.values()) / found[name].seconds,
            cpu_ratio=sum(each.cpu_seconds for each in rivals.values()) / found[name].cpu_seconds,
        )
    most = max(each.peak_mb for each in rivals.values())
    show("rivals / suite, memory", ratio=most / suite.peak_mb)
    numbers = {tag: value for each in rivals.values() for tag, value in each.numbers.items()}
    compare(suite.numbers, numbers)


if __name__ == "__main__":
    app.run(main)

"""Compares the evaluation suite with the matrix products that it cannot avoid.

    python -m tests.benchmarks.evaluation --annotations=FOLDER [--width=1792] [--rounds=3]

All benchmarks of the 5,000 images and 25,000 captions of COCO's test split, with their intervals,
and every product of two galleries once, of which a gallery with itself needs half. Both take turns;
with `taskset -c 0`, CPU seconds count for a busy machine.
"""

import argparse
import json
import resource
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.benchmarks.turns import compare, in_own_process
from xmodal.evals.evaluators.runner import compute_benchmarks
from xmodal.evals.labels.annotations import read_annotations
from xmodal.evals.labels.make import make_benchmarks
from xmodal.evals.reports.summary import summarize
from xmodal.evals.scores.sources import Embeddings

BENCHMARKS, BLOCK = ("coco5k", "coco1k", "cxc", "cxc_sits_only", "eccv", "pmrp"), 1024
PAIRS = (0, 1), (1, 1), (0, 0)  # Galleries that are compared.


def make_torch(lengths: list[list[int]], width: int, device: str) -> Callable[[], None]:
    """Returns a function that computes the products of random blocks of these lengths."""
    import torch

    galleries = [[torch.randn(n, width, device=device) for n in blocks] for blocks in lengths]

    def products() -> None:
        for left, right in PAIRS:
            for i, block in enumerate(galleries[left]):
                for other in galleries[right][i if left == right else 0 :]:
                    block @ other.T
        if device == "cuda":
            torch.cuda.synchronize()

    return products


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--annotations", required=True, help="folder of released label files")
    parser.add_argument("--width", type=int, default=1792, help="of the embeddings")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", type=int, help="bytes of scores that are kept")
    measure(**vars(parser.parse_args()))


def measure(
    annotations: str,
    width: int = 1792,
    rounds: int = 3,
    budget: int | None = None,
    device: str | None = None,
) -> None:
    """Prints the figures.

    Args:
      annotations: folder of released label files.
      width: of the embeddings.
      rounds: timed calls of both.
      budget: bytes of scores that are kept.
      device: where torch, in a process of its own, computes the same products; None for nowhere.
    """
    labels = read_annotations(annotations, "test")
    benchmarks = make_benchmarks(labels, BENCHMARKS)
    rng = np.random.default_rng(0)
    images = rng.standard_normal((len(labels.image_ids), width), np.float32)
    # A caption is its image plus strong noise.
    captions = 10 * rng.standard_normal((len(labels.caption_ids), width), np.float32)
    captions += np.repeat(images, len(captions) // len(images), axis=0)
    galleries = [
        [jnp.asarray(rows[i : i + BLOCK]) for i in range(0, len(rows), BLOCK)]
        for rows in (images, captions)
    ]
    multiply = jax.jit(lambda x, y: jnp.matmul(x, y.T, precision="highest"))

    def suite() -> None:
        items = labels.image_ids, images, labels.caption_ids, captions
        source = Embeddings("here", *items, "cosine")
        summarize(compute_benchmarks(source, labels, benchmarks, budget=budget), intervals=True)

    def products() -> None:
        for left, right in PAIRS:
            for i, block in enumerate(galleries[left]):
                for other in galleries[right][i if left == right else 0 :]:
                    multiply(block, other).block_until_ready()

    calls: dict[str, Callable[[], Any]] = {"suite": suite, "products": products}
    if device is not None:
        lengths = [list(map(len, blocks)) for blocks in galleries]
        calls["torch_products"] = in_own_process(make_torch, lengths, width, device)
    compare("evaluation", calls, rounds=rounds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({"figure": "evaluation_memory", "peak_gib": round(peak, 1)}), flush=True)


if __name__ == "__main__":
    main()

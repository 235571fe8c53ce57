"""Compares the evaluation suite with the matrix products that it cannot avoid.

    python -m tests.benchmarks.evaluation --annotations=FOLDER [--width=1792] [--rounds=3]

All benchmarks of the 5,000 images and 25,000 captions of COCO's test split, with their intervals,
and every product of two galleries once, of which a gallery with itself needs half. Both take turns;
with `taskset -c 0`, CPU seconds count for a busy machine.
"""

import argparse
import resource

import jax
import jax.numpy as jnp
import numpy as np

from tests.benchmarks.turns import compare
from xmodal.evals.evaluators.runner import compute_benchmarks
from xmodal.evals.labels.annotations import read_annotations
from xmodal.evals.labels.make import make_benchmarks
from xmodal.evals.reports.summary import summarize
from xmodal.evals.scores.sources import Embeddings

BENCHMARKS, BLOCK = ("coco5k", "coco1k", "cxc", "cxc_sits_only", "eccv", "pmrp"), 1024


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--annotations", required=True, help="folder of released label files")
    parser.add_argument("--width", type=int, default=1792, help="of the embeddings")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", type=int, help="bytes of scores that are kept")
    args = parser.parse_args()
    labels = read_annotations(args.annotations, "test")
    benchmarks = make_benchmarks(labels, BENCHMARKS)
    rng = np.random.default_rng(0)
    images = rng.standard_normal((len(labels.image_ids), args.width), np.float32)
    # A caption is its image plus strong noise.
    captions = 10 * rng.standard_normal((len(labels.caption_ids), args.width), np.float32)
    captions += np.repeat(images, len(captions) // len(images), axis=0)
    galleries = [
        [jnp.asarray(rows[i : i + BLOCK]) for i in range(0, len(rows), BLOCK)]
        for rows in (images, captions)
    ]
    multiply = jax.jit(lambda x, y: jnp.matmul(x, y.T, precision="highest"))

    def suite() -> None:
        items = labels.image_ids, images, labels.caption_ids, captions
        source = Embeddings("here", *items, "cosine")
        summarize(
            compute_benchmarks(source, labels, benchmarks, budget=args.budget), intervals=True
        )

    def products() -> None:
        for left, right in ((0, 1), (1, 1), (0, 0)):
            for i, block in enumerate(galleries[left]):
                for other in galleries[right][i if left == right else 0 :]:
                    multiply(block, other).block_until_ready()

    compare("evaluation", {"suite": suite, "products": products}, rounds=args.rounds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory with the embeddings: {peak:.1f} GiB")


if __name__ == "__main__":
    main()

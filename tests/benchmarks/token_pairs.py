"""Compares SCAN, SGR and SAF with torch modules that loop over captions, as the authors' codes do.

    python -m tests.benchmarks.token_pairs [--family=saf] [--images=100] [--captions=500]
        [--rounds=3] [--threads=2]

The whole matrix as an evaluation computes it. Sizes are the papers': 36 regions, captions of 7 to
25 tokens, 1,024 numbers each. Both take turns in one process; `taskset -c 0` with `--threads=1`
leaves out CPU seconds that threads spend waiting for one another.
"""

import argparse
import functools
import pathlib
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import torch

from tests.benchmarks.turns import compare
from xmodal.core import mesh as mesh_lib
from xmodal.evals.scores import score_blocks
from xmodal.evals.scores.ragged_tokens import RaggedTokens
from xmodal.evals.scores.score_blocks import HostItems, compute_score_matrix
from xmodal.similarity import make_similarity

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "pretrained"))
import published_attention as published

REGIONS, WIDTH, SIZE, LONGEST = 36, 1024, 256, 25
FAMILIES: dict[str, dict[str, Any]] = {
    "scan_t2i": {"name": "scan"},
    "scan_i2t": {"name": "scan", "queries": "image", "attention_scale": 4.0, "pool_scale": 20.0},
    "saf": {"name": "saf", "width": SIZE, "gate_norm": "batch"},
    "sgr": {"name": "sgr", "width": SIZE},
}


def make_items(lengths: np.ndarray, seed: int) -> HostItems:
    """Items with random unit tokens."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((lengths.sum(), WIDTH), np.float32)
    vectors = rng.standard_normal((len(lengths), WIDTH), np.float32)
    values, vectors = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (values, vectors))
    return HostItems(vectors, RaggedTokens(values, lengths))


def make_ours(family: str, images: HostItems, captions: HostItems) -> Callable[[], None]:
    """The function that scores all pairs as an evaluation does."""
    similarity = make_similarity(FAMILIES[family])
    items = images.block(np.arange(1), REGIONS), captions.block(np.arange(1), 12)
    params = similarity.init(jax.random.key(0), *items)
    mesh = mesh_lib.make_mesh(jax.devices()[:1])

    def score() -> None:
        with tempfile.TemporaryDirectory() as folder:
            compute_score_matrix(similarity, params, images, captions, mesh=mesh, folder=folder)

    return score


def make_torch(family: str, images: HostItems, captions: HostItems) -> Callable[[], None]:
    """See `make_ours`."""
    sizes = {"channels": 1, "rows": 2}
    if family.startswith("scan"):
        options = {
            "agg_func": "LogSumExp",
            "raw_feature_norm": "clipped_l2norm",
            "lambda_softmax": FAMILIES[family].get("attention_scale", 9.0),
            "lambda_lse": FAMILIES[family].get("pool_scale", 6.0),
            "cross_attn": family.removeprefix("scan_"),
        }
        _, functions = published.make_scan(torch, options, **sizes)
    else:
        modules, functions = published.make_sgraf(torch, family, width=WIDTH, size=SIZE, **sizes)
        for module in modules:
            module.eval()
    regions = torch.tensor(images.tokens.pad(REGIONS)[0])
    ends = np.cumsum(captions.tokens.lengths)[:-1]
    words = [torch.tensor(x) for x in np.split(captions.tokens.values, ends)]
    return torch.no_grad()(functools.partial(functions.score, regions, words))


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--family", choices=FAMILIES)
    for name, default in {"images": 100, "captions": 500, "rounds": 3, "threads": 2}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    score_blocks._MANY_PAIRS = 0
    torch.set_num_threads(args.threads)
    # Like COCO's captions, which have 12.5 tokens on average, with special tokens.
    drawn = np.round(np.random.default_rng(0).gamma(6.0, 1.0, args.captions) + 6.5)
    captions = make_items(np.clip(drawn, 7, LONGEST).astype(np.int64), seed=2)
    images = make_items(np.full(args.images, REGIONS), seed=1)
    for family in [args.family] if args.family else FAMILIES:
        makers = {"ours": make_ours, "torch": make_torch}
        calls = {name: make(family, images, captions) for name, make in makers.items()}
        compare(family, calls, rounds=args.rounds, count=args.images * args.captions)


if __name__ == "__main__":
    main()

"""Compares SCAN, SGR and SAF with torch modules that loop over captions, as the authors' codes do.

    python -m tests.benchmarks.token_scores [--family=saf] [--images=100] [--captions=500]
        [--rounds=3] [--threads=2] [--batch_size=128]

Sizes are the papers': 36 regions, captions of 7 to 25 tokens, 1,024 numbers each; captions are
padded as in an evaluation of COCO. Both sides take turns in one process. On a busy machine,
`taskset -c 0` with `--threads=1` gives CPU seconds without those that threads spend waiting for one
another. Prints two lines of JSON per family: pairs per second of the whole matrix as an evaluation
computes it, medians of wall and of CPU seconds, and the share of a bare matrix product's FLOPs;
and, as compiled, the temporaries of the gradient of a loss with the engine of the configs, with
`dense`, and, for SCAN, with the attended vectors of all pairs, which the authors' code holds.
"""

import argparse
import functools
import json
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from xmodal.core import mesh as mesh_lib
from xmodal.evals.scores import score_blocks
from xmodal.evals.scores.ragged_tokens import RaggedTokens
from xmodal.evals.scores.score_blocks import HostItems, compute_score_matrix
from xmodal.losses import LOSSES, Context
from xmodal.models import Embedding
from xmodal.similarity import Similarity, make_similarity

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "pretrained"))
import published_attention as published

REGIONS, WIDTH, SIZE, LONGEST = 36, 1024, 256, 25
FAMILIES: dict[str, dict[str, Any]] = {
    "scan_t2i": {"name": "scan"},
    "scan_i2t": {"name": "scan", "queries": "image", "attention_scale": 4.0, "pool_scale": 20.0},
    "saf": {"name": "saf", "width": SIZE, "gate_norm": "batch"},
    "sgr": {"name": "sgr", "width": SIZE},
}
SCAN = {"agg_func": "LogSumExp", "raw_feature_norm": "clipped_l2norm"}


def make_items(count: int, lengths: np.ndarray, seed: int) -> HostItems:
    """Items with random unit tokens."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((lengths.sum(), WIDTH), np.float32)
    vectors = rng.standard_normal((count, WIDTH), np.float32)
    values, vectors = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (values, vectors))
    return HostItems(vectors, RaggedTokens(values, lengths))


def draw_lengths(captions: int) -> np.ndarray:
    """Lengths like those of COCO's captions, which have 12.5 tokens on average, with markers."""
    drawn = np.round(np.random.default_rng(0).gamma(6.0, 1.0, captions) + 6.5)
    return np.clip(drawn, 7, LONGEST).astype(np.int64)


def make_torch(family: str, images: HostItems, captions: HostItems) -> Callable[[], Any]:
    """The function that scores all pairs in torch."""
    sizes = {"channels": 1, "rows": 2}
    if family.startswith("scan"):
        options = FAMILIES[family]
        scales = {
            "lambda_softmax": options.get("attention_scale", 9.0),
            "lambda_lse": options.get("pool_scale", 6.0),
        }
        options = SCAN | scales | {"cross_attn": family.removeprefix("scan_")}
        _, functions = published.make_scan(torch, options, **sizes)
    else:
        modules, functions = published.make_sgraf(torch, family, width=WIDTH, size=SIZE, **sizes)
        for module in modules:
            module.eval()
    regions = torch.tensor(images.tokens.pad(REGIONS)[0])
    ends = np.cumsum(captions.tokens.lengths)[:-1]
    words = [torch.tensor(x) for x in np.split(captions.tokens.values, ends)]

    def score() -> None:
        with torch.no_grad():
            functions.score(regions, words)

    return score


def score_all(similarity: Similarity, params: Any, images: HostItems, captions: HostItems) -> None:
    """Scores all pairs as an evaluation does."""
    mesh = mesh_lib.make_mesh(jax.devices()[:1])
    with tempfile.TemporaryDirectory() as folder:
        compute_score_matrix(similarity, params, images, captions, mesh=mesh, folder=folder)


def time_in_turns(
    calls: dict[str, Callable[[], Any]], rounds: int
) -> dict[str, tuple[float, float]]:
    """Medians of wall and CPU seconds, after a call of each that is not timed."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for number in range(rounds + 1):
        for name, call in calls.items():
            wall, cpu = time.perf_counter(), time.process_time()
            call()
            if number:
                times[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    return {
        name: tuple(statistics.median(each) for each in zip(*found, strict=True))
        for name, found in times.items()
    }


def engine_of(family: str) -> str:
    """The engine of the family's config."""
    return "auto:64" if family.startswith("scan") else "auto:512"


def compile_loss(family: str, batch_size: int, engine: str) -> int:
    """Bytes of temporaries of a loss and its gradient."""
    similarity = make_similarity(FAMILIES[family])
    ids = np.arange(batch_size, dtype=np.int32)

    def view(length: int) -> Embedding:
        tokens = jnp.zeros((batch_size, length, WIDTH))
        extras = {"tokens": tokens, "mask": jnp.ones((batch_size, length), bool)}
        return Embedding(jnp.zeros((batch_size, WIDTH)), extras=extras)

    views = jax.eval_shape(lambda: (view(REGIONS), view(LONGEST)))
    params = jax.eval_shape(functools.partial(similarity.init, jax.random.key(0)), *views)

    def loss(views: Any, params: Any) -> jax.Array:
        context = Context(ids, ids, similarity, params)
        return LOSSES["triplet"].function(*views, context, engine=engine)[0]

    gradient = jax.jit(jax.grad(loss, argnums=(0, 1), allow_int=True))
    return gradient.lower(views, params).compile().memory_analysis().temp_size_in_bytes


def compile_attended(family: str, batch_size: int) -> int:
    """Bytes of temporaries of SCAN with the attended vectors of all pairs, as the authors' code."""
    options = FAMILIES[family]
    scale = options.get("attention_scale", 9.0)
    pool_scale = options.get("pool_scale", 6.0)

    def loss(context: jax.Array, queries: jax.Array) -> jax.Array:
        products = jax.nn.leaky_relu(jnp.einsum("acw,bqw->abcq", context, queries), 0.1)
        products /= jnp.linalg.norm(products, axis=3, keepdims=True) + 1e-8
        weights = jax.nn.softmax(scale * products, axis=2)
        attended = jnp.einsum("abcq,acw->abqw", weights, context)
        lengths = (jnp.linalg.norm(each, axis=-1) for each in (attended, queries))
        cosines = jnp.einsum("abqw,bqw->abq", attended, queries) / (next(lengths) * next(lengths))
        scores = jax.nn.logsumexp(pool_scale * cosines, axis=2) / pool_scale
        positives, others = jnp.diag(scores), jnp.where(jnp.eye(batch_size) > 0, -1.0, scores)
        hardest = jnp.stack([others.max(axis) for axis in (0, 1)])
        return jnp.sum(jax.nn.relu(0.2 + hardest - positives))

    tokens = [
        jax.ShapeDtypeStruct((batch_size, length, WIDTH), jnp.float32)
        for length in (REGIONS, LONGEST)
    ]
    tokens = tokens[::-1] if options.get("queries") == "image" else tokens
    gradient = jax.jit(jax.grad(loss, argnums=(0, 1)))
    return gradient.lower(*tokens).compile().memory_analysis().temp_size_in_bytes


def main() -> None:
    """Prints the figures."""
    args = _parse()
    score_blocks._MANY_PAIRS = 0
    torch.set_num_threads(args.threads)
    lengths = draw_lengths(args.captions)
    images = make_items(args.images, np.full(args.images, REGIONS), seed=1)
    captions = make_items(args.captions, lengths, seed=2)
    left = jnp.ones((2048, WIDTH))
    right = jnp.ones((WIDTH, SIZE))
    multiply = jax.jit(lambda left, right: left @ right)
    for family in [args.family] if args.family else FAMILIES:
        similarity = make_similarity(FAMILIES[family])
        items = [images.block(np.arange(1), REGIONS), captions.block(np.arange(1), 12)]
        params = similarity.init(jax.random.key(0), *items)
        calls = {
            "torch": make_torch(family, images, captions),
            "ours": functools.partial(score_all, similarity, params, images, captions),
            "product": lambda: [multiply(left, right).block_until_ready() for _ in range(50)],
        }
        found = time_in_turns(calls, args.rounds)
        pairs = args.images * args.captions
        sides = [
            jax.eval_shape(functools.partial(similarity.prepare, params=params), each)
            for each in items
        ]
        flops = similarity.cost(*sides).flops * lengths.mean() / 12
        bare = 50 * 2 * left.size * SIZE / found["product"][1]
        print(
            json.dumps(
                {
                    "figure": f"scores of {family}",
                    "pairs_per_second": round(pairs / found["ours"][0]),
                    "pairs_per_cpu_second": round(pairs / found["ours"][1]),
                    "torch_pairs_per_cpu_second": round(pairs / found["torch"][1]),
                    "ratio": round(found["torch"][0] / found["ours"][0], 2),
                    "ratio_of_cpu": round(found["torch"][1] / found["ours"][1], 2),
                    "share_of_product": round(flops * pairs / found["ours"][1] / bare, 2),
                }
            ),
            flush=True,
        )
        if args.batch_size:
            tiles, dense = (
                compile_loss(family, args.batch_size, engine)
                for engine in (engine_of(family), "dense")
            )
            figures = {"figure": f"training step of {family}", "batch_size": args.batch_size}
            figures |= {"tiles_mb": round(tiles / 1e6), "dense_mb": round(dense / 1e6)}
            if family.startswith("scan"):
                figures["attended_mb"] = round(compile_attended(family, args.batch_size) / 1e6)
            print(json.dumps(figures | {"of_dense": round(tiles / dense, 3)}), flush=True)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", choices=FAMILIES)
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--captions", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2, help="of torch")
    parser.add_argument("--batch_size", type=int, default=128, help="0 for no training step")
    return parser.parse_args()


if __name__ == "__main__":
    main()

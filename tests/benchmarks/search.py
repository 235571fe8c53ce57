"""Compares approximate search with exact search on synthetic embeddings.

    python -m tests.benchmarks.search [--count=1000000] [--dim=128]

Embeddings of real models use only a few of their dimensions. To imitate them, these are a random
linear map of 24 normal numbers, plus noise. Queries are other points of the same distribution.
Prints one line of JSON; times are per query, for 1,000 queries at once and for a single one.
"""

import json
import time

import numpy as np
from absl import app, flags

COUNT = flags.DEFINE_integer("count", 1_000_000, "Items.")
DIM = flags.DEFINE_integer("dim", 128, "Width of the embeddings.")
QUERIES = flags.DEFINE_integer("queries", 1000, "Queries.")
RECALL = flags.DEFINE_float("recall", 0.95, "Share of the exact top ten to find.")
TOP, FACTORS, NOISE = 10, 24, 0.3


def make_vectors(count: int, seed: int) -> np.ndarray:
    """Synthetic embeddings, float32 [count, dim]."""
    width = DIM.value
    mixing = np.random.default_rng(0).normal(size=(FACTORS, width)).astype(np.float32)
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((count, FACTORS), np.float32) @ mixing
    vectors += NOISE * np.sqrt(FACTORS) * rng.standard_normal((count, width), np.float32)
    return vectors


def seconds(search, queries: np.ndarray) -> float:
    """Duration of a call in seconds, after a warm-up call with the same shape."""
    search(queries, TOP)
    started = time.perf_counter()
    search(queries, TOP)
    return time.perf_counter() - started


def main(argv: list[str]) -> None:
    """Prints recall and times."""
    del argv
    from xmodal.api.search.approximate import ApproximateSearch, Effort, build_lists, compute_recall
    from xmodal.api.search.exact import ExactSearch, Scorer
    from xmodal.similarity import make_similarity

    items, queries = make_vectors(COUNT.value, seed=1), make_vectors(QUERIES.value, seed=2)
    tuning = make_vectors(256, seed=3)
    scorer = Scorer(make_similarity({"name": "cosine"}), {}, items_left=False)
    exact = ExactSearch(scorer, items)
    started = time.perf_counter()
    lists = build_lists("cosine", items)
    built = time.perf_counter() - started
    approximate = ApproximateSearch(lists, "cosine", scorer, items, Effort())
    effort, _ = approximate.tune(tuning, exact(tuning, TOP)[1], RECALL.value)
    one = queries[:1]
    found = {
        "count": COUNT.value,
        "dim": DIM.value,
        "recall_at_10": compute_recall(approximate(queries, TOP)[1], exact(queries, TOP)[1]),
        "lists": lists.nlist,
        "probes": effort.probes,
        "candidates": effort.candidates,
        "build_seconds": built,
        "exact_ms": 1000 * seconds(exact, queries) / len(queries),
        "approximate_ms": 1000 * seconds(approximate, queries) / len(queries),
        "exact_one_ms": 1000 * seconds(exact, one),
        "approximate_one_ms": 1000 * seconds(approximate, one),
    }
    print(json.dumps({name: round(value, 3) for name, value in found.items()}))


if __name__ == "__main__":
    app.run(main)

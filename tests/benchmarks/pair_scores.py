"""Compares BLIP's pair scorer with transformers' class and with bare matrix products.

    python -m tests.benchmarks.pair_scores [--text_tokens=35] [--images=2 --texts=32]

Random weights of the base size, 577 tokens per image, every text with every image, float32.
`theirs` is transformers' text encoder with cross-attention (extra `parity`), which computes keys
and values of the image again for every pair, in batches of eight. `bare` is a matrix product of
the shape of each linear layer. All take turns; prints a line of JSON with medians over rounds.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np

from xmodal.evals.pair_scores import PairProgram, PairScores, Tokens
from xmodal.models import make_dual_encoder
from xmodal.runs.pair_functions import make_pair_functions

WIDTH, DEPTH, HEADS, MLP, IMAGE_TOKENS, WORDS = 768, 12, 12, 3072, 577, 30522
SIZES = {"width": WIDTH, "depth": DEPTH, "heads": HEADS, "mlp_dim": MLP}
THEIR_BATCH = 8


def main() -> None:
    """Prints the figures."""
    args = _parse()
    rng = np.random.default_rng(0)
    images = rng.normal(size=(args.images, IMAGE_TOKENS, WIDTH)).astype(np.float32)
    ids = rng.integers(1, WORDS, (args.texts, args.text_tokens))
    pairs = args.images * args.texts
    calls = {
        "ours": make_ours(images, ids),
        "theirs": _theirs(images, ids),
        "bare": _bare(args.images, args.texts, args.text_tokens),
    }
    for call in calls.values():
        call()  # Compiles.
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(args.rounds):
        for name, call in calls.items():
            started = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - started)
    figures = {"figure": "blip_pairs", "pairs": pairs, "text_tokens": args.text_tokens}
    for name, each in seconds.items():
        figures[f"{name}_pairs_per_second"] = round(pairs / statistics.median(each), 2)
    for name in ("theirs", "bare"):
        ratios = [one / other for one, other in zip(seconds["ours"], seconds[name], strict=True)]
        figures[f"time_of_{name}"] = round(statistics.median(ratios), 3)
    print(json.dumps(figures), flush=True)


def make_ours(
    images: np.ndarray, ids: np.ndarray, sizes: Mapping[str, int] = SIZES
) -> Callable[[], object]:
    """Scores of all pairs of images [I, T, W] and texts [J, T] by a scorer of `sizes`."""
    model = make_dual_encoder(
        {
            "image": {
                "encoder": {"name": "precomputed", "features": images.shape[1:]},
                "head": {"name": "mean"},
                "projection": {"width": 256},
            },
            "text": {
                "encoder": {"name": "bert", "vocab_size": WORDS, "types": 0} | dict(sizes),
                "head": {"name": "first"},
                "projection": {"width": 256},
            },
            "pair_scorer": {"name": "cross_attention"},
        }
    )
    mask = np.ones(ids.shape, np.int32)
    inputs = {
        "image": {"image": images[:1]},
        "text": {"text_ids": ids[:1].astype(np.int32), "text_mask": mask[:1]},
    }
    params, _ = jax.jit(lambda key: model.init(key, inputs))(jax.random.key(0))
    functions = make_pair_functions(model)
    assert functions is not None
    program = PairProgram(functions, None)
    of_images = Tokens(images, np.ones(images.shape[:2], bool))
    of_texts = Tokens(ids[..., None].astype(np.int32), mask > 0)
    at = np.divmod(np.arange(len(images) * len(ids)), len(ids))
    return lambda: PairScores(program, params, of_images, of_texts).pairs(*at)


def _theirs(images: np.ndarray, ids: np.ndarray) -> Callable[[], object]:
    import torch
    import transformers

    config = transformers.BlipTextConfig(
        vocab_size=WORDS, hidden_size=WIDTH, encoder_hidden_size=WIDTH, num_hidden_layers=DEPTH,
        num_attention_heads=HEADS, intermediate_size=MLP, max_position_embeddings=512,
    )  # fmt: skip
    model = transformers.BlipTextModel(config, add_pooling_layer=False).eval()
    head = torch.nn.Linear(WIDTH, 2)
    tokens, words = torch.tensor(images), torch.tensor(ids)

    def call() -> None:
        with torch.no_grad():
            for image in tokens:
                for start in range(0, len(words), THEIR_BATCH):
                    part = words[start : start + THEIR_BATCH]
                    found = model(
                        input_ids=part,
                        attention_mask=torch.ones_like(part),
                        encoder_hidden_states=image.expand(len(part), -1, -1),
                        encoder_attention_mask=torch.ones(len(part), len(image)),
                    )
                    head(found.last_hidden_state[:, 0])

    return call


def _bare(images: int, texts: int, tokens: int) -> Callable[[], object]:
    """Products of all linear layers: the first self-attention once per text, the rest per pair."""
    rng = np.random.default_rng(0)
    square, wide = (
        jnp.asarray(rng.normal(size=(WIDTH, width)), jnp.float32) for width in (WIDTH, MLP)
    )
    rows = {
        "image": jnp.ones((images * IMAGE_TOKENS, WIDTH)),
        "text": jnp.ones((texts * tokens, WIDTH)),
        "pair": jnp.ones((images * texts * tokens, WIDTH)),
    }
    # (rows, matrix, times).
    products = [("image", square, 2 * DEPTH), ("text", square, 4)]
    products += [("pair", square, 4 * (DEPTH - 1) + 2 * DEPTH), ("pair", wide, 2 * DEPTH)]
    multiply = jax.jit(jnp.matmul)

    def call() -> None:
        for name, matrix, times in products:
            for _ in range(times):
                jax.block_until_ready(multiply(rows[name], matrix))

    return call


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name, default in (("text_tokens", 35), ("images", 2), ("texts", 32), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser.parse_args()


if __name__ == "__main__":
    main()

"""Compares the scores of BLIP's pairs with those of transformers' class in torch.

    python -m tests.benchmarks.blip_pairs [--text_tokens=13] [--texts=64]

One image of 577 tokens and texts of one length, base size, random weights, float32. transformers
computes keys and values of the image again for every pair, in batches of eight. Both take turns;
`taskset -c 0` leaves out CPU seconds that threads spend waiting for one another.
"""

import argparse
import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import torch
import transformers

from tests.benchmarks.turns import compare
from xmodal.evals.scores import pair_scores
from xmodal.evals.scores.pair_scores import PairProgram, PairScores
from xmodal.evals.scores.ragged_tokens import RaggedTokens
from xmodal.models import make_dual_encoder
from xmodal.train.pair_functions import make_pair_functions

IMAGE_TOKENS, WIDTH, DEPTH, HEADS, MLP, WORDS, BATCH = 577, 768, 12, 12, 3072, 30522, 8
SIZES = {"width": WIDTH, "depth": DEPTH, "heads": HEADS, "mlp_dim": MLP, "dtype": "float32"}
MODEL: dict[str, Any] = {
    "image": {
        "encoder": {"name": "precomputed", "features": (IMAGE_TOKENS, WIDTH)},
        "head": {"name": "mean"},
        "projection": {"width": 256},
    },
    "text": {
        "encoder": {"name": "bert", "vocab_size": WORDS, "types": 0, **SIZES},
        "head": {"name": "cls"},
        "projection": {"width": 256},
    },
    "cross_encoder": {"name": "cross_attention"},
}


def make_ours(image: np.ndarray, ids: np.ndarray) -> Callable[[], Any]:
    """Scores of an image [1, R, W] with texts [J, T]."""
    encoder = make_dual_encoder(MODEL)
    words = np.ones((1, ids.shape[1]), np.int32)
    inputs = {"image": {"image": image}, "text": {"text_ids": words, "text_mask": words}}
    params, _ = jax.jit(lambda key: encoder.init(key, inputs))(jax.random.key(0))
    functions = make_pair_functions(encoder)
    assert functions is not None
    bound = functions.bind(params)  # Once, as their model is made once.
    program = PairProgram(dataclasses.replace(functions, bind=lambda params: params), None)
    images = RaggedTokens.from_padded(image, np.ones(image.shape[:2]))
    texts = RaggedTokens.from_padded(ids[..., None].astype(np.int32), np.ones(ids.shape))
    at = np.zeros(len(ids), np.int32), np.arange(len(ids), dtype=np.int32)
    return lambda: PairScores(program, bound, images, texts).pairs(*at)


def make_torch(image: np.ndarray, ids: np.ndarray) -> Callable[[], None]:
    """See `make_ours`."""
    config = transformers.BlipTextConfig(
        vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=DEPTH, num_attention_heads=HEADS,
        intermediate_size=MLP, encoder_hidden_size=WIDTH,
    )  # fmt: skip
    scorer = transformers.BlipTextModel(config, add_pooling_layer=False).eval()
    head, tokens, words = torch.nn.Linear(WIDTH, 2), torch.tensor(image), torch.tensor(ids)

    @torch.no_grad()
    def score() -> None:
        for part in words.split(BATCH):
            found = scorer(
                input_ids=part,
                attention_mask=torch.ones_like(part),
                encoder_hidden_states=tokens.expand(len(part), -1, -1),
                encoder_attention_mask=torch.ones(len(part), IMAGE_TOKENS),
            )
            head(found.last_hidden_state[:, 0])

    return score


def main() -> None:
    """Prints the figures; the ratio is for as many pairs of both."""
    parser = argparse.ArgumentParser()
    for name, default in {"text_tokens": 13, "texts": 64, "rounds": 3}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    pair_scores._MANY_PAIRS = 0
    rng = np.random.default_rng(0)
    image = rng.normal(size=(1, IMAGE_TOKENS, WIDTH)).astype(np.float32)
    ids = rng.integers(1, WORDS, (args.texts, args.text_tokens))
    calls = {"ours": make_ours(image, ids), "transformers": make_torch(image, ids)}
    compare("blip_pairs", calls, rounds=args.rounds, count=args.texts, tokens=args.text_tokens)


if __name__ == "__main__":
    main()

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
from xmodal.models import Devices, make_dual_encoder
from xmodal.models.basics import ONE_CPU
from xmodal.train.pair_functions import make_pair_functions

IMAGE_TOKENS, WORDS = 577, 30522
SIZES: dict[str, Any] = {"width": 768, "depth": 12, "heads": 12, "mlp_dim": 3072}


def make_ours(
    image: np.ndarray, ids: np.ndarray, sizes: dict[str, Any] = SIZES, devices: Devices = ONE_CPU
) -> Callable[[], Any]:
    """Scores of an image [1, R, W] with texts [J, T], by a model of these settings."""
    encoder = {"name": "bert", "vocab_size": WORDS, "types": 0, **sizes}
    pixels = {"name": "precomputed", "features": image.shape[1:]}
    towers = {
        "image": {"encoder": pixels, "head": {"name": "mean"}, "projection": {"width": 256}},
        "text": {"encoder": encoder, "head": {"name": "cls"}, "projection": {"width": 256}},
    }
    model = make_dual_encoder(towers | {"cross_encoder": {"name": "cross_attention"}}, devices)
    words = np.ones((1, ids.shape[1]), np.int32)
    inputs = {"image": {"image": image}, "text": {"text_ids": words, "text_mask": words}}
    params, _ = jax.jit(lambda key: model.init(key, inputs))(jax.random.key(0))
    functions = make_pair_functions(model)
    assert functions is not None
    bound = functions.bind(params)  # Once, as their model is made once.
    program = PairProgram(dataclasses.replace(functions, bind=lambda params: params), None)
    images = RaggedTokens.from_padded(image, np.ones(image.shape[:2]))
    texts = RaggedTokens.from_padded(ids[..., None].astype(np.int32), np.ones(ids.shape))
    at = np.zeros(len(ids), np.int32), np.arange(len(ids), dtype=np.int32)
    return lambda: PairScores(program, bound, images, texts).pairs(*at)


def make_torch(
    image: np.ndarray,
    ids: np.ndarray,
    sizes: dict[str, Any] = SIZES,
    device: str = "cpu",
    backend: str | None = None,
    batch: int = 8,
) -> Callable[[], None]:
    """See `make_ours`, `efficientnet_step.make_torch` for `backend`; `batch` texts per call."""
    width = sizes["width"]
    config = transformers.BlipTextConfig(
        vocab_size=WORDS, hidden_size=width, num_hidden_layers=sizes["depth"],
        num_attention_heads=sizes["heads"], intermediate_size=sizes["mlp_dim"],
        encoder_hidden_size=width,
    )  # fmt: skip
    scorer = transformers.BlipTextModel(config, add_pooling_layer=False).eval().to(device)
    head, tokens = torch.nn.Linear(width, 2).to(device), torch.tensor(image, device=device)
    compute = torch.compile(scorer, backend=backend) if backend else scorer

    @torch.no_grad()
    def score() -> None:
        with torch.autocast(device, torch.bfloat16, enabled=backend is not None):
            for part in torch.tensor(ids, device=device).split(batch):
                found = compute(
                    input_ids=part,
                    attention_mask=torch.ones_like(part),
                    encoder_hidden_states=tokens.expand(len(part), -1, -1),
                    encoder_attention_mask=torch.ones(part.shape[0], tokens.shape[1]).to(device),
                )
                scores = head(found.last_hidden_state[:, 0])
        scores.cpu()  # Waits for the device.

    return score


def main() -> None:
    """Prints the figures; the ratio is for as many pairs of both."""
    parser = argparse.ArgumentParser()
    for name, default in {"text_tokens": 13, "texts": 64, "rounds": 3}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    pair_scores._MANY_PAIRS = 0
    rng = np.random.default_rng(0)
    image = rng.normal(size=(1, IMAGE_TOKENS, SIZES["width"])).astype(np.float32)
    ids = rng.integers(1, WORDS, (args.texts, args.text_tokens))
    calls = {"ours": make_ours(image, ids), "transformers": make_torch(image, ids)}
    compare("blip_pairs", calls, rounds=args.rounds, count=args.texts, tokens=args.text_tokens)


if __name__ == "__main__":
    main()

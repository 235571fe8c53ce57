"""Compares pair scorers with transformers' classes and with bare matrix products.

    python -m tests.benchmarks.pair_scores [--model=blip] [--text_tokens=35] [--images=1 --texts=64]
        [--captions=FILE --vocabulary=VOCAB]

BLIP (577 image tokens) and ViLT (193) of the base size with random weights, every text with every
image, float32, in blocks of a large gallery. With `--captions`, one on each line, texts have the
lengths of randomly chosen captions, as BLIP cleans and cuts them, in the words of VOCAB, the
`vocab.txt` of bert-base-uncased. `theirs` is transformers' class (extra `parity`), which computes
keys and values of the image again for every pair, in batches of `--their_batch` pairs, each padded
to its longest text; it scores the first image with the first `--their_texts`. `bare` are the matrix
products that a score needs, without padding. All take turns; prints a line of JSON with medians
over rounds of CPU seconds: `taskset -c 0` leaves out those that threads spend waiting for one
another.
"""

import argparse
import dataclasses
import json
import pathlib
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xmodal.data.text.text_config import TextConfig
from xmodal.data.text.tokenizer_files import read_vocabulary
from xmodal.data.text.tokenizers import make_tokenizer
from xmodal.evals.scores import pair_scores
from xmodal.evals.scores.pair_scores import PairProgram, PairScores, Tokens
from xmodal.models import DualEncoder, make_dual_encoder
from xmodal.train.pair_functions import make_pair_functions

WIDTH, DEPTH, HEADS, MLP, WORDS = 768, 12, 12, 3072, 30522
SIZES = {"width": WIDTH, "depth": DEPTH, "heads": HEADS, "mlp_dim": MLP}
IMAGE_TOKENS = {"blip": 577, "vilt": 193}


def main() -> None:
    """Prints the figures."""
    args = _parse()
    rng = np.random.default_rng(0)
    images = rng.normal(size=(args.images, IMAGE_TOKENS[args.model], WIDTH)).astype(np.float32)
    lengths = np.full(args.texts, args.text_tokens)
    if args.captions:
        lengths = rng.choice(_count_tokens(args.captions, args.vocabulary), args.texts, False)
    pair_scores._MANY_PAIRS = 0
    ids = rng.integers(1, WORDS, (args.texts, lengths.max()))
    mask = np.arange(lengths.max()) < lengths[:, None]
    pairs, their_texts = args.images * args.texts, min(args.their_texts, args.texts)
    calls = {
        "ours": (make_ours(images, ids, mask=mask, model=args.model), pairs),
        "theirs": (
            _theirs(args.model, images[0], ids[:their_texts], mask[:their_texts], args.their_batch),
            their_texts,
        ),
        "bare": (_bare(args.model, args.images, lengths), pairs),
    }
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(args.rounds + 1):  # The first compiles.
        for name, (call, count) in calls.items():
            started = time.process_time()
            call()
            if number:
                seconds[name].append((time.process_time() - started) / count)
    figures = {"figure": f"{args.model}_pairs", "pairs": pairs, "text_tokens": lengths.mean()}
    for name, each in seconds.items():
        figures[f"{name}_ms_per_pair"] = round(1000 * statistics.median(each), 2)
    for name in ("theirs", "bare"):
        ratios = [one / other for one, other in zip(seconds["ours"], seconds[name], strict=True)]
        figures[f"time_of_{name}"] = round(statistics.median(ratios), 3)
    print(json.dumps(figures), flush=True)


def make_model(
    name: str, image_tokens: int, sizes: Mapping[str, Any] = SIZES, dtype: str = "float32"
) -> DualEncoder:
    """Returns BLIP or ViLT after the image tower, whose tokens are given."""
    sizes = {**sizes, "dtype": dtype}
    image = {"encoder": {"name": "precomputed", "features": (image_tokens, sizes["width"])}}
    if name == "vilt":
        text = {"encoder": {"name": "token_ids", "vocab_size": WORDS}, "head": {"name": "none"}}
        scorer: dict[str, Any] = {"name": "single_stream", **sizes}
        return make_dual_encoder(
            {"image": image | {"head": {"name": "none"}}, "text": text, "pair_scorer": scorer}
        )
    encoder = {"name": "bert", "vocab_size": WORDS, "types": 0, **sizes}
    text = {"encoder": encoder, "head": {"name": "first"}, "projection": {"width": 256}}
    return make_dual_encoder(
        {
            "image": image | {"head": {"name": "mean"}, "projection": {"width": 256}},
            "text": text,
            "pair_scorer": {"name": "cross_attention"},
        }
    )


def example(images: Any, length: int) -> dict[str, Any]:
    """Returns an image and a text, as the model is initialized with."""
    words = np.ones((1, length), np.int32)
    return {"image": {"image": images}, "text": {"text_ids": words, "text_mask": words}}


def make_ours(
    images: np.ndarray,
    ids: np.ndarray,
    sizes: Mapping[str, int] = SIZES,
    *,
    mask: np.ndarray | None = None,
    model: str = "blip",
) -> Callable[[], Any]:
    """Scores of all pairs of images [I, R, W] and texts [J, T] by a scorer of `sizes`."""
    mask = np.ones(ids.shape, bool) if mask is None else mask
    encoder = make_model(model, images.shape[1], sizes)
    inputs = example(images[:1], ids.shape[1])
    params, _ = jax.jit(lambda key: encoder.init(key, inputs))(jax.random.key(0))
    functions = make_pair_functions(encoder)
    assert functions is not None
    bound = functions.bind(params)  # Once, as their model is made once.
    program = PairProgram(dataclasses.replace(functions, bind=lambda params: params), None)
    of_images = Tokens(images, np.ones(images.shape[:2], bool))
    of_texts = Tokens(ids[..., None].astype(np.int32), mask)
    at = np.divmod(np.arange(len(images) * len(ids), dtype=np.int32), len(ids))
    return lambda: PairScores(program, bound, of_images, of_texts).pairs(*at)


def _count_tokens(captions: str, vocabulary: str) -> np.ndarray:
    """Numbers of tokens of the captions of a file; int [N]."""
    config = TextConfig(
        "wordpiece", vocabulary, max_length=35, separators='.!"()*#:;~', max_words=30
    )
    texts = pathlib.Path(captions).read_text(encoding="utf-8").splitlines()
    _, mask = make_tokenizer(config, read_vocabulary(vocabulary)).encode(texts)
    return mask.sum(axis=1)


def _theirs(
    model: str, image: np.ndarray, ids: np.ndarray, mask: np.ndarray, batch: int
) -> Callable[[], Any]:
    import torch
    import transformers

    sizes = {
        "vocab_size": WORDS, "hidden_size": WIDTH, "num_hidden_layers": DEPTH,
        "num_attention_heads": HEADS, "intermediate_size": MLP,
    }  # fmt: skip
    if model == "blip":
        config = transformers.BlipTextConfig(**sizes, encoder_hidden_size=WIDTH)
        scorer = transformers.BlipTextModel(config, add_pooling_layer=False).eval()
        names = "encoder_hidden_states", "encoder_attention_mask"
    else:
        scorer = transformers.ViltModel(transformers.ViltConfig(**sizes)).eval()
        names = "image_embeds", "pixel_mask"
    head = torch.nn.Linear(WIDTH, 2)
    tokens, words, real = torch.tensor(image), torch.tensor(ids), torch.tensor(mask)

    def call() -> None:
        with torch.no_grad():
            for start in range(0, len(words), batch):
                own = real[start : start + batch]
                longest = int(own.sum(dim=1).max())
                part = words[start : start + batch, :longest]
                of_image = tokens.expand(len(part), -1, -1), torch.ones(len(part), len(tokens))
                found = scorer(
                    input_ids=part,
                    attention_mask=own[:, :longest].long(),
                    **dict(zip(names, of_image, strict=True)),
                )
                head(found.last_hidden_state[:, 0])

    return call


def _bare(model: str, images: int, lengths: np.ndarray) -> Callable[[], Any]:
    """Products of linear layers, whose rows are tokens, and of attention between two sides.

    The last layer needs the keys and values of its self-attention, and one query. Products of the
    self-attention of texts are left out; they are small.
    """
    texts, tokens = len(lengths), int(lengths.sum())
    read, size = IMAGE_TOKENS[model], WIDTH // HEADS
    pair = images * (tokens if model == "blip" else tokens + texts * read)
    square, wide = (WIDTH, WIDTH), (WIDTH, MLP)
    if model == "blip":
        # (rows, matrix, times).
        linear = [(images * read, square, 2 * DEPTH), (tokens, square, 4)]
        linear += [(pair, square, 6 * (DEPTH - 2) + 2 + 2), (pair, wide, 2 * (DEPTH - 1))]
        attention = [((images * HEADS, tokens, size), (images * HEADS, size, read), DEPTH - 1)]
    else:
        linear = [(pair, square, 4 * (DEPTH - 1) + 2), (pair, wide, 2 * (DEPTH - 1))]
        groups, length = images * texts * HEADS, pair // (images * texts)
        attention = [((groups, length, size), (groups, size, length), DEPTH - 1)]
    products = [((rows, shape[0]), shape, times) for rows, shape, times in linear]
    # The second product, with the values, has as many operations.
    products += [(left, right, 2 * times) for left, right, times in attention]
    multiply = jax.jit(jnp.matmul)

    def call() -> None:
        for left, right, times in products:
            sides = jnp.ones(left), jnp.ones(right)
            for _ in range(times):
                jax.block_until_ready(multiply(*sides))

    return call


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=sorted(IMAGE_TOKENS), default="blip")
    for name in ("captions", "vocabulary"):
        parser.add_argument(f"--{name}", default="")
    sizes = {
        "text_tokens": 35, "images": 1, "texts": 64, "their_texts": 16, "their_batch": 8,
        "rounds": 3,
    }  # fmt: skip
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser.parse_args()


if __name__ == "__main__":
    main()

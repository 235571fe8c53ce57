"""Compares `embed_texts` and `embed_images` with the bare tower and with sentence-transformers.

    python -m tests.benchmarks.embedding --text_tower=weights/minilm --captions=FILE \
        [--sentence_encoder=FOLDER] [--image_tower=weights/mobilenet_v2 --images=FOLDER]

All rivals take turns, and speeds are medians over rounds. `bare` is the compiled tower alone, with
batches already on the device. FOLDER of `--sentence_encoder` is the one that `text_tower` was
converted from, in the format of sentence-transformers (`pip install sentence-transformers`), which
embeds in batches of `--their_batch_size`. Prints a line of JSON per side; `of_bare` and `of_theirs`
are medians of the ratios within a round, of wall and of CPU seconds (for a busy machine).
"""

import argparse
import json
import pathlib
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

from xmodal.api.model import Model
from xmodal.api.model_sources import Stored, make_model, read_folder
from xmodal.evals.scores.text_lengths import TextLengths
from xmodal.models import Devices, make_dual_encoder

# Defaults of embed_texts and embed_images on a CPU.
BATCH = {"text": 32, "image": 64}


def main() -> None:
    """Prints the figures of every requested side."""
    args = _parse()
    if args.text_tower:
        texts = pathlib.Path(args.captions).read_text(encoding="utf-8").splitlines()
        texts = _spread(texts, args.texts)
        stored = read_folder(args.text_tower, "best")
        model = make_model(stored)
        calls = {
            "embed": lambda: model.embed_texts(texts),
            "bare": _bare("text", stored, text_batches(model, texts)),
        }
        figures: dict[str, Any] = {"figure": "embed_texts", "texts": len(texts)}
        if args.sentence_encoder:
            calls["theirs"] = _sentence_transformers(args, texts)
            ours, theirs = np.asarray(model.embed_texts(texts)), calls["theirs"]()
            ours = ours / np.linalg.norm(ours, axis=1, keepdims=True)
            figures["their_batch_size"] = args.their_batch_size
            figures["largest_difference"] = float(abs(ours - theirs).max())
        print(json.dumps(figures | _speeds(calls, len(texts), args.rounds)), flush=True)
    if args.image_tower:
        files = _spread(sorted(map(str, pathlib.Path(args.images).iterdir())), args.pictures)
        stored = read_folder(args.image_tower, "best")
        model = make_model(stored)
        calls = {
            "embed": lambda: model.embed_images(files),
            "bare": _bare("image", stored, image_batches(model, files)),
        }
        figures = {"figure": "embed_images", "images": len(files)}
        print(json.dumps(figures | _speeds(calls, len(files), args.rounds)), flush=True)


def text_batches(model: Model, texts: list[str]) -> Iterator[dict[str, np.ndarray]]:
    """Yields columns of texts of similar length, padded as `embed_texts` pads them."""
    ids, mask = model.tokenize(texts)
    tokens = mask.sum(axis=1)
    order = np.argsort(tokens, kind="stable")
    lengths = TextLengths().choose(tokens, ids.shape[1], batch_size=BATCH["text"])
    for start in range(0, len(texts), BATCH["text"]):
        rows = order[start : start + BATCH["text"]]
        length = lengths[np.searchsorted(lengths, tokens[rows].max())]
        yield {"text_ids": ids[rows, :length], "text_mask": mask[rows, :length]}


def image_batches(model: Model, files: list[str]) -> Iterator[dict[str, np.ndarray]]:
    """Yields columns of pictures."""
    for start in range(0, len(files), BATCH["image"]):
        yield {"image": model.preprocess(files[start : start + BATCH["image"]])}


def _bare(side: str, stored: Stored, batches: Iterator[Mapping[str, Any]]) -> Callable[[], Any]:
    """Functions that call the compiled tower on every batch."""
    encoder = make_dual_encoder(stored.config.model, Devices(1, jax.devices()[0].platform))
    weights = jax.device_put((stored.params, stored.model_state))
    placed = [jax.device_put(dict(each)) for each in batches]

    @jax.jit
    def embed(weights: Any, columns: Any) -> jax.Array:
        return encoder.embed(side, *weights, columns)[0].vector

    return lambda: jax.block_until_ready([embed(weights, columns) for columns in placed])


def _sentence_transformers(args: argparse.Namespace, texts: list[str]) -> Callable[[], np.ndarray]:
    from sentence_transformers import SentenceTransformer

    encoder = SentenceTransformer(args.sentence_encoder, device="cpu")
    return lambda: encoder.encode(texts, batch_size=args.their_batch_size, show_progress_bar=False)


def _speeds(calls: Mapping[str, Callable[[], Any]], count: int, rounds: int) -> dict[str, float]:
    """Items per wall and CPU second of every function, and ratios of the first to the others."""
    for call in calls.values():
        call()  # Compiles.
    clocks = {"second": time.perf_counter, "cpu_second": time.process_time}
    speeds: dict[str, dict[str, list[float]]] = {
        unit: {name: [] for name in calls} for unit in clocks
    }
    for _ in range(rounds):
        for name, call in calls.items():
            started = {unit: clock() for unit, clock in clocks.items()}
            call()
            for unit, clock in clocks.items():
                speeds[unit][name].append(count / (clock() - started[unit]))
    found = {}
    for unit, own in speeds.items():
        first, *others = own
        found |= {f"{name}_per_{unit}": statistics.median(each) for name, each in own.items()}
        for name in others:
            ratios = (one / other for one, other in zip(own[first], own[name], strict=True))
            found[f"of_{name}_per_{unit}"] = statistics.median(ratios)
    return {name: round(value, 3) for name, value in found.items()}


def _spread(items: list[str], count: int) -> list[str]:
    """Every n-th item, about `count` in all."""
    return items[:: max(1, len(items) // count)][:count]


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name in ("text_tower", "captions", "sentence_encoder", "image_tower", "images"):
        parser.add_argument(f"--{name}", default="")
    for name, default in (
        ("their_batch_size", 32), ("texts", 4096), ("pictures", 512), ("rounds", 3),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser.parse_args()


if __name__ == "__main__":
    main()

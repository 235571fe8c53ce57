"""Compares the training steps of CLIP and of the CxC paper's models with the same in torch.

    python -m tests.benchmarks.paper_steps [--figure=text] [--rounds=5] [--no-compiled]
    python -m tests.benchmarks.paper_steps --figure=text --length=24 [--padded_to=32]
    python -m tests.benchmarks.paper_steps --figure=text --captions=FILE [--no-short_texts]
    python -m tests.benchmarks.paper_steps --dtype=bfloat16 --batch_size=256    # on a GPU

`efficientnet_b4`: the image side, compared with itself. `text`: frozen BERT-Base and the three
layers that the paper trains, two captions per image, of --length tokens, and ours padded to
--padded_to. With --captions, a CSV file with the column `caption`, every step has another batch,
with lengths of captions drawn from the file (words, punctuation, [CLS] and [SEP]): torch pads to
the longest, ours as in training, with --no-short_texts to one length. `stored`: the same step on
stored features of BERT, for which torch has no counterpart, so its rival also computes BERT. Drop
connect, L2, clipping and Adam are as in the paper. `clip_b32`: both towers of CLIP ViT-B/32, with
its AdamW and clipping. The parameters are float32, and the encoders compute in --dtype (torch's
with autocast).
torch's models are those of transformers (channels-last on the CNN's side), eager and with
`torch.compile`, which needs a C++ compiler. Both sides run on a GPU if JAX finds one; torch then
also needs CUDA.
The sides take turns in separate processes. Prints one line of JSON per figure and rival: medians of
seconds and of CPU seconds; the goals are for CPUs.
"""

import argparse
import csv
import dataclasses
import gzip
import json
import math
import os
import re
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.benchmarks.training_steps import Rival, run_ours
from xmodal.core.processor import describe_processor

# Batch size, pixels of an image's side or tokens of a caption, and the goal on CPUs.
FIGURES = {
    "efficientnet_b4": (8, 380, 1.25),
    "text": (32, 32, 1.0),
    "stored": (32, 32, 0.25),
    "clip_b32": (8, 224, 1.1),
}
CAPTIONS, WORDS, WIDTH, HEADS = 2, 30522, 768, 8
CLIP_WORDS, CLIP_TOKENS = 49408, 77
MAX_LENGTH, BATCHES = 48, 8


@dataclasses.dataclass(frozen=True)
class Task:
    """A figure, its sizes, the dtype of the encoders, and whether torch compiles it.

    Our captions are padded to `padded_to` tokens, unless it is 0. With `captions`, a file, they
    have the lengths of some of its captions; `short_texts`: whether we embed short ones apart.
    """

    figure: str
    batch_size: int
    length: int
    dtype: str = "float32"
    compiled: bool = False
    padded_to: int = 0
    captions: str = ""
    short_texts: bool = True

    def batches(self) -> list[dict[str, np.ndarray]]:
        """The batches of the steps, in turn; texts are padded to the longest of a batch."""
        if not self.captions:
            return [self.batch()]
        generator = np.random.default_rng(0)
        shape = (BATCHES, self.batch_size, CAPTIONS)
        found = []
        for lengths in generator.choice(read_lengths(self.captions), shape):
            mask = (np.arange(lengths.max()) < lengths[..., None]).astype(np.int32)
            ids = generator.integers(1, WORDS, mask.shape, np.int32) * mask
            found.append({"text_ids": ids, "text_mask": mask})
        return found

    def batch(self) -> dict[str, np.ndarray]:
        """Pixels [B, S, S, 3], or ids and mask [B, C, T]; all captions have full length."""
        generator = np.random.default_rng(0)
        if self.figure == "efficientnet_b4":
            shape = (self.batch_size, self.length, self.length, 3)
            return {"image": generator.integers(0, 256, shape, np.uint8)}
        if self.figure == "clip_b32":
            pixels = (self.batch_size, self.length, self.length, 3)
            shape = (self.batch_size, 1, CLIP_TOKENS)
            ids = generator.integers(1, CLIP_WORDS - 2, shape, np.int32)
            ids[..., -1] = CLIP_WORDS - 1  # the end
            image = generator.integers(0, 256, pixels, np.uint8)
            return {"image": image, "text_ids": ids, "text_mask": np.ones(shape, np.int32)}
        shape = (self.batch_size, CAPTIONS, self.length)
        ids = generator.integers(1, WORDS, shape, np.int32)
        return {"text_ids": ids, "text_mask": np.ones(shape, np.int32)}


def read_lengths(file: str) -> np.ndarray:
    """Tokens of the captions of a CSV file, int64 [N]; a word is one token."""
    opened = gzip.open if file.endswith(".gz") else open
    with opened(file, "rt", encoding="utf-8") as rows:
        texts = [row["caption"] for row in csv.DictReader(rows)]
    lengths = [2 + len(re.findall(r"\w+|[^\w\s]", text)) for text in texts]
    return np.minimum(lengths, MAX_LENGTH)


def step_ours(task: Task) -> Iterator[int]:
    """Yields once the libraries are loaded, then the trained parameter count, then each step."""
    import jax
    import ml_collections

    from configs import base, clip, cxc_multitask, cxc_text_text
    from xmodal.core import mesh as mesh_lib
    from xmodal.core.reused_memory import compute_in_caller
    from xmodal.train import compiled_step, preflight
    from xmodal.train.optimization import run_lengths
    from xmodal.train.resolve import build_run
    from xmodal.train.step.two_lengths import RANK

    yield 0
    compute_in_caller()
    if task.figure == "efficientnet_b4":
        config = cxc_multitask.get_config()
        config.model.text = config.data.text = None
        config.model.image.encoder.dtype = task.dtype
        config.data.image.size = task.length
        config.tasks = {"i2i": base.task("image", "image", "softmax")}
        config.freeze = ()
    elif task.figure == "clip_b32":
        config = clip.get_config("vit_b32")
        config.model.text.encoder.vocab_size, config.optimizer.clip_norm = CLIP_WORDS, 1.0
        for side in ("image", "text"):
            config.model[side].encoder.dtype = task.dtype
    else:
        config = cxc_text_text.get_config()
        config.model.text.encoder.dtype = config.model.text.head.dtype = task.dtype
        if not task.captions:
            config.data.text.max_length = max(task.length, task.padded_to)
            config.data.text_lengths = ()
        if not (task.captions and task.short_texts):
            config.data.short_texts = None
        if task.figure == "stored":
            config.frozen_features.sides = ("text",)
    config.batch_size, config.init_from.published = task.batch_size, ()
    resolved = ml_collections.ConfigDict(run_lengths.resolve_epochs(config.to_dict(), 1))
    mesh = mesh_lib.make_mesh(jax.devices()[:1])
    parts = build_run(resolved, mesh)
    features = [preflight.feature_shapes(parts, side) for side in config.frozen_features.sides]
    items = np.arange(task.batch_size, dtype=np.int32)
    batches = task.batches()
    for batch in batches if task.figure in ("text", "stored") else ():
        lengths = batch["text_mask"].sum(axis=-1)
        length, ranks = parts.settings.data.lay_out(lengths, devices=1, parts=1)
        padding = ((0, 0), (0, 0), (0, length - lengths.max()))
        batch |= {name: np.pad(batch[name], padding) for name in ("text_ids", "text_mask")}
        batch |= {} if ranks is None else {RANK: ranks}
    columns = batches[0]
    columns["image_id"] = items
    captions = config.data.captions_per_image
    columns["caption_id"] = items[:, None] * captions + np.arange(captions)
    for name, spec in compiled_step.abstract_batch(parts, features).items():
        if name not in columns:  # stored features
            columns[name] = np.random.default_rng(1).normal(size=spec.shape)
    yield from run_ours(parts, batches, features)


def step_torch(task: Task) -> Iterator[int | str]:
    """See `step_ours`; if torch cannot compile, yields the reason instead of the parameters."""
    import torch

    yield 0
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    makers = {"efficientnet_b4": make_images, "clip_b32": make_clip}
    make = makers.get(task.figure, make_texts)
    with torch.device(kind):
        modules, penalized, embed = make(torch, task)
    if task.compiled:
        embed = torch.compile(embed)
    trained = [p for module in modules for p in module.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=1e-4)
    batches = [
        {name: torch.from_numpy(column).to(kind) for name, column in batch.items()}
        for batch in task.batches()
    ]
    labels = torch.arange(task.batch_size, device=kind)

    def step(number: int) -> None:
        batch = batches[number % len(batches)]
        optimizer.zero_grad()
        with torch.autocast(kind, torch.bfloat16, enabled=task.dtype == "bfloat16"):
            left, right = embed(batch)
        left, right = left.float(), right.float()
        scores = left @ right.T
        entropy = torch.nn.functional.cross_entropy
        loss = (entropy(scores, labels) + entropy(scores.T, labels)) / 2
        loss = loss + 5e-6 * sum(p.square().sum() for p in penalized)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        assert math.isfinite(loss.item()), loss

    try:
        step(0)
    except Exception as error:
        if not task.compiled:
            raise
        yield f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
        yield 0
        return
    yield sum(parameter.numel() for parameter in trained)
    for number in range(10**9):
        step(number)
        yield number


def make_images(torch: Any, task: Task) -> tuple[list, list, Callable]:
    """Modules, the penalized parameters, and the function (batch) -> both views [B, D]."""
    import transformers

    config = transformers.EfficientNetConfig(
        image_size=task.length, width_coefficient=1.4, depth_coefficient=1.8, hidden_dim=1792,
        drop_connect_rate=0.2,
    )  # fmt: skip
    model = transformers.EfficientNetModel(config).train().to(memory_format=torch.channels_last)
    mean = 255 * torch.tensor([0.485, 0.456, 0.406])
    deviation = 255 * torch.tensor([0.229, 0.224, 0.225])

    def embed(batch: dict[str, Any]) -> tuple[Any, Any]:
        pixels = ((batch["image"] - mean) / deviation).permute(0, 3, 1, 2)
        vectors = model(pixels).last_hidden_state.mean((2, 3))
        return vectors, vectors

    return [model], [p for p in model.parameters() if p.ndim == 4], embed


def make_clip(torch: Any, task: Task) -> tuple[list, list, Callable]:
    """Like `make_images`; the images' vectors are multiplied by the scale."""
    import transformers

    model = transformers.CLIPModel(transformers.CLIPConfig()).train()  # ViT-B/32

    def embed(batch: dict[str, Any]) -> tuple[Any, Any]:
        ids, mask = (batch[name][:, 0].long() for name in ("text_ids", "text_mask"))
        pixels = (batch["image"].permute(0, 3, 1, 2) / 127.5 - 1).contiguous()
        found = model(input_ids=ids, attention_mask=mask, pixel_values=pixels)
        return found.image_embeds * model.logit_scale.exp(), found.text_embeds

    return [model], [], embed


def make_texts(torch: Any, task: Task) -> tuple[list, list, Callable]:
    """Like `make_images`; BERT runs without gradients."""
    import transformers

    config = transformers.BertConfig(vocab_size=WORDS)
    bert = transformers.BertModel(config, add_pooling_layer=False).eval().requires_grad_(False)
    functional = torch.nn.functional

    class Block(torch.nn.Module):
        """`xmodal.models.heads.transformer.MilanBlock`, at all positions."""

        def __init__(self) -> None:
            super().__init__()
            self.attention_norm = torch.nn.LayerNorm(WIDTH, eps=1e-6)
            self.mlp_norm = torch.nn.LayerNorm(WIDTH, eps=1e-6)
            self.query, self.key, self.output = (torch.nn.Linear(WIDTH, WIDTH) for _ in range(3))
            self.query_scale = torch.nn.Parameter(torch.zeros(WIDTH // HEADS))
            self.hidden = torch.nn.Linear(WIDTH, 4 * WIDTH)
            self.back = torch.nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x: Any, mask: Any) -> Any:
            def split(y: Any) -> Any:
                return y.unflatten(-1, (HEADS, -1)).transpose(1, 2)

            x = self.attention_norm(x)
            query = split(self.query(x)) * functional.softplus(self.query_scale) / math.log(2)
            attended = functional.scaled_dot_product_attention(
                query, split(self.key(x)), split(x), attn_mask=mask[:, None, None]
            )
            x = x + self.output(attended.transpose(1, 2).flatten(2))
            return x + self.back(self.hidden(self.mlp_norm(x)).relu())

    first = torch.nn.Linear(WIDTH, WIDTH)
    blocks = torch.nn.ModuleList(Block() for _ in range(3))

    def embed(batch: dict[str, Any]) -> tuple[Any, Any]:
        ids, mask = (batch[name].flatten(0, 1).long() for name in ("text_ids", "text_mask"))
        with torch.no_grad():
            tokens = bert(input_ids=ids, attention_mask=mask).last_hidden_state
        x = first(tokens).relu()
        for block in blocks:
            x = block(x, mask > 0)
        vectors = x[:, 0].unflatten(0, (task.batch_size, CAPTIONS))
        return vectors[:, 0], vectors[:, 1]

    return [bert, first, blocks], [], embed


def measure(task: Task, rounds: int, rivals: dict[str, Rival], ours: Rival) -> None:
    """Prints a line per rival; all take turns."""
    figure = task.figure
    for _ in range(rounds):
        for rival in (ours, *rivals.values()):
            if not isinstance(rival.parameters, str):
                rival.step()
    goal = FIGURES[figure][2]
    for name, rival in rivals.items():
        line: dict[str, Any] = {"figure": figure, "rival": name}
        line |= {"batch_size": task.batch_size, "dtype": task.dtype}
        line |= {"length": task.length, "padded_to": max(task.length, task.padded_to)}
        if task.captions:
            line |= {"length": "of captions", "padded_to": None, "short_texts": task.short_texts}
        line |= {"parameters": ours.parameters}
        if isinstance(rival.parameters, str):
            print(json.dumps(line | {"skipped": rival.parameters}), flush=True)
            continue
        assert rival.parameters == ours.parameters, (rival.parameters, ours.parameters)
        for each in ("seconds", "cpu_seconds"):
            one, other = (statistics.median(getattr(side, each)) for side in (ours, rival))
            line |= {each: round(one, 3), f"rival_{each}": round(other, 3)}
            line[f"share_of_{each}"] = round(one / other, 2)
        line |= {"goal": goal, "rounds": rounds, "cores": os.cpu_count()}
        print(json.dumps(line | {"processor": describe_processor()}), flush=True)


def main() -> None:
    """Measures all figures, or one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--figure", choices=FIGURES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch_size", type=int, help="instead of the figure's own")
    parser.add_argument("--length", type=int, help="pixels or tokens, instead of the figure's own")
    parser.add_argument("--padded_to", type=int, default=0, help="tokens of our captions")
    parser.add_argument("--captions", default="", help="CSV file, for lengths of captions")
    parser.add_argument("--short_texts", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--compiled", action=argparse.BooleanOptionalAction, default=True)
    args = parser.parse_args()
    # torch uses the same GPU.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    for figure in [args.figure] if args.figure else FIGURES:
        batch_size, length, _ = FIGURES[figure]
        sizes = (args.batch_size or batch_size, args.length or length)
        task = Task(
            figure, *sizes, args.dtype, padded_to=args.padded_to, captions=args.captions,
            short_texts=args.short_texts,
        )  # fmt: skip
        ours = Rival(step_ours, task)
        rivals = {"torch": Rival(step_torch, task)}
        if args.compiled:
            rivals["torch compiled"] = Rival(step_torch, dataclasses.replace(task, compiled=True))
        measure(task, args.rounds, rivals, ours)
        for rival in (ours, *rivals.values()):
            rival.stop()


if __name__ == "__main__":
    main()

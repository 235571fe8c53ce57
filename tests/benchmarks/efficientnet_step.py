"""Compares the training step of EfficientNet-B4 with that of transformers' model in torch.

    python -m tests.benchmarks.efficientnet_step [--batch_size=4] [--pixels=380] [--rounds=3]

Drop connect, L2, clipping and Adam are those of the CxC paper; the images are compared with
themselves. Both compute in float32, torch eagerly, with channels last and in a process of its own.
"""

import argparse
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import ml_collections
import numpy as np
import torch
import transformers

from configs import base, cxc_multitask
from tests.benchmarks.turns import compare, in_own_process
from xmodal.core import mesh as mesh_lib
from xmodal.core.reused_memory import compute_in_caller, keep_freed_memory
from xmodal.train.compiled_step import compile_step
from xmodal.train.resolve import build_run
from xmodal.train.run import Run
from xmodal.train.run_config import fill

B4 = {"width_coefficient": 1.4, "depth_coefficient": 1.8, "hidden_dim": 1792}
IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def make_run(config: ml_collections.ConfigDict) -> tuple[Run, int]:
    """Returns the run of a config on one device, and the number of its parameters."""
    run = build_run(fill(config, 1 << 20), mesh_lib.make_mesh(jax.devices()[:1]))
    return run, sum(leaf.size for leaf in jax.tree.leaves(run.shapes[0]))


def make_batch(run: Run) -> dict[str, np.ndarray]:
    """Returns the columns of a random batch; texts have the full length and end with one id."""
    rng, columns = np.random.default_rng(0), {}
    for name, spec in run.batch.items():
        columns[name] = np.arange(np.prod(spec.shape), dtype=spec.dtype).reshape(spec.shape)
        if name == "image":
            columns[name] = rng.integers(0, 256, spec.shape, np.uint8)
        elif name == "text_mask":
            columns[name] = np.ones(spec.shape, spec.dtype)
        elif name == "text_ids":
            last = run.settings.model["text"]["encoder"]["vocab_size"] - 1
            columns[name] = rng.integers(0, last, spec.shape, spec.dtype)
            columns[name][..., -1] = last
    return columns


def make_ours(run: Run, columns: dict[str, np.ndarray], steps: int = 1) -> Callable[[], None]:
    """Returns a function that makes the next steps of a run."""
    state, number = jax.jit(run.init_state)(run.key_data), 0
    compiled = compile_step(run, state)
    keep_freed_memory()

    def step() -> None:
        nonlocal state, number
        for _ in range(steps):
            state, _ = compiled(state, columns, number)
            number += 1
        jax.block_until_ready(state)

    return step


class Images(torch.nn.Module):
    """EfficientNet, perhaps BERT, and the softmax losses of images, or of images and captions."""

    def __init__(
        self, pixels: int, sizes: Mapping[str, Any] = B4, text: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__()
        given = {"image_size": pixels, "drop_connect_rate": 0.2, **sizes}
        self.image = transformers.EfficientNetModel(transformers.EfficientNetConfig(**given))
        if text is not None:
            config = transformers.BertConfig(
                **to_transformers(text), hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
            )
            self.text = transformers.AutoModel.from_config(
                config, attn_implementation="sdpa", add_pooling_layer=False
            )
            self.projection = torch.nn.Linear(config.hidden_size, given["hidden_dim"])

    def forward(self, images: torch.Tensor, ids: torch.Tensor | None = None) -> torch.Tensor:
        """Uint8 [B, S, S, 3] and perhaps int [B, 2, T] -> the loss, with L2."""
        vectors = self.image(normalize(images, *IMAGENET)).last_hidden_state.mean((2, 3))
        labels = torch.arange(len(images), device=images.device)
        kernels = [p for p in self.image.parameters() if p.ndim == 4]
        penalty = 5e-6 * torch.stack([p.square().sum() for p in kernels]).sum()

        def contrast(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.cross_entropy(left @ right.T, labels)

        if ids is None:
            return contrast(vectors, vectors) + penalty
        tokens = self.text(input_ids=ids.flatten(0, 1)).last_hidden_state[:, 0]
        first, second = self.projection(tokens).unflatten(0, ids.shape[:2]).unbind(1)
        pairs = (vectors, first), (first, vectors), (first, second), (second, first)
        return torch.stack([contrast(*pair) for pair in pairs]).sum() / 2 + penalty


def to_transformers(encoder: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the sizes of our transformers as those of transformers' configs."""
    ours = ("width", "depth", "heads", "mlp_dim")
    theirs = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
    return {name: encoder[key] for name, key in zip(theirs, ours, strict=True)}


def normalize(images: torch.Tensor, mean: Sequence, deviation: Sequence) -> torch.Tensor:
    """Uint8 [B, S, S, 3] -> float32 [B, 3, S, S] in the memory format "channels last"."""
    center, scale = (255 * images.new_tensor(x, dtype=torch.float32) for x in (mean, deviation))
    return ((images - center) / scale).permute(0, 3, 1, 2)


def make_torch(
    make: Callable[[], torch.nn.Module],
    columns: Sequence[np.ndarray],
    parameters: int,
    device: str = "cpu",
    backend: str | None = None,
    steps: int = 1,
    decay: float = 0.0,
    clip_norm: float | None = 1.0,
) -> Callable[[], None]:
    """Returns a function that makes the next steps of a model with as many parameters.

    Args:
      make: returns the model, whose output is its loss.
      columns: arguments of the model, which every step copies to the device.
      parameters: their number in our model.
      device: as torch names it.
      backend: that of `torch.compile`, with bfloat16 and fused AdamW; None for an eager model in
        float32.
      steps: steps of a call.
      decay: weight decay of all parameters.
      clip_norm: largest norm of the gradient; None for no clipping.
    """
    model: Any = make().train().to(device)
    model = model.to(memory_format=torch.channels_last)
    assert sum(p.numel() for p in model.parameters()) == parameters
    fused = True if backend else None
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=decay, fused=fused)
    compute = torch.compile(model, backend=backend) if backend else model
    arrays = [torch.from_numpy(column) for column in columns]
    arrays = [x.pin_memory() for x in arrays] if device == "cuda" else arrays

    def step() -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            with torch.autocast(device, torch.bfloat16, enabled=backend is not None):
                loss = compute(*(x.to(device, non_blocking=True) for x in arrays))
            loss.backward()
            if clip_norm is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
            optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()

    return step


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser()
    for name, default in {"batch_size": 4, "pixels": 380, "rounds": 3}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    compute_in_caller()
    config = cxc_multitask.get_config()
    config.model.text = config.data.text = config.data.length_bucketing = None
    config.model.image.encoder.dtype = "float32"
    config.data.image.size, config.batch_size = args.pixels, args.batch_size
    config.tasks = {"i2i": base.task("image", "image", "softmax")}
    config.freeze = config.init_from.published = ()
    run, parameters = make_run(config)
    columns = make_batch(run)
    given = functools.partial(Images, args.pixels), [columns["image"]], parameters
    theirs = in_own_process(make_torch, *given)
    calls = {"ours": make_ours(run, columns), "torch": theirs}
    sizes = {"batch_size": args.batch_size, "pixels": args.pixels}
    compare("efficientnet_b4", calls, rounds=args.rounds, **sizes)


if __name__ == "__main__":
    main()

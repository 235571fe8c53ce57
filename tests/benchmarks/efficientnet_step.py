"""Compares the training step of EfficientNet-B4 with that of transformers' model in torch.

    python -m tests.benchmarks.efficientnet_step [--batch_size=4] [--pixels=380] [--rounds=3]

Drop connect, L2, clipping and Adam are those of the CxC paper; the images are compared with
themselves. Both compute in float32, torch eagerly, with channels last and in a process of its own.
"""

import argparse
from collections.abc import Callable

import jax
import ml_collections
import numpy as np
import torch
import transformers

from configs import base, cxc_multitask
from tests.benchmarks.turns import compare, in_own_process
from xmodal.core import mesh as mesh_lib
from xmodal.train.compiled_step import compile_step
from xmodal.train.optimization.run_lengths import resolve_epochs
from xmodal.train.resolve import build_run
from xmodal.train.reused_memory import compute_in_caller, keep_freed_memory


def make_ours(pixels: np.ndarray) -> tuple[Callable[[], None], int]:
    """Returns a function that makes the next step, and the number of parameters."""
    config = cxc_multitask.get_config()
    config.model.text = config.data.text = config.data.length_bucketing = None
    config.model.image.encoder.dtype = "float32"
    config.data.image.size, config.batch_size = pixels.shape[1], len(pixels)
    config.tasks = {"i2i": base.task("image", "image", "softmax")}
    config.freeze = config.init_from.published = ()
    resolved = ml_collections.ConfigDict(resolve_epochs(config.to_dict(), 1))
    run = build_run(resolved, mesh_lib.make_mesh(jax.devices()[:1]))
    state, number = jax.jit(run.init_state)(run.key_data), 0
    parameters = sum(leaf.size for leaf in jax.tree.leaves(state.params))
    compiled = compile_step(run, state)
    keep_freed_memory(jax.default_backend())
    columns = {"image": pixels, "image_id": np.arange(len(pixels), dtype=np.int32)}

    def step() -> None:
        nonlocal state, number
        state, _ = compiled(state, columns, number)
        jax.block_until_ready(state)
        number += 1

    return step, parameters


def make_torch(pixels: np.ndarray, parameters: int) -> Callable[[], None]:
    """Returns a function that makes the next step of a model with as many parameters."""
    config = transformers.EfficientNetConfig(
        image_size=pixels.shape[1], width_coefficient=1.4, depth_coefficient=1.8, hidden_dim=1792,
        drop_connect_rate=0.2,
    )  # fmt: skip
    model = transformers.EfficientNetModel(config).train().to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    penalized = [p for p in model.parameters() if p.ndim == 4]
    mean = 255 * torch.tensor([0.485, 0.456, 0.406])
    deviation = 255 * torch.tensor([0.229, 0.224, 0.225])
    images, labels = torch.from_numpy(pixels), torch.arange(len(pixels))

    def step() -> None:
        optimizer.zero_grad()
        normalized = ((images - mean) / deviation).permute(0, 3, 1, 2)
        vectors = model(normalized).last_hidden_state.mean((2, 3))
        loss = torch.nn.functional.cross_entropy(vectors @ vectors.T, labels)
        loss = loss + 5e-6 * sum(p.square().sum() for p in penalized)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    assert sum(p.numel() for p in model.parameters()) == parameters
    return step


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser()
    for name, default in {"batch_size": 4, "pixels": 380, "rounds": 3}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    compute_in_caller()
    shape = (args.batch_size, args.pixels, args.pixels, 3)
    pixels = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    ours, parameters = make_ours(pixels)
    calls = {"ours": ours, "torch": in_own_process(make_torch, pixels, parameters)}
    sizes = {"batch_size": args.batch_size, "pixels": args.pixels}
    compare("efficientnet_b4", calls, rounds=args.rounds, **sizes)


if __name__ == "__main__":
    main()

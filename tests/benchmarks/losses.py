"""Compares batch losses in every mode with dense ones, torch and open_clip.

    python -m tests.benchmarks.losses [--loss=softmax] [--batch_size=8192] [--width=1792]
        [--chunk_size=1024] [--devices=1] [--rounds=5]

Computes values and gradients of both embeddings, all modes in turn; with --devices=8, on virtual
devices, the ring too. `softmax` and `sigmoid` are also compared with open_clip's classes. Prints a
line of JSON per loss, with the temporaries of each mode in MB per device, as compiled.
"""

import argparse
import functools
import importlib.util
import os
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.benchmarks.turns import compare

# Name -> loss, options, similarity.
LOSSES: dict[str, tuple[str, dict, str]] = {
    "softmax": ("softmax", {}, "dot"),
    "sigmoid": ("sigmoid", {}, "dot"),
    "hinge_hardest": ("triplet", {"mining": "hardest"}, "cosine"),
}


def compile_ours(loss: str, engine: str, views: Any, args: argparse.Namespace) -> tuple:
    """Returns a function without arguments, and megabytes of temporaries per device."""
    import jax

    from xmodal import losses
    from xmodal.core import mesh as mesh_lib
    from xmodal.models import Embedding
    from xmodal.similarity import make_similarity

    name, options, similarity = LOSSES[loss]
    score = make_similarity({"name": similarity})
    mesh = mesh_lib.make_mesh(jax.devices()[: args.devices])
    ids = np.arange(args.batch_size, dtype=np.int32)

    def compute(views: Any, ids: jax.Array) -> jax.Array:
        used = mesh if args.devices > 1 else None
        context = losses.Context(ids, score, score.init(), mesh=used)
        mode = {"engine": engine, "chunk_size": args.chunk_size}
        found = losses.LOSSES[name].function(*map(Embedding, views), context, **options, **mode)
        return found[0]

    placed = jax.device_put((views, ids), mesh_lib.batch_sharded(mesh))
    compiled = jax.jit(jax.value_and_grad(compute)).lower(*placed).compile()
    analysis: Any = compiled.memory_analysis()
    megabytes = analysis.temp_size_in_bytes / 1e6
    return lambda: jax.block_until_ready(compiled(*placed)), round(megabytes, 1)


def make_theirs(
    loss: str,
    views: list[np.ndarray],
    device: str = "cpu",
    backend: str | None = None,
    dtype: str = "float32",
) -> dict[str, Callable[[], np.ndarray]]:
    """Returns functions that compute the loss and its gradient, by library.

    Args:
      loss: a key of `LOSSES`.
      views: float32 [B, D] of both sides.
      device: as torch names it.
      backend: backend of `torch.compile`; None for eager functions.
      dtype: of the scores.
    """
    import torch

    spec: Any = importlib.util.find_spec("open_clip")
    folder = spec.submodule_search_locations[0]
    spec = importlib.util.spec_from_file_location("losses", pathlib.Path(folder) / "loss.py")
    open_clip: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(open_clip)
    functional, items = torch.nn.functional, torch.arange(len(views[0]), device=device)
    left, right = (torch.tensor(view, device=device, requires_grad=True) for view in views)

    def softmax() -> Any:
        scores = left @ right.T
        entropies = [functional.cross_entropy(each, items) for each in (scores, scores.T)]
        return sum(entropies) / 2

    def sigmoid() -> Any:
        signs = 2 * torch.eye(len(items), device=device) - 1
        return -functional.logsigmoid(signs * (left @ right.T)).sum() / len(items)

    def hinge_hardest() -> Any:
        scores = functional.normalize(left, dim=-1) @ functional.normalize(right, dim=-1).T
        positive, own = scores.diagonal(), torch.eye(len(scores), device=device).bool()
        sides = (0.2 + scores - positive[:, None], 0.2 + scores - positive[None])
        hinges = [side.clamp(min=0).masked_fill(own, 0).amax(1 - k) for k, side in enumerate(sides)]
        return sum(each.sum() for each in hinges)

    found = {"torch": {"softmax": softmax, "sigmoid": sigmoid}.get(loss, hinge_hardest)}
    one = torch.tensor(1.0, device=device)
    if loss == "softmax":
        found["open_clip"] = lambda: open_clip.ClipLoss()(left, right, one)
    elif loss == "sigmoid":
        found["open_clip"] = lambda: open_clip.SigLipLoss()(left, right, one, 0 * one)

    def run(compute: Callable[[], Any]) -> np.ndarray:
        left.grad = right.grad = None
        with torch.autocast(device, torch.bfloat16, enabled=dtype == "bfloat16"):
            value = compute()
        value.backward()
        return value.detach().cpu().numpy()

    if backend:
        found = {name: torch.compile(compute, backend=backend) for name, compute in found.items()}
    return {name: functools.partial(run, compute) for name, compute in found.items()}


def make_torch(loss: str, views: list[np.ndarray], *mode: str) -> Callable[[], np.ndarray]:
    """Returns only the function that uses torch itself, see `make_theirs`."""
    return make_theirs(loss, views, *mode)["torch"]


def main() -> None:
    """Measures all losses, or one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--loss", choices=LOSSES)
    for name, default in {
        "batch_size": 8192, "width": 1792, "chunk_size": 1024, "devices": 1, "rounds": 5
    }.items():  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={args.devices}"
    rng = np.random.default_rng(0)
    left, noise = rng.standard_normal((2, args.batch_size, args.width), np.float32)
    views = [left / args.width**0.5, (0.5 * left + noise) / args.width**0.5]
    for loss in [args.loss] if args.loss else LOSSES:
        engines = ["dense", "chunked", *(["ring"] if args.devices > 1 else [])]
        ours = {engine: compile_ours(loss, engine, views, args) for engine in engines}
        theirs = make_theirs(loss, views)
        value = float(ours["dense"][0]()[0])
        for name, run in theirs.items():
            np.testing.assert_allclose(run(), value, rtol=1e-4, err_msg=name)
        calls = {engine: run for engine, (run, _) in ours.items()} | theirs
        memory = {engine: megabytes for engine, (_, megabytes) in ours.items()}
        compare(loss, calls, rounds=args.rounds, temporaries_mb=memory, batch=args.batch_size)


if __name__ == "__main__":
    main()

"""Compares training, losses, evaluation and embedding with torch on one GPU.

    python -m tests.benchmarks.gpu [--small] [--unroll] [--annotations=FOLDER] [--only NAME ...]

At most eight minutes on one H100 or H200, with compilation. The rivals are models of transformers
with random weights, as many parameters, the same batches from the host and the same losses:
`torch.compile`, bfloat16 autocast, scaled-dot-product attention and fused AdamW, in a process of
their own. Texts have no padding, so that torch's attention needs no mask. `--unroll` compiles each
of our layers, as torch does. Without a GPU, or with `--small`, everything is tiny; on a CPU,
neither compiler optimizes.
"""

import argparse
import dataclasses
import functools
import itertools
import json
import os
import sys
from collections.abc import Callable
from typing import Any

# Both libraries share the memory of the device.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import numpy as np
import torch
import transformers
from ml_collections import ConfigDict

from configs import base, clip, cxc_multitask
from tests.benchmarks import blip_pairs, evaluation, losses
from tests.benchmarks import efficientnet_step as steps
from tests.benchmarks.turns import compare, in_own_process
from xmodal.api.model import Model
from xmodal.core.reused_memory import compute_in_caller
from xmodal.evals.scores import pair_scores
from xmodal.models import Devices
from xmodal.train.compiled_step import lower_step

# Operations per second (bfloat16, dense) of these devices, as published.
PEAK, PEAK_DEVICES = 989e12, ("NVIDIA H100 80GB HBM3", "NVIDIA H200")
TINY = {"width": 64, "depth": 2, "heads": 2, "mlp_dim": 128}
TINY_CONVOLUTIONS = {"width_coefficient": 0.25, "depth_coefficient": 0.25, "hidden_dim": 320}
MIDDLE = (0.5,) * 3


@dataclasses.dataclass(frozen=True)
class Bench:
    """What runs: tiny or not, our layers compiled each or once; torch's device and compiler."""

    small: bool
    unroll: bool
    device: str
    torch_compile: str

    def pick(self, large: Any, small: Any) -> Any:
        """Returns the size of this run."""
        return small if self.small else large

    @property
    def settings(self) -> dict[str, Any]:
        """Those of our encoders; on a CPU, compiling bfloat16 takes long."""
        on_gpu = {"dtype": "bfloat16", "attention": "cudnn"}
        chosen = on_gpu if self.device == "cuda" else {"dtype": "float32", "attention": "einsum"}
        return chosen | {"unroll": self.unroll}

    def compare(self, figure: str, ours: Callable, theirs: Callable, **given: Any) -> None:
        """Prints a figure and what every line says of the run."""
        facts = dataclasses.asdict(self) | self.settings | given
        facts["device"] = jax.devices()[0].device_kind
        compare(figure, {"ours": ours, "torch": theirs}, rounds=self.pick(5, 1), **facts)

    def set_encoders(self, config: ConfigDict, **changes: Any) -> ConfigDict:
        """Returns a config with the settings of this run, or changes of them."""
        config, settings = config.copy_and_resolve_references(), self.settings | changes
        for encoder in (config.model.image.encoder, config.model.text.encoder):
            # A convolutional network has only the first.
            encoder.update(settings if "heads" in encoder else {"dtype": settings["dtype"]})
        return config


class Contrastive(torch.nn.Module):
    """CLIP or SigLIP of transformers, and its loss."""

    def __init__(self, config: ConfigDict) -> None:
        super().__init__()
        model, last = config.model, config.model.text.encoder.vocab_size - 1
        images = {"image_size": config.data.image.size, "patch_size": model.image.encoder.patch}
        words = {"vocab_size": last + 1, "eos_token_id": last, "bos_token_id": 0}
        words["max_position_embeddings"] = model.text.encoder.get("max_positions", 77)
        given: dict[str, Any] = {
            "vision_config": steps.to_transformers(model.image.encoder) | images,
            "text_config": steps.to_transformers(model.text.encoder) | words,
        }
        if config.tasks.i2t.loss.name == "sigmoid":
            made = transformers.SiglipConfig(**given)
        else:
            made = transformers.CLIPConfig(**given, projection_dim=model.text.projection.width)
        self.model = transformers.AutoModel.from_config(made, attn_implementation="sdpa")

    def forward(self, images: torch.Tensor, ids: torch.Tensor | None = None) -> torch.Tensor:
        """Uint8 [B, S, S, 3] and int [B, 1, T] -> the loss; without texts, float32 [B, D]."""
        pixels = steps.normalize(images, MIDDLE, MIDDLE)
        if ids is None:
            return self.model.get_image_features(pixels).pooler_output.float()
        return self.model(input_ids=ids[:, 0], pixel_values=pixels, return_loss=True).loss


def clip_config(bench: Bench, name: str) -> ConfigDict:
    """A size of `configs/clip.py`, or its small form with the same loss."""
    is_sigmoid = name.startswith("siglip")
    config = clip.get_config(bench.pick(name, "quick_sigmoid" if is_sigmoid else "quick"))
    config.batch_size = bench.pick(256 if is_sigmoid else 512, 4)
    # As published; the table of a learned vocabulary has a few rows more.
    config.model.text.encoder.vocab_size = bench.pick(32_000 if is_sigmoid else 49_408, 1024)
    return bench.set_encoders(config)


def compare_step(
    bench: Bench, figure: str, config: ConfigDict, make: Callable[[], torch.nn.Module]
) -> None:
    """Prints the time of a training step, and of that of a torch model with the same loss."""
    run, parameters = steps.make_run(config)
    columns, count = steps.make_batch(run), bench.pick(5, 1)
    decay = (config.optimizer.weight_decay or {"rate": 0.0})["rate"]
    inputs, mode = [columns["image"], columns["text_ids"]], (bench.device, bench.torch_compile)
    optimizer = count, decay, config.optimizer.clip_norm
    theirs = in_own_process(steps.make_torch, make, inputs, parameters, *mode, *optimizer)
    # As XLA counts before it optimizes: of the compiled step, it would count one layer of a stack,
    # and nothing of cuDNN's attention.
    counted, _ = steps.make_run(bench.set_encoders(config, unroll=True, attention="einsum"))
    (lowered,) = lower_step(counted, counted.state_shapes).values()
    flops = (lowered.cost_analysis() or {})["flops"]
    peak = PEAK if jax.devices()[0].device_kind in PEAK_DEVICES else None
    facts = {"peak_tflops": peak and peak / 1e12, "batch_size": config.batch_size}
    facts |= {
        "tflop": flops / 1e12,
        "parameters": parameters,
        "peak_seconds": peak and flops / peak,
    }
    ours = steps.make_ours(run, columns, count)
    bench.compare(figure, ours, theirs, count=count, **facts)


def compare_clip(bench: Bench, name: str) -> None:
    """`compare_step` of a CLIP or SigLIP."""
    config = clip_config(bench, name)
    compare_step(bench, name, config, functools.partial(Contrastive, config))


def compare_multitask(bench: Bench) -> None:
    """`compare_step` of EfficientNet-B4 and BERT, all trained; the first token is projected."""
    config = cxc_multitask.get_config()
    encoder, sizes = bench.pick((blip_pairs.SIZES, steps.B4), (TINY, TINY_CONVOLUTIONS))
    config.model.text = base.tower(base.bert(**encoder), "cls", width=sizes["hidden_dim"])
    if bench.small:
        config.model.image.encoder.update({"variant": None, "width": 0.25, "depth": 0.25})
    pixels, config.batch_size = bench.pick((380, 64), (32, 2))
    config.data.image.size, config.data.text.max_length = pixels, 16
    config.freeze, config.data.length_bucketing = (), None
    make = functools.partial(steps.Images, pixels, sizes, encoder)
    compare_step(bench, "cxc_multitask", bench.set_encoders(config), make)


def compare_blip(bench: Bench) -> None:
    """Prints the time of the score of a pair."""
    tokens, count = bench.pick((blip_pairs.IMAGE_TOKENS, 1024), (5, 8))
    sizes, rng = bench.pick(blip_pairs.SIZES, TINY), np.random.default_rng(0)
    image = rng.normal(size=(1, tokens, sizes["width"])).astype(np.float32)
    given = image, rng.integers(1, blip_pairs.WORDS, (count, 13))
    mode = bench.device, bench.torch_compile, bench.pick(128, 8)
    theirs = in_own_process(blip_pairs.make_torch, *given, sizes, *mode)
    settings = sizes | bench.settings
    pair_scores._MANY_PAIRS = 0
    ours = blip_pairs.make_ours(*given, settings, Devices(1, jax.default_backend()))
    # transformers has no other attention for this class.
    facts = {"image_tokens": tokens, "torch_attention": "eager"}
    bench.compare("blip_pairs", ours, theirs, count=count, **facts)


def compare_loss(bench: Bench, loss: str, dtype: str) -> None:
    """Prints the time of a loss and its gradient; torch's scores have the dtype, ours float32."""
    size, width = bench.pick((32_768, 512), (256, 16))
    views = list(np.random.default_rng(0).standard_normal((2, size, width), np.float32))
    views = [view / width**0.5 for view in views]
    mode = loss, views, bench.device, bench.torch_compile, dtype
    theirs = in_own_process(losses.make_torch, *mode)
    theirs()  # It may not have the memory.
    options = argparse.Namespace(devices=1, batch_size=size, chunk_size=bench.pick(1024, 64))
    for engine in ("auto:16384", "chunked"):  # With memory for all scores, and in tiles.
        ours, megabytes = losses.compile_ours(loss, engine, views, options)
        facts = {"engine": engine, "torch_dtype": dtype, "batch_size": size}
        bench.compare(loss, ours, theirs, temporaries_mb=megabytes, **facts)


def compare_embedding(bench: Bench) -> None:
    """Prints the time in which a decoded picture is embedded."""
    config = clip_config(bench, "vit_b32")
    run, _ = steps.make_run(config)
    side, (count, batch_size) = config.data.image.size, bench.pick((4096, 256), (16, 8))
    images = np.random.default_rng(0).integers(0, 256, (count, side, side, 3), np.uint8)
    mode = bench.device, bench.torch_compile
    theirs = in_own_process(make_torch_embedding, config, images, batch_size, *mode)
    weights, pictures = jax.jit(run.init_params)(run.key_data), run.settings.data.image
    model = Model("random", run.model, *weights, mesh=run.mesh, images=pictures)
    ours = functools.partial(model.embed_images, images, batch_size=batch_size)
    bench.compare("embed_images", ours, theirs, count=count, batch_size=batch_size)


def make_torch_embedding(
    config: ConfigDict, images: np.ndarray, batch_size: int, device: str, backend: str
) -> Callable[[], None]:
    """Returns a function that embeds uint8 [N, S, S, 3] by `get_image_features`."""
    embed = torch.compile(Contrastive(config).eval().to(device), backend=backend)

    @torch.inference_mode()
    def run() -> None:
        with torch.autocast(device, torch.bfloat16):
            parts = torch.from_numpy(images).split(batch_size)
            torch.cat([embed(part.to(device)) for part in parts]).cpu()

    return run


def main() -> int:
    """Prints all figures, or some; an error of one does not stop the others."""
    parser = argparse.ArgumentParser()
    for flag in ("--small", "--unroll"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--annotations", help="folder of released label files")
    parser.add_argument("--only", nargs="+", help="names of figures")
    args = parser.parse_args()
    compute_in_caller()
    if jax.default_backend() == "gpu":
        bench = Bench(args.small, args.unroll, "cuda", "inductor")
    else:
        jax.config.update("jax_disable_most_optimizations", True)
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # Threads of torch would wait for ours.
        bench = Bench(True, args.unroll, "cpu", "eager")
    figures: dict[str, Callable[[], None]] = {
        "vit_b32": lambda: compare_clip(bench, "vit_b32"),
        "siglip_b16": lambda: compare_clip(bench, "siglip_b16"),
        "cxc_multitask": lambda: compare_multitask(bench),
        "blip_pairs": lambda: compare_blip(bench),
        "embed_images": lambda: compare_embedding(bench),
    }
    for loss, dtype in itertools.product(("softmax", "sigmoid"), ("float32", "bfloat16")):
        figures[f"{loss}_{dtype}"] = functools.partial(compare_loss, bench, loss, dtype)
    if args.annotations:
        given = args.annotations, bench.pick(1792, 16), 1, None, bench.device
        figures["evaluation"] = lambda: evaluation.measure(*given)
    failed = False
    for name in args.only or figures:
        try:
            figures[name]()
        except Exception as error:
            failed = True
            print(json.dumps({"figure": name, "error": f"{error!r:.500}"}), flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

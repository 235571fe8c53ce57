"""Estimates pairs per second of BLIP and ViLT on TPUs that this machine does not have.

    python -m tests.benchmarks.pair_costs [--models blip vilt] [--topologies v3:4x4 v5e:4x4]
        [--text_tokens=14]

Compiles the scoring of a block of pairs for one device of a slice (extra `tpu`), with the base
sizes, bfloat16 and the block of a device of 16 GiB: devices share no work, so a slice is as fast as
its devices together. Prints a line of JSON for each. The time is libtpu's estimate, beside the
FLOPs at the published peak and the traffic at the published bandwidth; encoders, keys and values of
images and transfers from the host are left out.
"""

import argparse
import functools
import json
from typing import Any

import jax
import jax.numpy as jnp

from tests.benchmarks.accelerators import estimate_seconds, find
from tests.benchmarks.pair_scores import IMAGE_TOKENS, WIDTH, example, make_model
from xmodal.evals.scores.pair_scores import Tokens
from xmodal.train.costs import accelerators
from xmodal.train.costs.cost import measure
from xmodal.train.pair_functions import make_pair_functions

IMAGES = {"blip": 16, "vilt": 4}  # Of a block.
TEXTS = 16  # Per image.
ALL = 5_000 * 25_000  # Pairs of COCO's test split.
TOP = (5_000 + 25_000) * 256


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", nargs="+", choices=sorted(IMAGES), default=sorted(IMAGES))
    parser.add_argument("--topologies", nargs="+", default=["v3:4x4", "v5e:4x4"])
    parser.add_argument("--text_tokens", type=int, default=14)
    args = parser.parse_args()
    for topology in args.topologies:
        for model in args.models:
            figures = estimate(model, topology, args.text_tokens)
            print(json.dumps(figures), flush=True)


def estimate(model: str, topology: str, text_tokens: int) -> dict[str, Any]:
    """Returns the figures of a model on a slice."""
    devices = accelerators.slice_devices(topology)
    compiled = compile_block(model, text_tokens, devices[0])
    accelerator = find(devices[0])
    assert accelerator is not None
    cost, pairs = measure(compiled), IMAGES[model] * TEXTS
    products = cost.flops / (accelerator.tflops * 1e12)
    traffic = cost.moved_bytes / (accelerator.bandwidth * 1e9)
    seconds = estimate_seconds(cost, accelerator)
    assert seconds is not None
    rate = pairs / seconds * len(devices)
    return {
        "figure": f"{model}_pairs",
        "topology": topology,
        "devices": len(devices),
        "text_tokens": text_tokens,
        "gflop_per_pair": round(cost.flops / pairs / 1e9, 2),
        "mb_moved_per_pair": round(cost.moved_bytes / pairs / 1e6, 1),
        "peak_gib": round(cost.peak_bytes / 2**30, 2),
        "seconds": round(seconds, 4),
        "products_seconds": round(products, 4),
        "traffic_seconds": round(traffic, 4),
        "pairs_per_second": round(rate),
        "hours_of_all": round(ALL / rate / 3600, 2),
        "hours_of_top_256": round(TOP / rate / 3600, 3),
    }


def compile_block(name: str, text_tokens: int, device: jax.Device) -> jax.stages.Compiled:
    """Returns the scoring of a block of pairs, compiled for a device."""
    tokens = IMAGE_TOKENS[name]
    model = make_model(name, tokens, dtype="bfloat16")
    image = jax.ShapeDtypeStruct((1, tokens, WIDTH), jnp.float32)
    inputs = example(image, text_tokens)
    params = jax.eval_shape(lambda key, x: model.init(key, x)[0], jax.random.key(0), inputs)
    functions = make_pair_functions(model)
    assert functions is not None
    bound = jax.eval_shape(functions.bind, params)
    images = _tokens((IMAGES[name], tokens), (WIDTH,), jnp.bfloat16)
    texts = _tokens((IMAGES[name] * TEXTS, text_tokens), (1,), jnp.int32)
    prepared_images, prepared_texts = (
        jax.eval_shape(functools.partial(functions.prepare, side), bound, items)
        for side, items in (("image", images), ("text", texts))
    )
    prepared_texts = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct((IMAGES[name], TEXTS, *x.shape[1:]), x.dtype), prepared_texts
    )
    placed = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(
            x.shape, x.dtype, sharding=jax.sharding.SingleDeviceSharding(device)
        ),
        (bound, prepared_images, prepared_texts),
    )
    return jax.jit(functions.score).lower(*placed).compile()


def _tokens(items: tuple[int, int], width: tuple[int], dtype: jax.typing.DTypeLike) -> Tokens:
    mask = jax.ShapeDtypeStruct(items, jnp.bool_)
    return Tokens(jax.ShapeDtypeStruct((*items, *width), dtype), mask)


if __name__ == "__main__":
    main()

r"""Counts the layers of CLIP ViT-B/16's towers on a TPU that this machine does not have.

    python -m tests.benchmarks.layer_costs [--topology=v3:4x4] [--towers image text] [--depth=1]
        [--batch_size=1024]

A step of `configs/clip.py` runs its layers in loops, whose bodies `--dry_run` counts once. Here,
layers of the same size are compiled one by one, forward and backward with `remat`, for a core's
share of a batch (extra `tpu`); nothing else is in the program. Prints a line of JSON per tower: the
TFLOP, the GB moved and the time of one layer, libtpu's estimate or the slower of products and
traffic at the published peaks. What `--dry_run` prints plus 11 times these figures is the step.
"""

import argparse
import json
from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.sharding import SingleDeviceSharding

from configs import clip
from tests.benchmarks.accelerators import estimate_seconds, find
from xmodal.models.transformer_layers import StackConfig
from xmodal.train.costs import accelerators
from xmodal.train.costs.cost import measure

TOKENS = {"image": 197, "text": 77}


class Stack(nn.Module):
    """Layers of a tower, compiled separately."""

    config: StackConfig
    options: Mapping[str, Any]

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return self.config.run_layers(x, None, 0.0, **self.options)


def count(tower: str, args: argparse.Namespace) -> dict[str, Any]:
    """Returns the figures of one layer."""
    encoder = clip.get_config("vit_b16").model[tower].encoder
    config = StackConfig(
        encoder.width, args.depth, encoder.heads, encoder.mlp_dim, dtype="bfloat16", remat=True,
        unroll=True,
    )  # fmt: skip
    options = {"norm_first": True, "activation": encoder.activation, "causal": tower == "text"}
    stack = Stack(config, options | {"epsilon": encoder.epsilon})
    device = accelerators.slice_devices(args.topology)[0]
    sharding = SingleDeviceSharding(device)
    shape = (args.batch_size, TOKENS[tower], encoder.width)
    x = jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=sharding)
    params = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
        jax.eval_shape(stack.init, jax.random.key(0), x),
    )

    def both_ways(params: Any, x: jax.Array, change: jax.Array) -> tuple:
        y, pull = jax.vjp(stack.apply, params, x)
        return y, pull(change)

    cost = measure(jax.jit(both_ways).lower(params, x, x).compile())
    seconds = estimate_seconds(cost, find(device))
    assert seconds is not None
    return {
        "topology": args.topology,
        "tower": tower,
        "batch_size": args.batch_size,
        "depth": args.depth,
        "tflop": round(cost.flops / args.depth / 1e12, 4),
        "gb_moved": round(cost.moved_bytes / args.depth / 1e9, 3),
        "seconds": round(seconds / args.depth, 5),
        "is_estimate_of_libtpu": cost.compiler_seconds is not None,
    }


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topology", default="v3:4x4")
    parser.add_argument("--towers", nargs="+", choices=TOKENS, default=list(TOKENS))
    parser.add_argument("--depth", type=int, default=1)
    parser.add_argument("--batch_size", type=int, default=1024)
    args = parser.parse_args()
    for tower in args.towers:
        print(json.dumps(count(tower, args)), flush=True)


if __name__ == "__main__":
    main()

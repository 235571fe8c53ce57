r"""Compares forms of attention in a ViT-B layer: time on a CPU, memory and traffic on absent TPUs.

    taskset -c 0 python -m tests.benchmarks.attention_forms [--forms sums kernel] [--rounds=5]
        [--topologies v3:4x4 v5e:4x8]

Forward and backward, without the linear layers. Prints a line of JSON per form and device: CPU
seconds in float32 for ViT-B/32 and ViT-B/16, in turn, and their ratio to `products`, the form of
every layer; or GiB and GB of one core as compiled (extra `tpu`) for 1,024 pictures in bfloat16.
"""

import argparse
import json
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas.ops.tpu import flash_attention as flash
from jax.sharding import SingleDeviceSharding

from xmodal.models.attention import attend, split_heads
from xmodal.train.costs import accelerators
from xmodal.train.costs.cost import measure

HEADS, WIDTH = 12, 768
# Pictures and tokens.
ON_CPU = {"vit_b32": (32, 50), "vit_b16": (8, 197)}
ON_TPU = (1024, 197)
TILE = 128


def kernel(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
    """Pallas's flash attention, padded to whole tiles, one block per picture."""
    tokens, rest = query.shape[1], -query.shape[1] % TILE
    size, widths = tokens + rest, ((0, 0), (0, 0), (0, rest), (0, 0))
    heads = (jnp.pad(x.swapaxes(1, 2), widths) for x in (query, key, value))
    part = jnp.broadcast_to(jnp.arange(size, dtype=jnp.int32) // tokens, (len(query), size))
    blocks = flash.BlockSizes(
        block_b=1, **{f"block_{name}": size for name in (
            "q", "k_major", "k", "q_major_dkv", "k_major_dkv", "k_dkv", "q_dkv", "k_major_dq",
            "k_dq", "q_dq",
        )}
    )  # fmt: skip
    attended = flash.flash_attention(
        *heads, segment_ids=flash.SegmentIds(part, part), sm_scale=query.shape[-1] ** -0.5,
        block_sizes=blocks,
    )  # fmt: skip
    return attended[:, :, :tokens].swapaxes(1, 2)


FORMS: dict[str, Callable] = {
    "products": lambda query, key, value: attend(query, key, value, None, lambda weights: weights),
    "sums": lambda query, key, value: attend(query, key, value, None),
    "jax": jax.nn.dot_product_attention,
    "kernel": kernel,
}


def make_layer(form: str) -> Callable:
    """Returns a function of query, key, value and a gradient, all [N, T, W]."""

    def layer(*arrays: jax.Array) -> tuple:
        *inputs, change = arrays
        outputs, pull = jax.vjp(
            lambda *x: FORMS[form](*(split_heads(each, HEADS) for each in x)).reshape(change.shape),
            *inputs,
        )
        return outputs, pull(change)

    return layer


def time_on_cpu(forms: list[str], rounds: int) -> None:
    """Prints seconds of the forms that a CPU can run."""
    rng = np.random.default_rng(0)
    for model, shape in ON_CPU.items():
        arrays = [jnp.asarray(rng.normal(size=(*shape, WIDTH)), jnp.float32) for _ in range(4)]
        layers = {form: jax.jit(make_layer(form)) for form in forms if form != "kernel"}
        seconds: dict[str, list[float]] = {form: [] for form in layers}
        for _ in range(rounds + 1):
            for form, layer in layers.items():
                started = time.process_time()
                jax.block_until_ready(layer(*arrays))
                seconds[form].append(time.process_time() - started)
        best = {form: min(each[1:]) for form, each in seconds.items()}
        for form, spent in best.items():
            ratio = round(spent / best["products"], 2)
            print(json.dumps({"model": model, "form": form, "cpu_s": spent, "ratio": ratio}))


def compile_for(topology: str, forms: list[str]) -> None:
    """Prints memory and traffic on one core of a slice."""
    device = SingleDeviceSharding(accelerators.slice_devices(topology)[0])
    array = jax.ShapeDtypeStruct((*ON_TPU, WIDTH), jnp.bfloat16, sharding=device)
    for form in forms:
        figures: dict[str, object] = {"topology": topology, "form": form}
        try:
            cost = measure(jax.jit(make_layer(form)).lower(*[array] * 4).compile())
            figures["temporaries_gib"] = round(cost.temporary_bytes / 2**30, 2)
            figures["gb_moved"] = round(cost.moved_bytes / 1e9, 1)
        except jax.errors.JaxRuntimeError as error:
            figures["error"] = str(error).splitlines()[0]
        print(json.dumps(figures), flush=True)


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS)[1:])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--topologies", nargs="*", default=[])
    args = parser.parse_args()
    forms = ["products", *args.forms]
    if args.rounds:
        time_on_cpu(forms, args.rounds)
    for topology in args.topologies:
        compile_for(topology, forms)


if __name__ == "__main__":
    main()

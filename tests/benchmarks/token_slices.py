"""Compiles the scores of COCO's whole test split by SCAN, SAF and SGR for an absent TPU slice.

    JAX_PLATFORMS=cpu python -m tests.benchmarks.token_slices [--topology=v3:4x4] [--family=saf]
        [--images=5000] [--captions=25000] [--lengths=12]

An evaluation scores all pairs in rounds of one block per core, see
`xmodal/evals/scores/score_blocks.py`. The program of a round is compiled for captions of each
length of --lengths. Sizes are those of `token_scores`. Prints a line of JSON per family and length:
the rounds of all lengths; FLOPs of all pairs with padding, by the similarity's own count; per core
of a round, memory, traffic (all iterations of a loop, whole operands) and the time that it takes at
the published bandwidth, and that of the products, which take six passes in bfloat16 at the
precision of an evaluation; the larger time for all rounds; and what a host with eight cores sends
to them in a round.
"""

import argparse
import functools
import json
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from tests.benchmarks.accelerators import find
from tests.benchmarks.program import read_program
from tests.benchmarks.token_scores import FAMILIES, REGIONS, WIDTH, draw_lengths
from tests.benchmarks.traffic import count_traffic
from xmodal.core import mesh as mesh_lib
from xmodal.evals.scores import score_blocks
from xmodal.evals.scores.ragged_tokens import RaggedTokens
from xmodal.evals.scores.score_blocks import HostItems
from xmodal.similarity import Embedding, make_similarity
from xmodal.train.costs import accelerators, cost

PASSES, CORES_OF_A_HOST = 6, 8


def make_shapes(lengths: np.ndarray) -> HostItems:
    """Items of zeros that need no memory."""
    zeros = np.zeros((1, WIDTH), np.float32)
    tokens = np.broadcast_to(zeros, (lengths.sum(), WIDTH))
    return HostItems(np.broadcast_to(zeros, (len(lengths), WIDTH)), RaggedTokens(tokens, lengths))


def describe(items: int, tokens: int, cores: int, sharding: NamedSharding) -> Embedding:
    """Shapes of a block for each core."""

    def shape(*sizes: int, dtype: Any = np.float32) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((cores, items, *sizes), dtype, sharding=sharding)

    extras = {"tokens": shape(tokens, WIDTH), "mask": shape(tokens, dtype=np.bool_)}
    return Embedding(shape(WIDTH), extras=extras)


def compile_family(
    family: str, topology: str, images: HostItems, captions: HostItems, lengths: list[int]
) -> None:
    """Prints the figures of one family."""
    devices = accelerators.slice_devices(topology)
    mesh, similarity = mesh_lib.make_mesh(devices), make_similarity(FAMILIES[family])
    items = [images.block(np.arange(1), REGIONS), captions.block(np.arange(1), 12)]
    params = jax.eval_shape(functools.partial(similarity.init, jax.random.key(0)), *items)
    # Planning needs values of the parameters only for their shapes.
    zeros = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), params)
    blocks = list(score_blocks._plan(similarity, zeros, images, captions, REGIONS))
    rounds = len(list(score_blocks._rounds(blocks, np.zeros(len(blocks), bool), mesh.size)))
    flops = sum(
        count_flops(similarity, zeros, block.length) * len(block.rows) * len(block.columns)
        for block in blocks
    )
    accelerator = find(devices[0])
    split, whole = NamedSharding(mesh, P(mesh_lib.BATCH_AXIS)), mesh_lib.replicated(mesh)
    params = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=whole), params)
    for length in lengths:
        block = next(block for block in blocks if block.length == length)
        sides = [
            describe(len(positions), tokens, mesh.size, split)
            for positions, tokens in ((block.rows, REGIONS), (block.columns, length))
        ]
        compiled = score_blocks._score_blocks.lower(similarity, mesh, params, *sides).compile()
        found = cost.measure(compiled)
        traffic = count_traffic(read_program(compiled.as_text()))
        moved = sum(sum(part.values()) for part in traffic.values())
        own = count_flops(similarity, zeros, length) * len(block.rows) * len(block.columns)
        seconds = {
            "products": PASSES * own / (accelerator.tflops * 1e12),
            "traffic": moved / (accelerator.bandwidth * 1e9),
        }
        sent = sum(np.prod(x.shape[1:]) * x.dtype.itemsize for x in jax.tree.leaves(sides))
        print(
            json.dumps(
                {
                    "figure": f"whole test split by {family}",
                    "topology": topology,
                    "length": length,
                    "block": [len(block.rows), len(block.columns)],
                    "blocks": len(blocks),
                    "rounds": rounds,
                    "pflop": round(flops / 1e15, 3),
                    "arguments_gib": round(found.argument_bytes / 2**30, 3),
                    "temporaries_gib": round(found.temporary_bytes / 2**30, 3),
                    "gb_moved": round(moved / 1e9, 2),
                    "seconds": {name: round(each, 4) for name, each in seconds.items()},
                    "seconds_of_all": round(rounds * max(seconds.values()), 1),
                    "host_gb_per_round": round(CORES_OF_A_HOST * sent / 1e9, 2),
                }
            ),
            flush=True,
        )


def count_flops(similarity: Any, params: Any, length: int) -> float:
    """FLOPs of a pair."""
    prepare = functools.partial(similarity.prepare, params=params)
    zeros = [np.ones(1, np.int64) * tokens for tokens in (REGIONS, length)]
    sides = [make_shapes(each).block(np.arange(1), int(each[0])) for each in zeros]
    return similarity.cost(*(jax.eval_shape(prepare, side) for side in sides)).flops


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topology", default="v3:4x4")
    parser.add_argument("--family", choices=FAMILIES)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--captions", type=int, default=25_000)
    parser.add_argument("--lengths", type=int, nargs="+", default=[12])
    args = parser.parse_args()
    images = make_shapes(np.full(args.images, REGIONS))
    captions = make_shapes(draw_lengths(args.captions))
    for family in [args.family] if args.family else FAMILIES:
        compile_family(family, args.topology, images, captions, args.lengths)


if __name__ == "__main__":
    main()

"""Training on stored features of BERT's frozen layers against training through all of them.

    python tests/benchmarks/frozen_cache.py [--depth=12 --lower_depth=0 --width=768 --heads=12]

Both run in turn on the same batches from the same start: the losses are printed side by side, and
examples per second with what the features cost. The embedded dataset, two captions per image. With
--lower_depth=0 all of BERT is frozen and the paper's three layers train on top; with another number
the remaining layers of BERT train.
"""

import argparse
import tempfile
import time

import jax

import data_prep
from configs import cxc_text_text
from data_prep.build import build
from xmodal.training import frozen_cache, loop, preflight, sharding

IMAGES = {"train": 2000, "validation": 25, "test": 25}


def make_config(args, folder):
    """DE_T2T at the size that was asked for."""
    config = cxc_text_text.get_config("quick")
    config.total_steps, config.batch_size = args.steps, args.batch_size
    config.data.data_dir, config.data.text.max_length = folder, args.max_length
    text = config.model.text
    text.width, text.depth, text.heads = args.width, args.depth, args.heads
    text.mlp_dim, text.max_positions = 4 * args.width, args.max_length
    if args.lower_depth:
        text.lower_depth, text.adapter, text.pool = args.lower_depth, None, "mean"
        config.freeze = ["text/bert/(?!layers/)"]
    else:
        text.adapter.width, text.adapter.heads = args.width, args.heads
        text.adapter.mlp_dim, text.adapter.depth = 4 * args.width, 3
    config.model.similarity = "cosine"
    config.tasks.t2t.options.temperature = 0.05
    config.optimizer.learning_rate = 1e-4
    config.frozen_cache = f"{folder}/cache"
    return config


def run(config, cached):
    """The losses of a run, its seconds per step without the first two, and those of the cache."""
    config = config.copy_and_resolve_references()
    config.frozen_cache = config.frozen_cache if cached else ""
    parts = preflight.assemble(config)
    state = loop.starting_state(parts, "/no/such/run")
    started = time.perf_counter()
    store = frozen_cache.open_or_build(parts, state) if cached else None
    building = time.perf_counter() - started
    step = loop.compile_step(parts, state)
    batches = loop.make_batches(parts, 0)
    if cached:
        batches = frozen_cache.replace_ids(batches, store)
    losses, times = [], []
    for number, batch in enumerate(batches):
        state, scalars = step(
            state,
            sharding.global_batch(batch, parts.mesh),
            sharding.put_step(number, parts.mesh),
        )
        losses.append(float(jax.block_until_ready(scalars)["train/loss"]))
        times.append(time.perf_counter())
    return losses, (times[-1] - times[1]) / (len(times) - 2), building


def main():
    """Prints a table of losses and the speeds."""
    parser = argparse.ArgumentParser()
    for name, default in {
        "width": 384, "depth": 6, "heads": 12, "lower_depth": 3, "max_length": 24,
        "batch_size": 64, "steps": 12,
    }.items():  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data_prep.builder_class("crisscrossed_shapes").SPLIT_SIZES = IMAGES
        for name in ("images", "ratings"):
            build("crisscrossed_shapes", name, data_dir=folder)
        config = make_config(args, folder)
        plain, plain_time, _ = run(config, cached=False)
        cached, cached_time, building = run(config, cached=True)
    print("step     all layers     cached")
    for number, (one, other) in enumerate(zip(plain, cached, strict=True)):
        print(f"{number:4}{one:15.5f}{other:11.5f}")
    for name, seconds in (("all layers", plain_time), ("cached", cached_time)):
        print(f"{name}: {args.batch_size / seconds:.1f} images per second")
    speed = IMAGES["train"] * 5 / building
    print(
        f"ratio {plain_time / cached_time:.2f}; features of about {speed:.0f} captions per second"
    )


if __name__ == "__main__":
    main()

"""Compares training on stored features of BERT's frozen layers with computing all layers.

    python -m tests.benchmarks.frozen_features [--depth=12 --lower_depth=0 --width=768 --heads=12]

Two runs take turns, step by step, on the same batches from the same initial state. Prints the
losses side by side, examples per second (medians) and the cost of the features. Uses the built-in
dataset, two captions per image. With --lower_depth=0, all of BERT is frozen and the paper's three
layers on top are trained; with another number, the remaining layers of BERT are trained.
"""

import argparse
import statistics
import tempfile
import time

import data_prep
from configs import cxc_text_text
from data_prep.build import build
from xmodal.core import mesh as mesh_lib
from xmodal.train import compiled_step, frozen_features, loop
from xmodal.train.resolve import resolve
from xmodal.train.start import starting_state

IMAGES = {"train": 1000, "validation": 25, "test": 25}


def make_config(args, folder):
    """DE_T2T at the requested size."""
    config = cxc_text_text.get_config("quick")
    config.total_steps, config.batch_size = args.steps, args.batch_size
    config.data.data_dir, config.data.text.max_length = folder, args.max_length
    encoder, head = config.model.text.encoder, config.model.text.head
    encoder.update({"width": args.width, "depth": args.depth, "heads": args.heads})
    encoder.update({"mlp_dim": 4 * args.width, "max_positions": args.max_length})
    if args.lower_depth:
        encoder.lower_depth, config.model.text.head = args.lower_depth, {"name": "mean"}
        config.freeze = ("text/encoder/(?!layers/)",)
    else:
        head.update({"width": args.width, "heads": args.heads, "mlp_dim": 4 * args.width})
        head.depth = 3
    config.model.similarity = {"name": "cosine", "temperature": 0.05}
    config.optimizer.learning_rate = 1e-4
    config.frozen_features = {"sides": ("text",), "folder": f"{folder}/features"}
    return config


class Run:
    """A run that is executed step by step."""

    def __init__(self, config, *, stored):
        config = config.copy_and_resolve_references()
        if not stored:
            config.frozen_features.sides = ()
        self._parts = resolve(config)
        self._state = starting_state(self._parts, "/no/such/run")
        started = time.perf_counter()
        features = frozen_features.open_or_compute(self._parts, self._state)
        self.building = time.perf_counter() - started
        self._batches = loop.make_batches(self._parts, 0, features)
        self._step = compiled_step.compile_step(self._parts, self._state, features)
        self.losses, self._times = [], []

    def step(self):
        """Executes one step, from the batch to the loss."""
        started = time.perf_counter()
        batch = mesh_lib.global_batch(next(self._batches), self._parts.mesh)
        number = mesh_lib.put_step(len(self.losses), self._parts.mesh)
        self._state, scalars = self._step(self._state, batch, number)
        self.losses.append(float(scalars["train/loss"]))
        self._times.append(time.perf_counter() - started)

    @property
    def seconds(self):
        """Median seconds per step, after two warm-up steps."""
        return statistics.median(self._times[2:])


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
        plain, stored = Run(config, stored=False), Run(config, stored=True)
        for _ in range(args.steps):
            plain.step()
            stored.step()
    print("step  all layers     stored")
    for number, losses in enumerate(zip(plain.losses, stored.losses, strict=True)):
        print(f"{number:4}" + "".join(f"{loss:12.5f}" for loss in losses))
    for name, each in (("all layers", plain), ("stored", stored)):
        print(f"{name}: {args.batch_size / each.seconds:.1f} images per second")
    speed = IMAGES["train"] * 5 / stored.building
    print(
        f"ratio {plain.seconds / stored.seconds:.2f}; "
        f"features of about {speed:.0f} captions per second"
    )


if __name__ == "__main__":
    main()

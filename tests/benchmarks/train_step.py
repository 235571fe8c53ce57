"""Measures the training step of any config in examples per second, with and without input.

    python -m tests.benchmarks.train_step --config=quickstart:i2t [--rounds=20] [--pipeline=false]

Runs on all available devices. Prints three lines of JSON: compilation; the step on one batch that
stays on the devices; the step as in the training loop, with each batch read, decoded and sent while
the previous step runs, which needs the dataset (--pipeline=false skips it). `share_of_peak` is the
ratio of the compiler's FLOPs, which count every loop once, to the published peak of the device.
For comparisons with torch, see tests.benchmarks.paper_steps for the models of the CxC paper and
training_steps for those of image-text matching.
"""

import json
import statistics
import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from absl import flags, logging

from tests.benchmarks.accelerators import find
from xmodal.apps import config_flag
from xmodal.core import mesh as mesh_lib
from xmodal.data import FeatureReader
from xmodal.train import frozen_features, loop, preflight
from xmodal.train.compiled_step import CompiledStep, abstract_batch, compile_step
from xmodal.train.resolve import resolve
from xmodal.train.run import Run
from xmodal.train.step import state

flags.adopt_module_key_flags(config_flag)
ROUNDS = flags.DEFINE_integer("rounds", 20, "Steps that are timed, after two of warming up.", 1)
PIPELINE = flags.DEFINE_bool("pipeline", True, "Whether to read the dataset, too.")
WARMING_UP = 2


def make_batch(parts: Run, features: Sequence[FeatureReader]) -> dict[str, jax.Array]:
    """A batch of random pixels, words and stored features, on the devices."""
    rng = np.random.default_rng(0)
    rows = (parts.settings.model.get("text") or {}).get("encoder", {}).get("vocab_size", 2)
    arrays, batch = {}, abstract_batch(parts, features)
    for name, spec in batch.items():
        if name == "text_ids":
            arrays[name] = rng.integers(1, rows, spec.shape)
        elif name.endswith("_mask"):
            arrays[name] = np.ones(spec.shape)
        elif name.endswith("_id"):
            arrays[name] = np.arange(np.prod(spec.shape)).reshape(spec.shape)
        elif np.issubdtype(spec.dtype, np.integer):
            arrays[name] = rng.integers(0, 255 if name == "image" else 2, spec.shape)
        else:
            arrays[name] = rng.random(spec.shape, np.float32)
    typed = {name: array.astype(batch[name].dtype) for name, array in arrays.items()}
    return mesh_lib.global_batch(typed, parts.mesh)


def time_on_devices(
    parts: Run,
    step: CompiledStep,
    first: state.TrainState,
    features: Sequence[FeatureReader],
) -> dict[str, Any]:
    """Seconds per step with a batch that is already on the devices."""
    batch, seconds = make_batch(parts, features), []
    for number in range(WARMING_UP + ROUNDS.value):
        started = time.perf_counter()
        first, scalars = step(first, batch, mesh_lib.put_step(number, parts.mesh))
        jax.block_until_ready(scalars)
        seconds.append(time.perf_counter() - started)
    return describe(parts, step.flops(batch), statistics.median(seconds[WARMING_UP:]))


def time_with_pipeline(parts: Run, step: CompiledStep, first: state.TrainState) -> dict[str, Any]:
    """Seconds per step as in the training loop; features are computed first."""
    features = frozen_features.open_or_compute(parts, first)
    batches, started, flops = loop.make_batches(parts, 0, features), 0.0, 0.0
    for number in range(WARMING_UP + ROUNDS.value):
        if number == WARMING_UP:
            jax.block_until_ready(first)
            started, flops = time.perf_counter(), 0.0
        batch = mesh_lib.global_batch(next(batches), parts.mesh)
        first, _ = step(first, batch, mesh_lib.put_step(number, parts.mesh))
        flops += step.flops(batch)
    jax.block_until_ready(first)
    seconds = (time.perf_counter() - started) / ROUNDS.value
    return describe(parts, flops / ROUNDS.value, seconds)


def describe(parts: Run, flops: float, seconds: float) -> dict[str, Any]:
    """The figures for a step; its FLOPs are those of one device."""
    accelerator = find(jax.devices()[0])
    rate = flops / seconds
    return {
        "seconds": round(seconds, 5),
        "examples_per_second": round(parts.settings.batch_size / seconds, 2),
        "tflops_per_second_and_device": round(rate / 1e12, 4),
        "share_of_peak": accelerator and round(rate / (accelerator.tflops * 1e12), 3),
    }


def main(argv: list[str]) -> None:
    """Prints the figures."""
    del argv
    logging.set_verbosity(logging.WARNING)
    config = config_flag.read_config()
    config.total_steps = 10**6
    parts = resolve(config, needs_data=PIPELINE.value)

    def fresh() -> state.TrainState:
        return state.create_state(parts.init_state, parts.state_shapes, parts.key_data)

    given = {
        "config": config.name,
        "device": jax.devices()[0].device_kind,
        "devices": parts.mesh.size,
        "batch_size": parts.settings.batch_size,
    }
    shapes = parts.state_shapes
    started = time.perf_counter()
    sides = parts.settings.frozen_features.sides
    features = [preflight.feature_shapes(parts, side) for side in sides]
    step = compile_step(parts, shapes, features)
    compiled = {"seconds": round(time.perf_counter() - started, 2)}
    memory = step.longest.memory_analysis()
    compiled["temporaries_mb"] = round(memory.temp_size_in_bytes / 1e6, 1)
    print(json.dumps({"figure": "compilation", **given, **compiled}), flush=True)
    found = time_on_devices(parts, step, fresh(), features)
    print(json.dumps({"figure": "step", **given, **found}), flush=True)
    if PIPELINE.value:
        found = time_with_pipeline(parts, step, fresh())
        print(json.dumps({"figure": "step with input", **given, **found}), flush=True)


if __name__ == "__main__":
    flags.mark_flag_as_required("config")
    config_flag.run(main)

"""Config of a small run that appends its losses to STRESS_LOG; that of STRESS_POISON is NaN."""

import dataclasses
import functools
import json
import os

import jax.numpy as jnp

from configs import quickstart
from xmodal.losses import LOSSES
from xmodal.train import reporting

_record = reporting.Reporter.record


def _record_and_log(self, step, scalars, *others):
    with open(os.environ["STRESS_LOG"], "a") as file:
        file.write(json.dumps([step, float(scalars["train/loss"]).hex()]) + "\n")
    _record(self, step, scalars, *others)


def _poison(loss):
    @functools.wraps(loss)
    def poisoned(left, right, context, **options):
        value, scalars = loss(left, right, context, **options)
        is_bad = context.step == int(os.environ["STRESS_POISON"])
        return value + jnp.where(is_bad, jnp.nan, 0.0), scalars

    return poisoned


def get_config():
    """Pixels against captions; dropout, augmentation, running statistics and frozen parameters."""
    reporting.Reporter.record = _record_and_log
    if "STRESS_POISON" in os.environ:
        row = LOSSES["softmax"]
        LOSSES["softmax"] = dataclasses.replace(row, function=_poison(row.function))
    config = quickstart.get_config("i2t")
    config.name, config.data.data_dir = "stress", os.environ["STRESS_DATA"]
    config.data.captions_per_image = 1
    config.data.image.size, config.data.text.max_length = 16, 16
    config.model.image.encoder.update({"channels": (4, 8), "units": (0, 1)})
    config.model.image.projection.width = config.model.text.projection.width = 32
    text = config.model.text
    text.encoder.update({"width": 32, "heads": 2, "mlp_dim": 64, "max_positions": 16})
    text.encoder.dropout, text.head = 0.1, {"name": "mean"}
    config.freeze = ("text/encoder/position_embeddings",)
    config.batch_size, config.total_steps, config.log_every = 16, 60, 20
    config.optimizer.schedule = {"name": "constant", "warmup_steps": 4}
    config.evals.shapes.update({"bootstrap_samples": 10, "every": 20})
    config.checkpoint.update({"keep_last": 3, "every": 5})
    return config

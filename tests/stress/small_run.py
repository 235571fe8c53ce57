"""Config of a small run with two towers, which the test monitors through files.

STRESS_DATA is the folder of the dataset. The run appends every batch and loss to STRESS_LOG, and
STRESS_EVALUATING exists while it evaluates. The batch of step STRESS_POISON has a loss of NaN.
"""

import dataclasses
import functools
import json
import os
import pathlib

import jax.numpy as jnp

from configs import quickstart
from xmodal.evals import Embedder
from xmodal.losses import LOSSES
from xmodal.train import loop, reporting

_make_batches, _record, _embed = loop.make_batches, reporting.Reporter.record, Embedder.__call__


def _log(**entry):
    line = json.dumps({"process": os.getpid(), **entry}) + "\n"
    descriptor = os.open(os.environ["STRESS_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, line.encode())  # at once, so that a kill leaves complete lines
    os.close(descriptor)


def _watched_batches(run, first_step, features=()):
    for step, batch in enumerate(_make_batches(run, first_step, features), first_step):
        _log(step=step, ids=batch["image_id"].tolist() + batch["caption_id"].ravel().tolist())
        yield batch


def _watched_record(self, step, scalars, *others):
    _log(step=step, loss=float(scalars["train/loss"]).hex())
    _record(self, step, scalars, *others)


def _watched_embed(*arguments, **options):
    marker = pathlib.Path(os.environ["STRESS_EVALUATING"])
    marker.touch()
    try:
        return _embed(*arguments, **options)
    finally:
        marker.unlink(missing_ok=True)


def _poison(loss):
    @functools.wraps(loss)
    def poisoned(left, right, context, **options):
        value, scalars = loss(left, right, context, **options)
        is_bad = context.step == int(os.environ["STRESS_POISON"])
        return value + jnp.where(is_bad, jnp.nan, 0.0), scalars

    return poisoned


def get_config():
    """Pixels against captions; dropout, augmentation, running statistics and frozen parameters."""
    loop.make_batches, reporting.Reporter.record = _watched_batches, _watched_record
    Embedder.__call__ = _watched_embed
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
    config.batch_size, config.total_steps, config.log_every = 16, 60, 1000
    config.optimizer.schedule = {"name": "constant", "warmup_steps": 4}
    config.evals.shapes.update({"bootstrap_samples": 10, "every": 20})
    config.checkpoint.update({"keep_last": 3, "every": 5})
    return config

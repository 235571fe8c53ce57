"""Models train and evaluate on datasets without tensorflow, which takes seconds to import."""

import os
import subprocess
import sys

import pytest

from tests import short_runs

PROGRAM = """
import sys

from types import SimpleNamespace

import jax
import numpy as np

from configs import quickstart
from xmodal import evals, losses, models
from xmodal.core import mesh as mesh_lib
from xmodal.apps import convert
from xmodal.core.config import read
from xmodal.evals.labels.make import make_boards
from xmodal.evals.reports.summary import summarize
from xmodal.evals.evaluators.runner import compute_boards
from xmodal.train import reporting
from xmodal.train import rngs
from xmodal.train.step import state, step, tasks, views
from xmodal.train.initialization import from_run, from_towers
from xmodal.train.optimization import optimizer
from xmodal.train.folder import checkpoints

config = quickstart.get_config()
config.model.text.encoder.vocab_size = 50
config.model.image = {
    "encoder": {"name": "precomputed", "features": 8},
    "head": {"name": "mean"},
    "projection": {"width": 256},
}
model = models.make_dual_encoder(config.model.to_dict())
trained = tasks.make_tasks(config.tasks.to_dict())
config.optimizer.schedule.warmup_steps = 40
rng = np.random.default_rng(0)
tokens = rng.integers(1, 50, (16, 2, 6), dtype=np.int32)
batch = {
    "image": rng.normal(size=(16, 8)).astype(np.float16),
    "text_ids": tokens,
    "text_mask": np.ones_like(tokens),
    "image_id": np.arange(16, dtype=np.int32),
}
mesh = mesh_lib.make_mesh()


def init_params():
    return state.init_params(model, trained, batch, seed=0)


def init_state():
    return state.first_state(*init_params(), rule, config.freeze)


settings = read(optimizer.OptimizerConfig, "config.optimizer", config.optimizer.to_dict())
rule = optimizer.make_optimizer(settings, config.total_steps, jax.eval_shape(init_params)[0])
shapes = state.with_shardings(jax.eval_shape(init_state), mesh, config.sharding)
start = state.create_state(init_state, shapes)
make = step.make_step(model, trained, rule, seed=0, mesh=mesh)
after, scalars = step.jit_step(make, start, mesh)(
    start, mesh_lib.global_batch(batch, mesh), mesh_lib.put_step(0, mesh)
)
assert int(after.step) == 1
assert np.isfinite(float(scalars["train/loss"]))

inputs = {"image": batch["image"]}
images = np.asarray(model.embed("image", after.params, after.model_state, inputs)[0].vector)
labels = SimpleNamespace(
    name="pictures",
    image_ids=batch["image_id"],
    caption_ids=np.arange(16),
    caption_image_ids=batch["image_id"],
    ratings={},
    lists={},
    categories=None,
    caption_categories=None,
    folds=None,
    partial="",
    texts=None,
)
source = evals.Embeddings("here", labels.image_ids, images, labels.caption_ids, images, "cosine")
metrics = summarize(compute_boards(source, labels, make_boards(labels), mesh=mesh), intervals=True)
assert metrics["pictures/i2t/recall@1"] == 100

import data_prep
from data_prep.build import build
from xmodal import data
from xmodal.core.event_writer import EventWriter

section = {
    "dataset": "crisscrossed_shapes",
    "config": "images",
    "data_dir": sys.argv[1],
    "image": {"size": 48},
    "text": {"tokenizer": "words", "min_count": 1},
}
sizes = {"train": 20, "validation": 10, "test": 10}
data_prep.builder_class("crisscrossed_shapes").SPLIT_SIZES = sizes
data.prepare(section, splits=["train", "test"])
split = data.eval_split(section, split="test")
assert next(split.images(4))["image"].shape == (4, 48, 48, 3)
assert len(split.ratings) == 3
made = data.train_batches(section, split="train", seed=0, batch_size=8, first_step=0, total_steps=1)
assert len(next(made)["text_ids"]) == 8
writer = EventWriter(sys.argv[1])
writer.write_scalars(0, metrics)
writer.close()
assert "tensorflow" not in sys.modules
print("done")
"""


@pytest.mark.slow
def test_prepares_a_dataset_trains_and_evaluates_without_tensorflow(tmp_path):
    environment = os.environ | short_runs.variables(devices=1)
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert result.stdout.endswith("done\n"), result.stderr

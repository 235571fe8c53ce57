"""Where tensorflow is not installed, everything but reading data and writing reports works."""

import os
import subprocess
import sys

PROGRAM = """
import importlib.abc
import sys


class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("clu", "tensorflow", "tensorflow_datasets", "tensorflow_text"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Missing())

from types import SimpleNamespace

import jax
import numpy as np

from configs import quickstart
from xmodal import evals, losses, models
from xmodal.evals.boards.make import make_boards
from xmodal.evals.inputs.sources import Embeddings
from xmodal.evals.reports.summary import summarize
from xmodal.training import (
    checkpoints, init_from, optimizer, reporting, rngs, sharding, state, step, tasks
)

config = quickstart.get_config()
config.model.text.vocab_size = 50
config.model.image = {"name": "precomputed", "features": 8, "projection": 256}
model = models.make_dual_encoder(config.model)
rng = np.random.default_rng(0)
tokens = rng.integers(1, 50, (16, 2, 6), dtype=np.int32)
batch = {
    "image": rng.normal(size=(16, 8)).astype(np.float16),
    "text_ids": tokens,
    "text_mask": np.ones_like(tokens),
    "image_id": np.arange(16, dtype=np.int32),
}
text = {key: batch[key][:, 0] for key in ("text_ids", "text_mask")}
mesh = mesh_lib.make_mesh()
rule = optimizer.make_optimizer(config.optimizer, config.total_steps)
init = state.make_init(
    model, rule, {"image": batch["image"], "text": text}, seed=0, freeze=config.freeze
)
start = state.create_state(init, mesh, config.sharding)
make = step.make_step(
    model,
    tasks.make_tasks(config.tasks),
    rule,
    optimizer.make_schedule(config.optimizer, config.total_steps),
    seed=0,
)
after, scalars = step.jit_step(make, start, mesh)(
    start, mesh_lib.global_batch(batch, mesh), mesh_lib.put_step(0, mesh)
)
assert int(after.step) == 1
assert np.isfinite(float(scalars["train/loss"]))

images = np.asarray(model.embed("image", after.params, after.model_state, batch["image"])[0].vector)
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
)
results = evals.evaluate_boards(
    Embeddings(images, images, "cosine"), labels, make_boards(labels), mesh=mesh
)
metrics = summarize(results, intervals=True)
assert metrics["pictures/i2t/recall@1"] == 100
print("done")
"""


def test_trains_and_evaluates_without_tensorflow():
    environment = os.environ | {"XLA_FLAGS": "", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True
    )
    assert result.stdout.endswith("done\n"), result.stderr

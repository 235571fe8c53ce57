"""A real training command in separate processes."""

import os
import subprocess
import sys

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

from tests import short_runs

CONFIG = """
from configs import quickstart


def get_config():
    config = quickstart.get_config({variant!r})
    config.data.data_dir = {data_dir!r}
    text = config.model.text
    config.data.text.max_length = text.encoder.max_positions = 16
    text.encoder.width, text.encoder.mlp_dim, text.head = 32, 32, {{"name": "mean"}}
    # Batch normalization: a run has running statistics, too.
    text.projection = {{"width": 32, "batch_norm": True}}
    config.batch_size, config.log_every = 16, 100
    config.optimizer.schedule.warmup_steps = 2
    config.evals.shapes.bootstrap_samples = 10
    return config
"""


@pytest.fixture
def tiny_config(few_shapes, tmp_path):
    """Path of a config file for a small text-only experiment."""
    path = tmp_path / "tiny.py"
    path.write_text(CONFIG.format(variant="t2t", data_dir=few_shapes))
    return path


IMAGES = """    config.data.image.size = 24
    encoder = {"name": "convnet", "channels": (4, 8), "units": (0, 1)}
    head, projection = {"name": "mean"}, {"width": 32}
    config.model.image = {"encoder": encoder, "head": head, "projection": projection}
    return config
"""


@pytest.fixture
def image_config(few_shapes, tmp_path):
    """Path of a config file for images and captions."""
    path = tmp_path / "images.py"
    config = CONFIG.format(variant="i2t", data_dir=few_shapes)
    path.write_text(config.replace("    return config\n", IMAGES))
    return path


@pytest.fixture
def read_arrays():
    """Function that reads an item of a checkpoint, whatever devices wrote it."""

    def read(folder):
        with ocp.StandardCheckpointer() as checkpointer:
            tree = checkpointer.metadata(folder).item_metadata.tree
            target = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), tree)
            return checkpointer.restore(folder, target)

    return read


@pytest.fixture
def start():
    """Function that starts a training command; kills it if it still runs at the end."""
    processes = []

    def start_command(*arguments, module="xmodal.main", devices=1, **variables):
        variables |= short_runs.variables(devices)
        process = subprocess.Popen(
            [sys.executable, "-m", module, *map(str, arguments)],
            env=os.environ | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        processes.append(process)
        return process

    yield start_command
    for process in processes:
        process.kill()
        process.wait()

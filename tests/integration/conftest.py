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


IMAGE_ENCODERS = {
    "convnet": {"name": "convnet", "channels": (4, 8), "units": (0, 1)},
    "vit": {"name": "vit", "patch": 8, "width": 16, "depth": 1, "heads": 2, "mlp_dim": 24},
}


def write_image_config(path, few_shapes, encoder):
    """Writes a config file for images, read by an encoder of `IMAGE_ENCODERS`, and captions."""
    config = CONFIG.format(variant="i2t", data_dir=few_shapes)
    settings = (
        "config.data.image.size = 24",
        f"encoder = {IMAGE_ENCODERS[encoder]}",
        "head, projection = {'name': 'mean'}, {'width': 32}",
        "config.model.image = {'encoder': encoder, 'head': head, 'projection': projection}",
        "return config",
    )
    config = config.replace("return config", "\n    ".join(settings))
    path.write_text(config)
    return path


TOKENS = """
from configs import sgraf


def get_config():
    config = sgraf.get_config("quick")
    config.data.data_dir, config.batch_size, config.log_every = {data_dir!r}, 16, 100
    config.evals.shapes.bootstrap_samples = 10
    config.model.image.encoder = {encoder}
    config.model.text.encoder = {{"name": "words", "vocab_size": 0, "width": 32}}
    config.data.image.size, config.freeze, config.frozen_features.sides = 24, (), ()
    # Tiles of few pairs.
    config.tasks.i2t.loss.options.update({{"engine": "ring", "chunk_size": 3}})
    return config
"""


@pytest.fixture
def tokens_config(few_shapes, tmp_path):
    """Path of a config file for cells of images against words of captions."""
    path = tmp_path / "tokens.py"
    path.write_text(TOKENS.format(data_dir=few_shapes, encoder=IMAGE_ENCODERS["convnet"]))
    return path


@pytest.fixture
def matching_config(few_shapes, tmp_path):
    """Path of a config file for images, read by a ViT, captions and a pair scorer."""
    path = write_image_config(tmp_path / "matching.py", few_shapes, "vit")
    settings = (
        "config.model.pair_scorer.update({'width': 16, 'depth': 1, 'heads': 2, 'mlp_dim': 16})",
        "config.evals.reranked.update({'every': 0, 'batch_size': 24, 'bootstrap_samples': 10})",
        "config.evals.reranked.reranker.top = 5",
        "return config",
    )
    config = path.read_text().replace("get_config('i2t')", "get_config('matching')")
    path.write_text(config.replace("return config", "\n    ".join(settings)))
    return path


CLIP = """
from configs import clip


def get_config():
    config = clip.get_config({variant!r})
    config.data.data_dir, config.batch_size, config.log_every = {data_dir!r}, 16, 100
    config.evals.shapes.update({{"batch_size": 24, "bootstrap_samples": 10}})
    # The gradient of the biases of keys is only rounding, which Adam would enlarge.
    config.optimizer.options["eps"] = 1e-4
    return config
"""


@pytest.fixture
def siglip_config(few_shapes, tmp_path):
    """Path of a config file for a small SigLIP with its loss."""
    path = tmp_path / "siglip_small.py"
    path.write_text(CLIP.format(variant="quick_sigmoid", data_dir=few_shapes))
    return path


@pytest.fixture
def clip_config(few_shapes, tmp_path):
    """Path of a config file for a small CLIP; its text projection has running statistics, too."""
    settings = (
        "config.data.image.size = 24",
        "for side in ('image', 'text'):",
        "    sizes = {'width': 16, 'depth': 1, 'heads': 2, 'mlp_dim': 24}",
        "    config.model[side].encoder.update(sizes)",
        "config.data.text.max_length = config.model.text.encoder.max_positions = 16",
        "config.model.text.projection['batch_norm'] = True",
        "return config",
    )
    path, config = tmp_path / "clip_small.py", CLIP.format(variant="quick", data_dir=few_shapes)
    path.write_text(config.replace("return config", "\n    ".join(settings)))
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

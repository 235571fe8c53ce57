"""A real training command in separate processes."""

import os
import subprocess
import sys

import pytest

from tests import short_runs
from xmodal.train.folder import checkpoints

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


@pytest.fixture(scope="module")
def tiny_config(few_shapes, tmp_path_factory):
    """Path of a config file for a small text-only experiment."""
    path = tmp_path_factory.mktemp("config") / "tiny.py"
    path.write_text(CONFIG.format(variant="t2t", data_dir=few_shapes))
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


@pytest.fixture(scope="module")
def clip_config(few_shapes, tmp_path_factory):
    """Path of a config file for a small SigLIP; its text projection has running statistics, too."""
    settings = (
        "config.data.image.size = 24",
        "for modality in ('image', 'text'):",
        "    sizes = {'width': 16, 'depth': 1, 'heads': 2, 'mlp_dim': 24}",
        "    config.model[modality].encoder.update(sizes)",
        "config.data.text.max_length = config.model.text.encoder.max_positions = 16",
        "config.model.text.projection.update({'width': 16, 'batch_norm': True})",
        "return config",
    )
    path = tmp_path_factory.mktemp("config") / "clip_small.py"
    config = CLIP.format(variant="quick_sigmoid", data_dir=few_shapes)
    path.write_text(config.replace("return config", "\n    ".join(settings)))
    return path


@pytest.fixture
def read_arrays():
    """Function that reads an item of a checkpoint, whatever devices wrote it."""

    def read(folder):
        step, item = folder.parts[-2:]
        return checkpoints.read_tree(str(folder.parents[2]), int(step), item)

    return read


@pytest.fixture(scope="module")
def start():
    """Function that starts a training command; kills it if it still runs at the end."""
    processes = []

    def start_command(*arguments, module="xmodal.main", devices=1, **variables):
        variables |= short_runs.variables(devices)
        # Commands that are repeated, and sweeps, compile the same programs again.
        variables["JAX_ENABLE_COMPILATION_CACHE"] = "true"
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

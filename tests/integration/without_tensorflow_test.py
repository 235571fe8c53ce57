"""Models train and evaluate on datasets without tensorflow, which takes seconds to import."""

import os
import subprocess
import sys

import pytest

from tests import short_runs

PROGRAM = """
import sys

import data_prep
import xmodal
from configs import quickstart
from xmodal.train import loop

sizes = {"train": 32, "validation": 10, "test": 10}
data_prep.builder_class("crisscrossed_shapes").SPLIT_SIZES = sizes
config = quickstart.get_config()
config.data.data_dir, config.total_steps, config.batch_size = f"{sys.argv[1]}/data", 2, 16
config.data.image.size, config.data.text.max_length = 16, 16
config.model.image.encoder.update({"channels": (4, 8), "units": (0, 1)})
config.model.text.encoder.update({"width": 32, "heads": 2, "mlp_dim": 64, "max_positions": 16})
config.model.text.head = {"name": "mean"}
config.optimizer.schedule.warmup_steps = 1
config.evals.shapes.update({"every": 0, "bootstrap_samples": 10})
run = f"{sys.argv[1]}/run"
assert loop.train(config, run)
assert len(xmodal.load(run).embed_texts(["a red circle", "a square"])) == 2
assert "tensorflow" not in sys.modules
print("done")
"""


@pytest.mark.slow
def test_prepares_a_dataset_trains_and_evaluates_without_tensorflow(tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env=os.environ | short_runs.variables(devices=1),
        capture_output=True,
        text=True,
    )
    assert result.stdout.endswith("done\n"), result.stderr

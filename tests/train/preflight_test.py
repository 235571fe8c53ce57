"""Dry runs: their figures, and a specific message for every mistake."""

import logging
import os
import pathlib
import re
import subprocess
import sys

import pytest

from configs import base, cxc
from tests import tiny_encoder as tiny
from tests import tiny_run
from xmodal.core.errors import UserError
from xmodal.train import preflight

TINY = "tiny_captions"
ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def config(tiny_data_dir):
    same = cxc.text_text() | {"views": ["caption_0", "caption_0"]}
    config = tiny.make_config(tasks={"same": same}, total_steps=6, batch_size=16)
    config.model.image = config.data.image = None
    config.model.text.encoder.update({"vocab_size": 0, "max_positions": 12})
    config.freeze = ["text/encoder/embeddings"]
    config.optimizer.learning_rate = 0.01
    config.data.dataset, config.data.data_dir = TINY, tiny_data_dir
    config.data.captions_per_image = 1
    config.data.text.vocabulary_size, config.data.text.max_length = 200, 12
    config.evals = {TINY: base.benchmarks(every=20) | {"batch_size": 30, "bootstrap_samples": 10}}
    config.best_checkpoint.metric, config.checkpoint.every = f"{TINY}/mean_recall@10", 3
    return config


@pytest.mark.slow
def test_figures_steps_and_an_evaluation(config, tmp_path, caplog):
    run = tmp_path / "run"
    with caplog.at_level(logging.INFO, logger="absl"):
        preflight.check(config, str(run))
    assert not run.exists()
    assert caplog.messages[-1] == f"All checks passed; nothing was written to {run}."
    # Thirty captions are spread over eight devices.
    (table,) = (each for each in caplog.messages if each.startswith("Per device and call:"))
    programs = re.findall("^(training step|embedding of 32 captions)  .*%", table, re.MULTILINE)
    assert len(programs) == 2
    # The actual run has the same losses.
    losses = tiny_run.train(config, run)
    shown = re.findall(r"step \d  loss ([\d.]+)", "\n".join(caplog.messages))
    assert shown == [f"{losses[0]:.4f}", f"{losses[1]:.4f}"]


# Path -> value of the config, and the message.
MISTAKES = {
    "weights": ({"init_from.towers.text": "no/tower"}, "no/tower"),
    "small dataset": (
        {"batch_size": 100_000},
        r"config.batch_size=100000 is more than the [\d,]+ training examples",
    ),
    "memory": (
        {"model.text.encoder.mlp_dim": 2**33},
        r"The training step does not fit: it needs .* GiB of .* per device",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_by_their_own_message(config, tmp_path, name):
    changes, message = MISTAKES[name]
    for path, value in changes.items():
        *parents, key = path.split(".")
        section = config
        for parent in parents:
            section = section[parent]
        section[key] = value
    with pytest.raises(UserError, match=message) as raised:
        preflight.check(config, str(tmp_path / "run"))
    assert name != "memory" or "--config.sharding=" in str(raised.value)
    assert not (tmp_path / "run").exists()


SLICE = """
import sys
from xmodal import main
from xmodal.apps import config_flag
sys.argv[1:] = ["--config=configs/quickstart.py:t2t", "--dry_run", *sys.argv[1:]]
config_flag.run(main.main)
"""


def dry_run(*arguments):
    """Runs a command in a separate process, since libtpu can be loaded only once."""
    environment = {k: v for k, v in os.environ.items() if k not in ("JAX_PLATFORMS", "XLA_FLAGS")}
    return subprocess.run(
        [sys.executable, "-c", SLICE, *arguments],
        env=environment, capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip


@pytest.mark.slow
def test_a_slice_that_is_not_here(tmp_path):
    pytest.importorskip("libtpu", reason="compiles for TPUs; pip install -e '.[tpu]'")
    # The dataset does not exist, but the step is still compiled.
    folders = [f"--workdir={tmp_path / 'run'}", f"--config.data.data_dir={tmp_path}"]
    coco = [
        *("--config.data.dataset=coco_captions", "--config.data.image=None"),
        "--config.best_checkpoint.metric=",
    ]
    done = dry_run("--topology=v5e:2x2", *folders, *coco)
    assert done.returncode == 0, done.stderr
    assert "fits v5e:2x2, but was not tried; nothing was written" in done.stderr
    assert "WARNING: Not checked: " in done.stderr
    assert "--dataset=coco_captions" in done.stderr

    large = dry_run("--topology=v5e:2x2", "--config.batch_size=1048576", *folders, *coco)
    assert large.returncode == 1
    assert "The training step does not fit: it needs" in large.stderr

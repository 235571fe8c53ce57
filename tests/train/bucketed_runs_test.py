"""A run whose batches have texts of two lengths, with dropout, continues bit for bit."""

import shutil

import jax
import numpy as np
import pytest

from tests import tiny_run
from xmodal.train.folder import checkpoints
from xmodal.train.step.views import RANK

HALF, STEPS = 5, 10


@pytest.fixture(scope="module")
def config(tiny_data_dir):
    config = tiny_run.make_config(tiny_data_dir)
    config.model.text.projection.batch_norm = False  # It would need all texts at once.
    config.model.text.encoder.dropout = 0.5
    config.data.length_bucketing = {"length": 8, "share": 0.5}
    config.data.text.augment = {"delete": 0.2}
    config.total_steps, config.checkpoint.every = STEPS, HALF
    config.optimizer.schedule.warmup_steps = 0
    config.evals[tiny_run.TINY].every = 0
    return config


@pytest.mark.slow
@pytest.mark.usefixtures("without_evaluation")
def test_a_killed_run_draws_the_same_texts_and_dropout(config, tmp_path, change_batches):
    layouts = {}

    def note(step, batch):
        layouts[step] = RANK in batch
        return batch

    change_batches(note)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    losses = tiny_run.train(config, whole)
    expected = dict(layouts)
    for steps in (range(HALF), range(HALF, STEPS)):
        assert {expected[step] for step in steps} == {False, True}
    shutil.copytree(whole, killed)
    shutil.rmtree(killed / "checkpoints" / str(STEPS))
    (killed / "finished.json").unlink()
    layouts.clear()
    after = tiny_run.train(config, killed)
    assert layouts == {step: expected[step] for step in range(HALF, STEPS)}
    assert after == {step: losses[step] for step in layouts}
    for item in ("params", "opt_state"):
        found, wanted = (checkpoints.read_tree(str(each), STEPS, item) for each in (killed, whole))
        jax.tree.map(np.testing.assert_array_equal, found, wanted)

"""When a run evaluates and saves, and the evidence of steps that are not finite."""

import dataclasses
import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs import base
from tests.tiny_run import load_state
from xmodal.losses import LOSSES
from xmodal.train import loop, reporting
from xmodal.train.folder import run_folder


@pytest.mark.slow
def test_a_run_that_diverges_leaves_evidence_and_its_last_good_state(
    config, tmp_path, change_batches
):
    config = config.copy_and_resolve_references()
    config.optimizer.learning_rate = 1e30  # Step 0 makes the parameters diverge, and step 1 fails.
    ids = {}

    def watch(step, batch):
        ids[step] = batch["image_id"].tolist()
        return batch

    change_batches(watch)
    with pytest.raises(reporting.NonFiniteLossError, match="step 1 is not finite"):
        loop.train(config, str(tmp_path))
    evidence = json.loads((tmp_path / "failure.json").read_text())
    assert evidence["step"] == 1
    assert evidence["image_ids"] == ids[1]
    assert evidence["last_finite_scalars"]["step"] == 0
    assert run_folder.steps(str(tmp_path)) == [0, 1]
    state = load_state(config, tmp_path)
    assert int(state.step) == 1
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(state))


@pytest.mark.slow
def test_a_run_that_may_skip_leaves_a_batch_out(config, tmp_path, monkeypatch):
    row = LOSSES["softmax"]

    @functools.wraps(row.function)
    def poisoned(left, right, context, **options):
        value, scalars = row.function(left, right, context, **options)
        return value + jnp.where(context.step == 7, jnp.nan, 0.0), scalars

    monkeypatch.setitem(LOSSES, "softmax", dataclasses.replace(row, function=poisoned))
    config = config.copy_and_resolve_references()
    config.total_steps = 20
    # The rules are two programs, whose rounding Adam amplifies if a gradient is near zero.
    config.optimizer = base.adam(0.1) | {"name": "sgd"}
    with pytest.raises(reporting.NonFiniteLossError, match="step 7 is not finite"):
        loop.train(config, str(tmp_path / "stopped"))
    # The run continues under the other rule.
    config.non_finite = "skip"
    for folder in ("stopped", "skipping"):
        loop.train(config, str(tmp_path / folder))
    stopped, skipping = (load_state(config, tmp_path / each) for each in ("stopped", "skipping"))
    jax.tree.map(
        functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6), stopped, skipping
    )
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(skipping))

"""What a start says while it waits, and the state that it continues."""

import dataclasses

import pytest

from tests.tiny_run import BEST
from xmodal.train import start
from xmodal.train.folder import checkpoints
from xmodal.train.optimization.optimizer import observe_metrics
from xmodal.train.resolve import resolve


@pytest.mark.slow
def test_a_checkpoint_that_was_evaluated_after_a_stop_has_lowered_the_rate(config, tmp_path):
    config = config.copy_and_resolve_references()
    config.optimizer.plateau = {"mode": "min", "patience": 0, "factor": 0.5}  # Of a recall.
    parts, folder = resolve(config), str(tmp_path)

    def update(state):
        opt_state = state.opt_state | {"count": state.opt_state["count"] + 1}
        return dataclasses.replace(state, step=state.step + 1, opt_state=opt_state)

    def observe(state, recall):
        opt_state = observe_metrics(parts.settings.optimizer, state.opt_state, {BEST: recall})
        return dataclasses.replace(state, opt_state=opt_state)

    def save(state, *metrics):
        saver = checkpoints.Checkpoints(
            folder, parts.settings.checkpoint, parts.settings.best_checkpoint
        )
        for each in metrics:
            saver.save(state, each)
        saver.close()
        return float(start.starting_state(parts, folder).opt_state["plateau"].factor)

    stopped = update(observe(update(start.initial_state(parts)), 1.0))
    assert save(stopped, None, {BEST: 50.0}) == 0.5
    # An evaluation that the saved state has seen does not count again.
    assert save(observe(update(stopped), 50.0), {BEST: 50.0}) == 0.5

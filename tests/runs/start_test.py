"""What a start says while it waits."""

import logging

import pytest

from tests import tiny_run
from xmodal.base import progress


@pytest.mark.slow
def test_compiling_the_initial_weights_is_not_silent(config, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(progress, "_STALLED_SECONDS", 0.01)
    with caplog.at_level(logging.INFO, logger="absl"):
        state = tiny_run.load_state(config, tmp_path)
    assert state.step == 0
    waited = [line for line in caplog.messages if line.startswith("Compiling and drawing the init")]
    assert waited
    assert waited[0].endswith(" s so far")

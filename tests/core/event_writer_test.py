"""The writer of TensorBoard files in several processes."""

import jax
import numpy as np
import pytest

from xmodal.core.event_writer import EventWriter


@pytest.mark.parametrize("process", [0, 1])
def test_the_first_of_several_processes_writes(tmp_path, monkeypatch, process):
    monkeypatch.setattr(jax, "process_index", lambda: process)
    writer = EventWriter(tmp_path / "run")
    writer.write_scalars(0, {"loss": 1.0})
    writer.write_texts(0, {"config": "text"})
    writer.write_histograms(0, {"scores": np.arange(3.0)})
    writer.write_settings({"seed": 1})
    writer.flush()
    writer.close()
    assert len([*tmp_path.glob("run/events.*")]) == 1 - process

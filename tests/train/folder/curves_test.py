"""Curves of a run that was killed and resumed."""

import json

from xmodal.train.event_writer import EventWriter
from xmodal.train.folder.curves import read_curves


def write(folder, losses):
    writer = EventWriter(folder)
    for step, loss in losses.items():
        writer.write_scalars(step, {"train/loss": loss, "train/other": -1})
    writer.close()


def test_a_resumed_run_has_one_curve(tmp_path):
    write(tmp_path, {1: 5, 2: 4, 3: 3, 4: 9})
    (killed,) = tmp_path.iterdir()
    killed.write_bytes(killed.read_bytes()[:-30])  # In the middle of its last record.
    write(tmp_path, {3: 2, 5: 1})
    (tmp_path / "checkpoints" / "4").mkdir(parents=True)
    evaluated = {0: {"b/x": 1.5}, 4: {"b/x": None, "y": 2}, 8: {"b/x": 7}}
    (tmp_path / "evaluated.json").write_text(json.dumps(evaluated))
    curves = read_curves(str(tmp_path), "b/x")
    assert curves["train/loss"] == [(1, 5), (2, 4), (3, 2), (4, 9), (5, 1)]
    assert [step for step, _ in curves["b/x"]] == [0, 4]  # Step 8 was not saved.

"""The curve between the start of a run and its end."""

import dataclasses
import json

import jax
import numpy as np
import pytest

from tests.saved_run import evaluate, make_config, read
from xmodal import data
from xmodal.train import start
from xmodal.train.folder import checkpoints, run_folder
from xmodal.train.resolve import resolve


def fine_tune(config, folder):
    """A run whose only checkpoint has other weights than those it started from."""
    parts = resolve(config, folder)
    state, rng = start.initial_state(parts), np.random.default_rng(0)
    moved = jax.tree.map(
        lambda leaf: jax.device_put(leaf + rng.normal(0, 0.3, leaf.shape), leaf.sharding),
        state.params,
    )
    run_folder.save_config(folder, parts.config, data.load_vocabulary(parts.settings.data))
    saver = checkpoints.Checkpoints(
        folder, parts.settings.checkpoint, parts.settings.best_checkpoint
    )
    saver.save(dataclasses.replace(state, step=np.int32(4), params=moved), {"x": 1.0})
    saver.close()


@pytest.mark.slow
def test_the_ends_are_the_start_and_the_run(saved_run_dir, few_shapes, tmp_path, capsys):
    folder, output = str(tmp_path / "tuned"), tmp_path / "out"
    config = make_config(few_shapes)
    config.init_from = {"run": str(saved_run_dir), "step": "2", "optimizer": False}
    fine_tune(config, folder)
    few = {"step": "latest", "evaluators": ["words"]}
    evaluate(run=folder, interpolate=["1", "0", "0.5"], output=str(output), **few)
    evaluate(run=folder, output=str(tmp_path / "end"), **few)
    evaluate(run=str(saved_run_dir), output=str(tmp_path / "start"), **few)
    curve = {at: json.loads((output / f"steps/{at}.json").read_text()) for at in (0, 50, 100)}
    ends = [read(tmp_path / name / "metrics.json") for name in ("start", "end")]
    for at, end in zip((0, 100), ends, strict=True):
        assert curve[at] == {tag: x for tag, x in end.items() if tag != "step"}
    assert curve[0] != curve[50] != curve[100]
    table = (output / "curve.md").read_text()
    assert table in capsys.readouterr().out + "\n"
    rows = [line.split("|") for line in table.splitlines()]
    assert [row[1].strip() for row in rows] == ["weight", "-" * 6, "0", "0.5", "1"]
    tag = rows[0][2].strip()
    low, high = (curve[50][f"{tag}_{end}"] for end in ("low", "high"))
    assert rows[3][2].strip() == f"{curve[50][tag]:.1f} [{low:.1f}, {high:.1f}]"

"""One small seeded disturbance of every kind."""

import json
import math
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

from tests import short_runs
from tests.stress import annotation_load
from xmodal.train.folder import checkpoints, run_folder

CONFIG = pathlib.Path(__file__).with_name("small_run.py")
LAST = 60


class Disturbed:
    """A run's folder, and the processes that write it one after the other."""

    def __init__(self, root, name, data):
        self.folder, self.log = root / name, root / f"{name}.jsonl"
        self.marker, self.output = root / f"{name}.evaluating", root / f"{name}.txt"
        self.variables = os.environ | short_runs.variables(1) | {
            "STRESS_DATA": str(data),
            "STRESS_LOG": str(self.log),
            "STRESS_EVALUATING": str(self.marker),
            "JAX_ENABLE_COMPILATION_CACHE": "true",
            "JAX_COMPILATION_CACHE_DIR": str(root / "compiled"),
        }  # fmt: skip

    def run(self, number=None, until=None, **variables):
        """Starts a process, sends it a signal when `until()` holds, and returns its exit code."""
        command = [sys.executable, "-m", "xmodal.main", f"--config={CONFIG}"]
        with self.output.open("w") as file:
            process = subprocess.Popen(
                [*command, f"--workdir={self.folder}"],
                env=self.variables | variables, stdout=file, stderr=file,
            )  # fmt: skip
        while until is not None and not until():
            assert process.poll() is None, self.output.read_text()
            time.sleep(0.0005)
        if number is not None:
            process.send_signal(number)
        return process.wait(timeout=600)

    def entries(self, kind):
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [each for each in map(json.loads, lines) if kind in each]

    def is_saving_after(self, step):
        late = self.entries("ids")[-1:] and self.entries("ids")[-1]["step"] >= step
        return late and any(self.folder.glob("checkpoints/*tmp*/*"))


@pytest.mark.slow
def test_a_disturbed_run_ends_like_an_undisturbed_one(few_shapes, tmp_path):
    whole, run = (Disturbed(tmp_path, name, few_shapes) for name in ("whole", "disturbed"))
    assert whole.run() == 0
    assert run.run(signal.SIGKILL, lambda: run.is_saving_after(12)) == -signal.SIGKILL
    flip_newest(run.folder, random.Random(0))
    newest = run_folder.steps(str(run.folder))[-1]
    marked = lambda: run.marker.exists() and len(run.entries("ids")) > 30  # noqa: E731
    assert run.run(signal.SIGTERM, marked) == 143, run.output.read_text()
    assert f"checkpoints/{newest}/" in run.output.read_text()
    assert (run.folder / f"damaged/{newest}").exists()
    assert run.run(STRESS_POISON="41") == 1
    assert "Loss or gradient of step 41 is not finite" in run.output.read_text()
    assert json.loads((run.folder / "failure.json").read_text())["step"] == 41
    assert run_folder.steps(str(run.folder))[-1] == 41
    assert run.run() == 0
    check_equal(run, whole)


def flip_newest(folder, randomness):
    """Flips a bit in a file of the newest checkpoint."""
    newest = run_folder.step_folder(str(folder), run_folder.steps(str(folder))[-1])
    paths = [path for item in run_folder.ITEMS for path in (newest / item).glob("d/*")]
    path = randomness.choice(sorted(paths))
    content = bytearray(path.read_bytes())
    content[randomness.randrange(len(content))] ^= 1 << randomness.randrange(8)
    path.write_bytes(bytes(content))


def check_equal(run, whole):
    """Compares batches, losses, parameters, optimizer state and metrics, bit for bit."""
    ids = {each["step"]: each["ids"] for each in whole.entries("ids")}
    assert sorted(ids) == list(range(LAST))
    assert all(each["ids"] == ids[each["step"]] for each in run.entries("ids"))
    losses = {each["step"]: float.fromhex(each["loss"]) for each in whole.entries("loss")}
    found = {each["step"]: float.fromhex(each["loss"]) for each in run.entries("loss")}
    assert found == losses
    assert any(math.isnan(float.fromhex(each["loss"])) for each in run.entries("loss"))
    for step, item in [(LAST, item) for item in run_folder.ITEMS] + [(None, "frozen")]:
        trees = [checkpoints.read_tree(str(each.folder), step, item) for each in (run, whole)]
        assert jax.tree.leaves(trees[0])
        jax.tree.map(np.testing.assert_array_equal, *trees)
    for name in ("test/metrics.json", "evaluated.json"):
        assert len({(each.folder / name).read_text() for each in (run, whole)}) == 1


def test_answers_of_many_raters_are_all_kept(tmp_path):
    counts = annotation_load.measure(tmp_path, raters=12, answers=5)
    assert (counts["acknowledged"], counts["stored"], counts["lost_or_wrong"]) == (60, 60, 0)
    assert counts["worst_ms"] < 15_000

"""A run that is killed, damaged and poisoned ends like an undisturbed one; its console."""

import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

from tests import short_runs
from xmodal.train.folder import checkpoints, run_folder

CONFIG = pathlib.Path(__file__).with_name("small_run.py")
LAST = 60
REPORT = "# crisscrossed_shapes, test split"


class Disturbed:
    """A run's folder, and the processes that write it one after the other."""

    def __init__(self, root, name, data):
        self.folder, self.log, self.output = (
            root / name,
            root / f"{name}.jsonl",
            root / f"{name}.txt",
        )
        self.variables = os.environ | short_runs.variables(1) | {
            "STRESS_DATA": str(data),
            "STRESS_LOG": str(self.log),
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

    def losses(self):
        """Step -> loss; that of the last time where a step was repeated."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return {step: float.fromhex(loss) for step, loss in map(json.loads, lines)}

    def is_saving_after(self, step):
        return max(self.losses(), default=0) >= step and any(
            self.folder.glob("checkpoints/*tmp*/*")
        )


@pytest.fixture(scope="module")
def whole(few_shapes, tmp_path_factory):
    """An undisturbed run."""
    run = Disturbed(tmp_path_factory.mktemp("stress"), "whole", few_shapes)
    assert run.run(TF_CPP_MIN_LOG_LEVEL="3") == 0, run.output.read_text()
    return run


@pytest.mark.slow
def test_a_disturbed_run_ends_like_an_undisturbed_one(whole, few_shapes):
    run = Disturbed(whole.folder.parent, "disturbed", few_shapes)
    assert run.run(signal.SIGKILL, lambda: run.is_saving_after(12)) == -signal.SIGKILL
    newest = run_folder.steps(str(run.folder))[-1]
    flip_a_bit(run_folder.step_folder(str(run.folder), newest))
    assert run.run(STRESS_POISON="41") == 1
    assert f"checkpoints/{newest}/" in run.output.read_text()
    assert (run.folder / f"damaged-{newest}").exists()
    assert "Loss or gradient of step 41 is not finite" in run.output.read_text()
    assert math.isnan(run.losses()[41])
    assert json.loads((run.folder / "failure.json").read_text())["step"] == 41
    assert run_folder.steps(str(run.folder))[-1] == 41
    assert run.run() == 0

    assert run.losses() == whole.losses()
    assert sorted(whole.losses()) == list(range(LAST))
    for step, item in [(LAST, item) for item in run_folder.ITEMS] + [(None, "frozen")]:
        trees = [checkpoints.read_tree(str(each.folder), step, item) for each in (run, whole)]
        assert jax.tree.leaves(trees[0])
        jax.tree.map(np.testing.assert_array_equal, *trees)
    for name in ("test/metrics.json", "evaluated.json"):
        assert len({(each.folder / name).read_text() for each in (run, whole)}) == 1


@pytest.mark.slow
def test_the_console_of_a_run_and_of_a_second_start(whole):
    head, report, tail = whole.output.read_text().partition(REPORT)
    assert report, head
    messages = []
    for line in head.splitlines():
        if not line.startswith("  "):  # the table of parameters
            assert re.match(r"\d\d:\d\d:\d\d \S", line), line
            messages.append(line[9:])

    def count(pattern):
        return sum(bool(re.fullmatch(pattern, message)) for message in messages)

    steps = "step [246]0/60  loss [0-9.]+  .* examples/s  [0-9:]+ left  data wait [0-9]+ %"
    assert count(steps) == 3
    assert count(r"step [0246]0?  shapes/mean_recall@10 [0-9.]+  best so far: step [0246]0?") == 4
    assert count("step [0-9]+  checkpoint in .*") == 9
    # In addition: workdir, vocabulary, cut captions, frozen weights, start, table, compilation
    # (twice).
    assert len(messages) <= 3 + 4 + 9 + 8, head
    assert "Traceback" not in head + tail
    end = tail.strip().splitlines()[-7:]
    assert f"Report:  {whole.folder}/test/shapes/report.html" in end
    assert end[-2:] == [
        f"  tensorboard --logdir {whole.folder}",
        f"  python -m xmodal.eval_main --run={whole.folder}",
    ]

    # A finished run prints results from its files: nothing is read, compiled or evaluated.
    assert whole.run() == 0
    assert whole.output.read_text().strip() == (report + tail).strip()


def flip_a_bit(folder):
    """Flips a bit of the largest file of a checkpoint."""
    path = max(folder.glob("*/d/*"), key=lambda each: each.stat().length)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 8
    path.write_bytes(bytes(content))

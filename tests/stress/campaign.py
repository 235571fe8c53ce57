"""Disturbs a run in every way and compares it with an undisturbed one."""

import contextlib
import json
import math
import os
import pathlib
import signal
import subprocess

import jax
import numpy as np
from etils import epath

from tests.stress.runs import disturb
from xmodal.train.folder import checkpoints, run_folder

SIGNALS = (signal.SIGKILL, signal.SIGTERM)
MOMENTS = ("anywhere", "save", "evaluation")
DAMAGES = ("flip", "tear", "remove")
_TMPFS_MIB = 64


def finish(run, **options):
    """Lets the run finish."""
    with run.process(**options) as process:
        code = process.wait()
        assert code == 0, process.output()[-3000:]
    assert (run.folder / "test/metrics.json").exists()


def interrupt_often(run, events, total_steps, randomness, devices=(1,)):
    """Interrupts a run, and sometimes damages a checkpoint.

    Args:
      run: a `Run`.
      events: number of interruptions.
      total_steps: total steps of the run.
      randomness: a `random.Random`.
      devices: numbers of devices that the starts use in turn.
    """
    kinds = [(moment, number) for moment in MOMENTS for number in SIGNALS]
    for event in range(events):
        moment, number = kinds[event % len(kinds)]
        # Up to an evaluation interval before the end; some interruptions hit the last evaluation.
        step = math.ceil((event + 0.5) / (events + 1) * total_steps)
        if event % 9 == 8:
            moment = "start"
        damage = DAMAGES[event // 5 % len(DAMAGES)] if event % 5 == 4 else None
        count = devices[event % len(devices)]
        disturb(run, moment, number, step, randomness, damage=damage, devices=count)


def start_second_writer(run, step):
    """Starts the run again while the first one writes; the second exits with an error."""
    with run.process() as first:
        first.wait_for_step(step)
        # Suspended but alive; otherwise it might finish before the second one starts.
        first.suspend()
        with run.process() as second:
            assert second.wait() == 1, second.output()
            assert "is being written by process" in second.output(), second.output()
        run.counts["second writers"] += 1
        first.resume()
        assert first.send(signal.SIGTERM) == 143, first.output()


def poison(run, step):
    """Makes a batch NaN; the run stops before it and reports it."""
    with run.process(poison=step) as process:
        assert process.wait() == 1, process.output()
        assert f"Loss or gradient of step {step} is not finite" in process.output()
    evidence = json.loads((run.folder / "failure.json").read_text())
    assert evidence["step"] == step
    drawn = [each["ids"] for each in run.entries() if each["step"] == step and "ids" in each]
    assert evidence["image_ids"] == drawn[-1][: len(evidence["image_ids"])]
    assert run.saved_steps()[-1] == step, "the state before the batch is saved"
    run.counts["poisoned batches"] += 1


def limit_files(run, step):
    """Limits file sizes below a checkpoint's, for when a disk cannot be filled."""
    with run.process(largest_file=8000) as process:
        assert process.wait() == 1, process.output()
        assert "cannot be written: " in process.output(), process.output()[-3000:]
        assert "the same command resumes from the last checkpoint" in process.output()
    run.counts["full disks"] += 1
    del step


@contextlib.contextmanager
def small_disk(folder):
    """Mounts a small file system at a folder; yields False if that is not allowed."""
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_TMPFS_MIB}m", "tmpfs", str(folder)]
    try:
        allowed = subprocess.run(mount, capture_output=True).returncode == 0
    except FileNotFoundError:
        allowed = False
    try:
        yield allowed
    finally:
        if allowed:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill_disk(run, step):
    """Fills the run's own file system while it trains; it exits with an error."""
    ballast = run.folder / "ballast"
    with run.process() as process:
        process.wait_for_step(step)
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        assert process.wait() == 1, process.output()[-3000:]
        assert "No space left on device" in process.output(), process.output()[-3000:]
        assert "Traceback" not in process.output(), process.output()[-3000:]
        assert "the same command resumes from the last checkpoint" in process.output()[-300:]
    ballast.unlink()
    run.counts["full disks"] += 1


def check_equal(run, whole, *, exactly=True):
    """Compares the results of two runs: batches, losses, parameters, metrics.

    Args:
      run: the disturbed run.
      whole: the undisturbed run.
      exactly: whether results must be bit-identical; otherwise they may differ by rounding.
    """
    check_order(run, whole, exactly=exactly)
    last = whole.saved_steps()[-1]
    assert run.saved_steps()[-1] == last
    folders = [f"checkpoints/{last}/{item}" for item in run_folder.ITEMS] + ["frozen"]
    compared = 0
    for name in folders:
        folders = [epath.Path(each.folder / name) for each in (run, whole)]
        found, expected = map(checkpoints.read_arrays, folders)
        paths = jax.tree_util.tree_leaves_with_path(expected)
        assert paths, name
        for (path, right), left in zip(paths, jax.tree.leaves(found), strict=True):
            where = name + jax.tree_util.keystr(path)
            if exactly:
                np.testing.assert_array_equal(left, right, err_msg=where)
            else:
                np.testing.assert_allclose(left, right, rtol=1e-2, atol=2e-4, err_msg=where)
            compared += 1
    metrics = [json.loads((each.folder / "test/metrics.json").read_text()) for each in (run, whole)]
    if exactly:
        assert metrics[0] == metrics[1]
    else:
        assert metrics[0].keys() == metrics[1].keys()
        for tag, value in metrics[1].items():
            # Percent and ranks of a few hundred queries, some of which rounding changes.
            np.testing.assert_allclose(metrics[0][tag], value, rtol=0.1, atol=2, err_msg=tag)
    for step in set(run.saved_steps()) & set(whole.saved_steps()):
        left, right = (run_folder.load_metrics(str(each.folder), step) for each in (run, whole))
        assert left == right or not exactly, step
    run.counts["arrays compared"] = compared


def check_order(run, whole, *, exactly):
    """Checks that no process lost or repeated a step, and that equal steps saw equal batches."""
    ids = {each["step"]: each["ids"] for each in whole.entries() if "ids" in each}
    losses = {each["step"]: each["loss"] for each in whole.entries() if "loss" in each}
    assert sorted(ids) == list(range(len(ids)))
    last, trained = {}, set()
    for each in run.entries():
        process, step = each["process"], each["step"]
        if "ids" in each:
            # Within a process, steps are consecutive, starting at some checkpoint.
            assert process not in last or step == last[process] + 1, each
            assert each["ids"] == ids[step], f"step {step} saw another batch"
            last[process] = step
            run.counts["batches compared"] += 1
            continue
        loss, expected = (float.fromhex(found) for found in (each["loss"], losses[step]))
        if math.isnan(loss):
            continue  # poisoned
        trained.add(step)
        assert loss == expected if exactly else math.isclose(loss, expected, rel_tol=1e-3), each
    assert trained == set(losses), "steps that were never made"


def folder_of(path):
    """An absolute folder, which is created."""
    folder = pathlib.Path(path).absolute()
    os.makedirs(folder, exist_ok=True)
    return folder

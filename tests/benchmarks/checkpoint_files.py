"""Measures how long the loop waits for a checkpoint, and how long saving and restoring take.

    python -m tests.benchmarks.checkpoint_files [--megabytes=900] [--leaves=600] [--rounds=3]

The state is that of Adam, with a third of the parameters frozen. Prints one line of JSON per
figure, medians over rounds, compared with writing the same bytes to one file with fsync: the
caller's wait, the whole save with the hashes of its files, a restore, and the hash check before it.
`first_save` writes the frozen parameters, too; `bytes` is the size of a checkpoint.
"""

import argparse
import json
import os
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable

import jax
import numpy as np
from absl import logging

from xmodal.train.folder import checkpoints, run_folder
from xmodal.train.folder.damaged_checkpoints import newest_whole
from xmodal.train.sections import CheckpointConfig, SelectConfig
from xmodal.train.step.state import TrainState


def make_state(megabytes: int, leaves: int) -> TrainState:
    """Random arrays: parameters, every third one frozen, and two moments for the others."""
    trained = leaves - leaves // 3
    size = int(megabytes * 1e6 / 4 / (leaves // 3 + 3 * trained))
    rng = np.random.default_rng(0)

    def tree(count: int) -> dict[str, jax.Array]:
        return {f"leaf_{i}": jax.numpy.asarray(rng.random(size, np.float32)) for i in range(count)}

    return TrainState(
        step=jax.numpy.int32(0),
        params={"text": tree(trained)},
        frozen={"text": tree(leaves // 3)},
        model_state={},
        opt_state={"first": tree(trained), "second": tree(trained)},
    )


def timed(function: Callable[[], object]) -> float:
    """Duration of a call in seconds."""
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def write_file(path: pathlib.Path, state: TrainState) -> None:
    """Writes the bytes of a checkpoint to one file on disk."""
    with path.open("wb") as file:
        for leaf in jax.tree.leaves((state.params, state.opt_state)):
            file.write(np.asarray(leaf).data)
        file.flush()
        os.fsync(file.fileno())


def restore(run_dir: str, like: TrainState) -> None:
    """The newest checkpoint, on the device."""
    newest = run_folder.steps(run_dir)[-1]
    jax.block_until_ready(checkpoints.restore_step(run_dir, newest, like))


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser()
    for name, default in {"megabytes": 900, "leaves": 600, "rounds": 3}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    logging.set_verbosity(logging.WARNING)
    state = make_state(args.megabytes, args.leaves)
    names = ("raw_write", "wait", "save", "check", "restore")
    seconds: dict[str, list[float]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as temporary:
        folder, config = pathlib.Path(temporary), CheckpointConfig(keep_last=1)
        saver = checkpoints.Checkpoints(str(folder / "run"), config, SelectConfig("none"))
        for step in range(args.rounds + 1):
            saved = TrainState(
                jax.numpy.int32(step), state.params, state.frozen, {}, state.opt_state
            )
            started = time.perf_counter()
            saver.save(saved)
            wait = time.perf_counter() - started
            saver._manager.wait_until_finished()
            save = time.perf_counter() - started
            if step == 0:
                first = save
                continue
            found = {"wait": wait, "save": save}
            found["raw_write"] = timed(lambda: write_file(folder / "raw", state))
            found["check"] = timed(lambda: newest_whole(str(folder / "run")))
            found["restore"] = timed(lambda: restore(str(folder / "run"), state))
            for name in names:
                seconds[name].append(found[name])
        saver.close()
        newest = folder / "run" / "checkpoints" / str(args.rounds)
        size = sum(path.stat().st_size for path in newest.rglob("*") if path.is_file())
    given = {"megabytes": args.megabytes, "leaves": args.leaves, "bytes": size}
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    for name, value in (medians | {"first_save": first}).items():
        line = {"figure": f"checkpoint {name}", "seconds": round(value, 3), **given}
        line["of_raw_write"] = round(value / medians["raw_write"], 2)
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()

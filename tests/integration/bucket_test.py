"""A run and its dataset in a bucket."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import time

import pytest

from tests.integration import object_store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("gcsfs") is None,
        reason="gcsfs, a client with a free choice of the store's address, is not installed",
    ),
]


@pytest.fixture
def store():
    with object_store.serving() as served:
        yield served


@pytest.fixture
def begin(tiny_config, few_shapes, start, store):
    """Starts a command that uses the store, which also contains the dataset."""
    store.put(pathlib.Path(few_shapes), "data")
    options = [f"--config.data.data_dir={store.bucket}/data", "--config.total_steps=12"]
    options.append("--config.checkpoint.every=3")

    def begin_command(name, *arguments):
        if not arguments:
            arguments = (f"--config={tiny_config}", f"--workdir={store.bucket}/{name}", *options)
            return start(*arguments, **store.variables)
        return start(*arguments, module=name, **store.variables)

    return begin_command


def _finish(process):
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return output


def test_a_killed_run_in_a_bucket_resumes(begin, store):
    killed = begin("killed")
    while "killed/checkpoints/3/files.json" not in store.objects:
        assert killed.poll() is None, killed.stdout.read()
        time.sleep(0.01)
    killed.kill()
    killed.wait()
    output = _finish(begin("killed"))
    assert "Resuming" in output
    assert "from scratch" not in output
    _finish(begin("whole"))
    numbers = [json.loads(store.read(f"{run}/test/metrics.json")) for run in ("killed", "whole")]
    assert numbers[0] == numbers[1]
    assert not [name for name in store.objects if ".partial-" in name or "orbax-checkpoint" in name]
    _finish(begin("xmodal.eval_main", f"--run={store.bucket}/killed", "--step=latest"))


# In a process of its own, since clients read the address once.
_DAMAGE = """
import dataclasses
import sys

from tests import tiny_encoder as tiny

from xmodal.train.folder import checkpoints, damaged_checkpoints, run_folder
from xmodal.train.sections import BestCheckpointConfig, CheckpointConfig

folder = sys.argv[1]
config = tiny.make_config()
run_folder.save_config(folder, config)
state = tiny.start(tiny.make_parts(config, 1))
saver = checkpoints.Checkpoints(folder, CheckpointConfig(), BestCheckpointConfig("m"))
for step in (2, 4):
    saver.save(dataclasses.replace(state, step=state.step + step), {"m": float(step)})
saver.close()
path = next(run_folder.step_folder(folder, 4).glob("params/d/*"))
path.write_bytes(path.read_bytes()[:-1] + b"?")
assert damaged_checkpoints.newest_whole(folder, sets_aside=True) == 2
assert run_folder.steps(folder) == [2]
assert int(checkpoints.restore_step(folder, 2, state).step) == 2
"""


def test_a_damaged_checkpoint_in_a_bucket_is_set_aside(store):
    tests = pathlib.Path(__file__).parents[1]
    found = os.pathsep.join([str(tests.parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", _DAMAGE, f"{store.bucket}/run"],
        env=os.environ | store.variables | {"PYTHONPATH": found},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "The run resumes from step 2 without it." in done.stderr
    assert "run/damaged/4/files.json" in store.objects
    assert not [name for name in store.objects if name.startswith("run/checkpoints/4/")]

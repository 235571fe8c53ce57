"""Two processes embed the items of an index together."""

import os
import subprocess
import sys

import numpy as np
import pytest

import xmodal
from tests import short_runs
from tests.api.tiny_dual_encoder import make_texts, save_run


@pytest.mark.slow
def test_two_processes_give_the_index_of_one(tmp_path):
    run = save_run(str(tmp_path / "run"))
    features = np.random.default_rng(5).normal(size=(30, 5)).astype(np.float32)
    np.save(tmp_path / "features.npy", features)
    (tmp_path / "captions.txt").write_text("\n".join(make_texts(13)))
    program = [
        *(sys.executable, "-m", "xmodal", "search", "build", f"--model={run}"),
        *(f"--images={tmp_path / 'features.npy'}", "--captions=captions.txt"),
        f"--output={tmp_path / 'index'}",
    ]
    together = short_runs.variables(devices=1) | {
        "JAX_COORDINATOR_ADDRESS": f"localhost:{short_runs.free_port()}",
        "JAX_NUM_PROCESSES": "2",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    pair = [
        subprocess.Popen(
            program,
            cwd=tmp_path,
            env=os.environ | together | {"JAX_PROCESS_ID": str(number)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number in range(2)
    ]
    try:
        outputs = [process.communicate(timeout=240)[0] for process in pair]
    finally:
        for process in pair:
            process.kill()
    assert [process.returncode for process in pair] == [0, 0], "\n".join(outputs)
    assert "index in" not in outputs[1]
    index = xmodal.Index.open(tmp_path / "index")
    whole = xmodal.Index.build(index.model, images=features, captions=make_texts(13))
    for kind, gallery in index.galleries.items():
        np.testing.assert_allclose(gallery.vectors, whole.galleries[kind].vectors, atol=1e-6)

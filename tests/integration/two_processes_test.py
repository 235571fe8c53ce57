"""Two processes train what one process with two devices trains."""

import json
import socket

import jax
import numpy as np
import pytest

TOTAL_STEPS = 4


def free_port():
    with socket.socket() as server:
        server.bind(("localhost", 0))
        return server.getsockname()[1]


# Features of frozen layers: process 0 writes them, all read them.
STORED = """
    config.model.text.encoder.depth, config.model.text.encoder.lower_depth = 2, 1
    config.freeze = ["text/encoder/(?!layers/)"]
    config.frozen_features = {{"sides": ["text"], "folder": {folder!r}}}
    return config
"""


@pytest.mark.slow
@pytest.mark.parametrize("stored", [False, True])
def test_two_processes_train_like_one(
    tiny_config, image_config, start, read_arrays, tmp_path, stored
):
    """Images and captions; captions with stored features."""
    config = tiny_config if stored else image_config
    if stored:
        changes = STORED.format(folder=str(tmp_path / "features"))
        config.write_text(config.read_text().replace("    return config\n", changes))

    def begin(run_dir, **kwargs):
        # Whole batches, of which the second process has rows, and a rest, of which it has none.
        batch_size = "--config.evals.shapes.batch_size=24"
        steps = f"--config.total_steps={TOTAL_STEPS}"
        return start(f"--config={config}", f"--workdir={run_dir}", steps, batch_size, **kwargs)

    together = {
        "JAX_COORDINATOR_ADDRESS": f"localhost:{free_port()}",
        "JAX_NUM_PROCESSES": "2",
    }
    pair = [begin(tmp_path / "two", JAX_PROCESS_ID=str(index), **together) for index in range(2)]
    outputs = [process.communicate(timeout=300)[0] for process in pair]
    assert [process.returncode for process in pair] == [0, 0], "\n".join(outputs)
    assert len(list(tmp_path.glob("features/text_features-train-*"))) == int(stored)
    one = begin(tmp_path / "one", devices=2)
    output, _ = one.communicate()
    assert one.returncode == 0, output

    for item in ("params", "model_state"):
        last = f"checkpoints/{TOTAL_STEPS}/{item}"
        found, expected = read_arrays(tmp_path / "two" / last), read_arrays(tmp_path / "one" / last)
        assert jax.tree.leaves(expected)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6, rtol=0), found, expected
        )
    found, expected = (
        json.loads((tmp_path / run / "test" / "metrics.json").read_text()) for run in ("two", "one")
    )
    assert found == pytest.approx(expected, abs=1e-3)
    # Process 1 has printed no table and written no scalars.
    assert ["test split" in output for output in outputs] == [True, False]
    for folder in ("two", "two/test"):
        assert len(list((tmp_path / folder).glob("events.out.tfevents.*"))) == 1

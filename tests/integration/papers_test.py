"""One small config of every paper: trains, evaluates, resumes, and runs on 8 devices as on 1."""

import importlib
import json

import jax
import numpy as np
import pytest

from xmodal import mesh as mesh_lib
from xmodal.training import checkpoints, loop

STEPS = 4
# Config -> a metric of each of its evaluators.
PAPERS = {
    "vsepp": ["shapes/i2t/recall@10"],
    "vete": ["shapes/i2t/recall@10", "sts/c2c_isim/pearson"],
    "cmcm_clue": ["pools/t2i/median_rank", "relations/count/average_precision"],
    "pcme": ["shapes/i2t/recall@10"],
}


@pytest.fixture(autouse=True)
def _compile_quickly():
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory):
    """A folder of compiled functions, which the runs of a config share."""
    folder = str(tmp_path_factory.mktemp("compiled"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_COMPILATION_CACHE_DIR", folder)
        yield folder


def get_config(name, few_shapes, total_steps=STEPS):
    config = importlib.import_module(f"configs.{name}").get_config("quick")
    assert config.total_steps == 50
    config.total_steps, config.log_every, config.batch_size = total_steps, 1, 16
    config.data.data_dir = few_shapes
    config.frozen_features.folder = ""
    for evaluator in config.evals.values():
        evaluator.every, evaluator.batch_size = 2, 32
        if evaluator.data is not None:
            evaluator.data.data_dir = few_shapes
    config.checkpoint.every = 2
    return config


def read_state(folder, step):
    """All arrays of a checkpoint by name."""
    import orbax.checkpoint as ocp

    arrays = {}
    for item in ("params", "opt_state", "model_state"):
        path = folder / "checkpoints" / str(step) / item
        if path.exists():
            with ocp.StandardCheckpointer() as checkpointer:
                tree = checkpointer.metadata(path).item_metadata.tree
                target = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), tree)
                found = checkpointer.restore(path, target)
            for keys, leaf in jax.tree_util.tree_leaves_with_path(found):
                arrays[f"{item}/{jax.tree_util.keystr(keys, simple=True, separator='/')}"] = leaf
    return arrays


@pytest.mark.parametrize("name", PAPERS)
def test_a_paper_trains_resumes_and_does_not_depend_on_devices(
    name, few_shapes, tmp_path, monkeypatch
):
    one, eight = (mesh_lib.make_mesh(jax.devices()[:count]) for count in (1, 8))
    monkeypatch.setattr(mesh_lib, "make_mesh", lambda devices=None: eight)
    loop.train(get_config(name, few_shapes), str(tmp_path / "eight"))
    assert checkpoints.steps(str(tmp_path / "eight"))[-1] == STEPS
    metrics = json.loads((tmp_path / "eight/test/metrics.json").read_text())
    for tag in PAPERS[name]:
        assert np.isfinite(metrics[tag]), tag

    monkeypatch.setattr(mesh_lib, "make_mesh", lambda devices=None: one)
    loop.train(get_config(name, few_shapes), str(tmp_path / "one"))
    whole = read_state(tmp_path / "one", STEPS)
    assert any("opt_state" in path for path in whole)
    for path, value in read_state(tmp_path / "eight", STEPS).items():
        np.testing.assert_allclose(
            value,
            whole[path],
            rtol=2e-2,
            atol=2e-4 * max(1, np.abs(whole[path]).max()),
            err_msg=path,
        )

    # Stopped at step 2, then continued: bit for bit the same run.
    monkeypatch.setattr(loop, "stop_signal", _stop_at(2))
    loop.train(get_config(name, few_shapes), str(tmp_path / "stopped"))
    assert checkpoints.steps(str(tmp_path / "stopped"))[-1] == 2
    monkeypatch.undo()
    monkeypatch.setattr(mesh_lib, "make_mesh", lambda devices=None: one)
    loop.train(get_config(name, few_shapes), str(tmp_path / "stopped"))
    resumed = read_state(tmp_path / "stopped", STEPS)
    assert resumed.keys() == whole.keys()
    for path, value in resumed.items():
        np.testing.assert_array_equal(value, whole[path], err_msg=path)


def _stop_at(step):
    import contextlib

    @contextlib.contextmanager
    def stop_signal():
        yield lambda current: current == step

    return stop_signal

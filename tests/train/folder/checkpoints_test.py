"""Checkpoints of untrained states on a real disk."""

import dataclasses
import shutil

import jax
import numpy as np
import pytest

from configs import cxc
from tests import tiny_encoder as tiny
from xmodal.core import mesh as mesh_lib
from xmodal.core.config import read
from xmodal.train import tree
from xmodal.train.folder import checkpoints, run_folder
from xmodal.train.optimization import optimizer
from xmodal.train.sections import BestCheckpointConfig, CheckpointConfig

BEST = "shapes/mean_recall@10"
FSDP = [("params/text", "fsdp"), (".*", "replicated")]


def make_saver(folder, keep_last=10, metric=BEST, mode="max"):
    kept = CheckpointConfig(every=1, keep_last=keep_last)
    return checkpoints.Checkpoints(str(folder), kept, BestCheckpointConfig(metric, mode))


def make_optimizer(params):
    """Adam with the rule that skips updates: moments, counters and scalars."""
    config = read(optimizer.OptimizerConfig, "config.optimizer", cxc.skipping_adam(1e-3))
    return optimizer.make_optimizer(config, 10, params)


def make_state(step, devices=8, rows=512, rules=tiny.REPLICATED):
    """Random arrays in every part of a state, even where training would have zeros."""
    rng = np.random.default_rng(step)
    # A tower may have no parameters, and most have no running statistics.
    params = {
        "image": {},
        "text": {"projection": {"kernel": np.zeros((rows, 512)), "bias": np.zeros(3)}},
    }
    shapes = tree.TrainState(
        step=np.int32(step),
        params=params,
        frozen={"text": {"encoder": {"word": np.zeros((4, 2))}}},
        model_state={"image": {"batch_stats": {"mean": np.zeros(5)}}, "text": {}},
        opt_state=make_optimizer(params).init(params),
    )
    shardings = tree.tree_shardings(shapes, rules, mesh_lib.make_mesh(jax.devices()[:devices]))

    def fill(leaf, sharding):
        if np.issubdtype(leaf.dtype, np.integer):
            value = np.full(leaf.shape, step, np.int32)
        else:
            value = rng.normal(size=leaf.shape).astype(np.float32)
        return jax.device_put(value, sharding)

    return jax.tree.map(fill, shapes, shardings)


def save(folder, states, metrics=None, **options):
    saver = make_saver(folder, **options)
    for one in states:
        saver.save(one, (metrics or {}).get(int(one.step)))
    saver.close()


def restore_latest(folder, like):
    saved = run_folder.steps(folder)
    return checkpoints.restore_step(folder, saved[-1], like) if saved else like


@pytest.mark.slow
def test_the_last_few_and_the_best_are_kept(tmp_path):
    scores = {0: 20.0, 1: 40.0, 2: 10.0, 4: 30.0}
    metrics = {step: {BEST: score, "shapes/t2t/recall@1": 99.0} for step, score in scores.items()}
    for mode, best in (("max", 1), ("last", 4)):
        save(tmp_path / mode, map(make_state, range(6)), metrics, keep_last=2, mode=mode)
        assert run_folder.steps(str(tmp_path / mode)) == sorted({best, 4, 5})
        config = tiny.make_config()
        config.best_checkpoint.metric, config.best_checkpoint.mode = BEST, mode
        run_folder.save_config(str(tmp_path / mode), config)
        assert run_folder.best_step(str(tmp_path / mode)) == best
    saver = make_saver(tmp_path / "last", mode="last")
    assert saver.best_step == 4  # 5 was not evaluated
    saver.close()


def test_a_checkpoint_of_a_stop_gets_metrics_and_is_not_written_again(tmp_path):
    run_dir, stopped = str(tmp_path), make_state(2)
    save(tmp_path, [make_state(0), make_state(1), stopped], {0: {BEST: 20.0}}, keep_last=1)
    assert run_folder.steps(run_dir) == [0, 2]
    assert run_folder.load_metrics(run_dir, 2) == {}
    files = [path for path in (tmp_path / "checkpoints/2").rglob("*") if path.is_file()]
    written = {path: path.stat().st_mtime_ns for path in files}
    saver = make_saver(tmp_path, keep_last=1)
    assert saver.lacks_metrics(2)
    saver.save(dataclasses.replace(make_state(3), step=stopped.step), {BEST: 30.0})
    assert saver.best_step == 2
    saver.close()
    assert run_folder.load_metrics(run_dir, 2) == {BEST: 30.0}
    assert {path: path.stat().st_mtime_ns for path in files} == written
    tiny.assert_identical(restore_latest(run_dir, make_state(0)).params, stopped.params)


@pytest.mark.parametrize("devices", [1, 2, 8])
def test_every_bit_comes_back_on_any_number_of_devices(tmp_path, devices):
    saved = make_state(3, rules=FSDP)
    kernel = saved.params["text"]["projection"]["kernel"]
    assert kernel.addressable_shards[0].data.shape == (64, 512)
    save(tmp_path, [saved])
    target = make_state(0, devices, rules=FSDP)
    restored = restore_latest(str(tmp_path), target)
    tiny.assert_identical(restored, saved)
    assert jax.tree.structure(restored) == jax.tree.structure(saved)
    shardings = jax.tree.map(lambda new, wanted: new.sharding == wanted.sharding, restored, target)
    assert all(jax.tree.leaves(shardings))


def test_the_model_is_read_with_its_frozen_parameters(tmp_path, caplog):
    config = tiny.make_config(freeze=["text/encoder/"])
    # An image tower without parameters; running statistics and parameters of a task.
    config.model.image.projection = None
    config.model.text.projection = {"width": tiny.FEATURES, "batch_norm": True}
    config.tasks.i2t.similarity = {"name": "cosine", "learned_temperature": True}
    parts = tiny.make_parts(config)
    rng = np.random.default_rng(0)
    saved = dataclasses.replace(tiny.start(parts), step=np.int32(2))
    statistics = jax.tree.map(lambda leaf: rng.random(leaf.shape, np.float32), saved.model_state)
    saved = dataclasses.replace(saved, model_state=jax.device_put(statistics))
    assert jax.tree.leaves(statistics)
    assert saved.params["tasks"]["i2t"]["similarity"]
    save(tmp_path, [saved])
    for mesh in (mesh_lib.make_mesh(jax.devices()[:1]), parts.mesh):
        params, model_state = checkpoints.restore_model(str(tmp_path), 2, parts.shapes, mesh)
        assert "Metadata file" not in caplog.text
        tiny.assert_identical(params, saved.all_params())
        tiny.assert_identical(model_state, saved.model_state)
        devices = {len(leaf.sharding.device_set) for leaf in jax.tree.leaves(params)}
        assert devices == {mesh.size}


def test_a_checkpoint_that_was_being_written_does_not_count(tmp_path):
    good = make_state(4)
    save(tmp_path, [good])
    half = tmp_path / "checkpoints/8.orbax-checkpoint-tmp"
    shutil.copytree(tmp_path / "checkpoints/4/params", half / "params.orbax-checkpoint-tmp")
    assert run_folder.steps(str(tmp_path)) == [4]
    assert run_folder.resolve_step(str(tmp_path), "latest") == 4
    tiny.assert_identical(restore_latest(str(tmp_path), make_state(0)), good)
    # The run reaches step 8 again.
    again = dataclasses.replace(make_state(8), frozen=good.frozen)
    save(tmp_path, [again])
    assert not half.exists()
    tiny.assert_identical(restore_latest(str(tmp_path), make_state(0)), again)

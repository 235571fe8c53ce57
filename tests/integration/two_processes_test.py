"""Two processes train like one process with the same number of devices, and like one device."""

import json
import runpy

import jax
import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util

from tests.integration import papers_test
from tests.integration.papers_test import TOGETHER
from tests.short_runs import free_port
from xmodal.core import mesh as mesh_lib
from xmodal.train import loop
from xmodal.train.evaluation.run_evaluation import RunEvaluation
from xmodal.train.evaluation.run_subjects import evaluate_best
from xmodal.train.folder import run_folder
from xmodal.train.resolve import resolve

TOTAL_STEPS = 4
LONG = 20


def read_losses(folder):
    """The training losses that a run wrote for TensorBoard, by step."""
    events = EventAccumulator(str(folder), size_guidance={"tensors": 0})
    events.Reload()
    return {
        event.step: float(tensor_util.make_ndarray(event.tensor_proto))
        for event in events.Tensors("train/loss")
    }


def begin_pair(begin, *arguments, **options):
    """Starts the two processes of a command."""
    address = f"localhost:{free_port()}"
    together = {"JAX_COORDINATOR_ADDRESS": address, "JAX_NUM_PROCESSES": "2"} | options
    return [
        # Sets have a different order in every process.
        begin(*arguments, JAX_PROCESS_ID=str(index), PYTHONHASHSEED=str(index), **together)
        for index in range(2)
    ]


def settings(config_file, run_dir, changes):
    """Flags of a training command."""
    overrides = [f"--config.{path}={value}" for path, value in changes.items()]
    return f"--config={config_file}", f"--workdir={run_dir}", *overrides


def train_here(config_file, folder, devices, **changes):
    """Trains in this process, on some of its devices."""
    config = runpy.run_path(str(config_file))["get_config"]()
    config.update_from_flattened_dict(changes)
    with pytest.MonkeyPatch.context() as patch:
        use_devices(patch, devices)
        assert loop.train(config, str(folder))


def use_devices(patch, number):
    """Runs take only so many devices."""
    mesh = mesh_lib.make_mesh(jax.devices()[:number])
    patch.setattr(mesh_lib, "make_mesh", lambda devices=None: mesh)


# Features of frozen layers: process 0 writes them and all processes read them.
STORED = """
    config.model.text.encoder.depth, config.model.text.encoder.lower_depth = 2, 1
    config.freeze = ["text/encoder/(?!layers/)"]
    config.frozen_features = {{"modalities": ["text"], "folder": {folder!r}}}
    config.accumulation_steps = 2
    config.data.text_lengths = [10, 14]
    # Gradients of what batch normalization removes are only rounding, which Adam would enlarge.
    config.optimizer.options["eps"] = 1e-3
    return config
"""


@pytest.mark.slow
def test_two_processes_train_like_one(tiny_config, start, read_arrays, tmp_path):
    """Captions with stored features and a batch in two parts; the test below has images."""
    changes = STORED.format(folder=str(tmp_path / "features"))
    tiny_config.write_text(tiny_config.read_text().replace("    return config\n", changes))

    # Full batches, of which the second process has rows, and a remainder of which it has none.
    changes = {"total_steps": TOTAL_STEPS, "evals.shapes.batch_size": 24}

    pair = begin_pair(start, *settings(tiny_config, tmp_path / "two", changes))
    outputs = [process.communicate(timeout=900)[0] for process in pair]
    assert [process.returncode for process in pair] == [0, 0], "\n".join(outputs)
    assert len(list(tmp_path.glob("features/text_features-train-*"))) == 1
    train_here(tiny_config, tmp_path / "one", 2, **changes)

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

    arguments = (f"--run={tmp_path / 'two'}", f"--output={tmp_path / 'judged'}")
    pair = begin_pair(start, *arguments, module="xmodal.eval_main")
    outputs = [process.communicate(timeout=900)[0] for process in pair]
    assert [process.returncode for process in pair] == [0, 0], "\n".join(outputs)
    judged = json.loads((tmp_path / "judged/shapes/metrics.json").read_text())
    shared = judged.keys() & found.keys()
    assert {"shapes/t2t/recall@1", "shapes/sts/spearman"} <= shared
    assert {tag: judged[tag] for tag in shared} == pytest.approx(
        {tag: found[tag] for tag in shared}, abs=1e-3
    )


CONFIG = """
from tests.integration import papers_test

def get_config():
    return papers_test.get_config({name!r}, {data_dir!r})
"""


@pytest.mark.slow
@pytest.mark.usefixtures("quick_draws")
@pytest.mark.parametrize("name", TOGETHER)
def test_two_processes_continue_like_one_device(name, few_shapes, start, tmp_path, monkeypatch):
    """Sets of tokens that are compared in tiles; a cross-encoder."""
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    losses = papers_test.train_on_one(name, few_shapes, whole)
    papers_test.rewind(whole, resumed)
    file, cache = tmp_path / "paper.py", {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    file.write_text(CONFIG.format(name=name, data_dir=few_shapes))
    pair = begin_pair(start, f"--config={file}", f"--workdir={resumed}", **cache)
    outputs = [process.communicate(timeout=900)[0] for process in pair]
    assert [process.returncode for process in pair] == [0, 0], "\n".join(outputs)
    assert read_losses(resumed) == pytest.approx(dict(enumerate(losses[2:], 3)), rel=1e-3)
    papers_test.compare_states(whole, resumed)
    assert not list((tmp_path / "cache/xmodal/scores").glob("*/*/scores.npy"))  # Removed at exit.

    # Both have evaluated the best checkpoint as one device does.
    found = json.loads((resumed / "test/metrics.json").read_text())
    use_devices(monkeypatch, 1)
    parts = resolve(papers_test.get_config(name, few_shapes), str(resumed))
    evaluate_best(RunEvaluation(parts), str(resumed))
    expected = json.loads((resumed / "test/metrics.json").read_text())
    assert "shapes/mean_recall@10" in expected
    assert found == pytest.approx(expected, abs=0.5)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_draws")
def test_checkpoints_move_between_processes_and_devices(clip_config, start, read_arrays, tmp_path):
    """A SigLIP on eight devices, in two processes with four, and on eight; on one: equal steps."""
    changes = {
        "evals.shapes.every": LONG // 2,
        "evals.shapes.batch_size": 24,
        "log_every": 1,
        # A constant rate, so that a longer run makes the same steps; no division by tiny gradients.
        "optimizer.schedule": {"name": "constant", "warmup_steps": 2},
        "optimizer.name": "sgd",
        "optimizer.options": {"momentum": 0.9},
        "optimizer.learning_rate": 0.05,
        "optimizer.skip_outliers": None,
    }

    def train_alone(folder, steps, devices):
        train_here(clip_config, tmp_path / folder, devices, total_steps=steps, **changes)

    def train_together(folder, steps):
        own = changes | {"total_steps": steps}
        pair = begin_pair(start, *settings(clip_config, tmp_path / folder, own), devices=4)
        outputs = [process.communicate(timeout=600)[0] for process in pair]
        assert [process.returncode for process in pair] == [0, 0], "\n".join(outputs)

    def read_metrics(folder):
        return json.loads((tmp_path / folder / "test/metrics.json").read_text())

    train_alone("one", LONG, 1)
    train_alone("moved", LONG // 4, 8)
    train_together("moved", LONG // 2)
    # Both processes have evaluated.
    found, expected = (
        run_folder.load_metrics(str(tmp_path / each), LONG // 2) for each in ("moved", "one")
    )
    compare_metrics(found, expected)
    train_alone("moved", LONG, 8)

    losses = read_losses(tmp_path / "moved")
    assert list(losses) == list(range(1, LONG + 1))
    assert losses == pytest.approx(read_losses(tmp_path / "one"), rel=1e-4)
    compare_metrics(read_metrics("moved"), read_metrics("one"))
    for item in ("params", "model_state"):
        last = f"checkpoints/{LONG}/{item}"
        found, expected = (read_arrays(tmp_path / each / last) for each in ("moved", "one"))
        assert jax.tree.leaves(expected)
        jax.tree.map(assert_near, found, expected)


def compare_metrics(found, expected):
    assert expected
    assert found.keys() == expected.keys()
    for tag, value in expected.items():
        # Ranks of nearly equal scores may swap if the order of sums changes.
        tolerance = 0.1 if "spearman_" in tag else 1e-2
        assert found[tag] == pytest.approx(value, abs=tolerance), tag


def assert_near(found, expected):
    """One step more or less would change an array by several percent; rounding grows slowly."""
    # Biases that cancel later, such as those of keys, are only rounding.
    assert np.linalg.norm(found - expected) <= 0.01 * np.linalg.norm(expected) + 1e-5

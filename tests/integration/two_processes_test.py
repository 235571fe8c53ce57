"""Two processes train, evaluate and build like one, and like one device."""

import json

import jax
import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util

import xmodal
from tests import drawing
from tests.api.tiny_dual_encoder import make_texts, save_run
from tests.integration import papers_test, together
from tests.integration.papers_test import TOGETHER
from tests.short_runs import free_port
from xmodal.core import mesh as mesh_lib
from xmodal.train import start as start_lib
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


def train_here(config_file, folder, devices, **changes):
    """Trains in this process, on some of its devices."""
    with pytest.MonkeyPatch.context() as patch:
        use_devices(patch, devices)
        together.train(str(config_file), str(folder), changes)


def use_devices(patch, number):
    """Runs take only so many devices."""
    mesh = mesh_lib.make_mesh(jax.devices()[:number])
    patch.setattr(mesh_lib, "make_mesh", lambda *_: mesh)


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


# Full batches, of which the second process has rows, and a remainder of which it has none.
TINY = {"total_steps": TOTAL_STEPS, "evals.shapes.batch_size": 24}
PAPER = """
from tests.integration import papers_test

def get_config():
    return papers_test.get_config({name!r}, {data_dir!r})
"""
SIGLIP = {
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
FEATURES = np.random.default_rng(5).normal(size=(30, 5)).astype(np.float32)


@pytest.fixture(scope="module")
def pair(few_shapes, tiny_config, clip_config, start, tmp_path_factory):
    """The folder in which two processes have worked, what they printed, and losses of a paper."""
    root = tmp_path_factory.mktemp("pair")
    changes = STORED.format(folder=str(root / "features"))
    tiny_config.write_text(tiny_config.read_text().replace("    return config\n", changes))
    overrides = [f"--config.{path}={value}" for path, value in TINY.items()]
    jobs = [
        [1, "begin", f"--config={tiny_config}", f"--workdir={root / 'two'}", *overrides],
        [1, "evaluate", root / "two", root / "judged"],
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(start_lib, "create_state", drawing.create_state)
        file = root / "paper.py"
        file.write_text(PAPER.format(name=TOGETHER, data_dir=few_shapes))
        losses = papers_test.train_on_one(TOGETHER, few_shapes, root / "whole")
        papers_test.rewind(root / "whole", root / "resumed")
        jobs.append([1, "train", file, root / "resumed", {}])
        train_here(clip_config, root / "moved", 8, total_steps=LONG // 4, **SIGLIP)
    jobs.append([4, "train", clip_config, root / "moved", {"total_steps": LONG // 2} | SIGLIP])
    model = save_run(str(root / "model"))
    np.save(root / "features.npy", FEATURES)
    (root / "captions.txt").write_text("\n".join(make_texts(13)))
    items = f"--images={root / 'features.npy'}", f"--captions={root / 'captions.txt'}"
    jobs.append([4, "build", f"--model={model}", *items, f"--output={root / 'index'}"])

    variables = {
        "JAX_COORDINATOR_ADDRESS": f"localhost:{free_port()}",
        "JAX_NUM_PROCESSES": "2",
        "XDG_CACHE_HOME": str(root / "cache"),
    }
    arguments, module = json.dumps(jobs, default=str), "tests.integration.together"
    processes = [
        # Sets have a different order in every process.
        start(arguments, module=module, devices=4, **variables,
              JAX_PROCESS_ID=str(index), PYTHONHASHSEED=str(index))
        for index in range(2)
    ]  # fmt: skip
    outputs = [process.communicate(timeout=900)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], "\n".join(outputs)
    return root, outputs, losses


@pytest.mark.slow
def test_two_processes_train_like_one(pair, tiny_config, read_arrays, tmp_path):
    """Captions with stored features and a batch in two parts; the tests below have images."""
    root, outputs, _ = pair
    assert len(list(root.glob("features/text_features-train-*"))) == 1
    train_here(tiny_config, tmp_path / "one", 2, **TINY)
    for item in ("params", "model_state"):
        last = f"checkpoints/{TOTAL_STEPS}/{item}"
        found, expected = read_arrays(root / "two" / last), read_arrays(tmp_path / "one" / last)
        assert jax.tree.leaves(expected)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6, rtol=0), found, expected
        )
    found, expected = (
        json.loads((run / "test/metrics.json").read_text())
        for run in (root / "two", tmp_path / "one")
    )
    assert found == pytest.approx(expected, abs=1e-3)
    # Process 1 has printed no table and written no scalars.
    assert ["test split" in output for output in outputs] == [True, False]
    for folder in ("two", "two/test"):
        assert len(list((root / folder).glob("events.out.tfevents.*"))) == 1

    judged = json.loads((root / "judged/shapes/metrics.json").read_text())
    shared = judged.keys() & found.keys()
    assert {"shapes/t2t/recall@1", "shapes/sts/spearman"} <= shared
    assert {tag: judged[tag] for tag in shared} == pytest.approx(
        {tag: found[tag] for tag in shared}, abs=1e-3
    )


@pytest.mark.slow
def test_two_processes_continue_like_one_device(pair, few_shapes, monkeypatch):
    """A cross-encoder, which ranks again."""
    root, _, losses = pair
    resumed = root / "resumed"
    assert read_losses(resumed) == pytest.approx(dict(enumerate(losses[2:], 3)), rel=1e-3)
    papers_test.compare_states(root / "whole", resumed)
    assert not list((root / "cache/xmodal/scores").glob("*/*/scores.npy"))  # Removed at exit.

    # Both have evaluated the best checkpoint as one device does.
    found = json.loads((resumed / "test/metrics.json").read_text())
    use_devices(monkeypatch, 1)
    parts = resolve(papers_test.get_config(TOGETHER, few_shapes), str(resumed))
    evaluate_best(RunEvaluation(parts), str(resumed), [])
    expected = json.loads((resumed / "test/metrics.json").read_text())
    assert "shapes/mean_recall@10" in expected
    assert found == pytest.approx(expected, abs=0.5)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_draws")
def test_checkpoints_move_between_processes_and_devices(pair, clip_config, read_arrays, tmp_path):
    """A SigLIP on eight devices, in two processes with four, and on eight; on one: equal steps."""
    moved, one = pair[0] / "moved", tmp_path / "one"
    train_here(clip_config, one, 1, total_steps=LONG, **SIGLIP)
    # Both processes have evaluated.
    compare_metrics(*(run_folder.load_metrics(str(each), LONG // 2) for each in (moved, one)))
    train_here(clip_config, moved, 8, total_steps=LONG, **SIGLIP)

    losses = read_losses(moved)
    assert list(losses) == list(range(1, LONG + 1))
    assert losses == pytest.approx(read_losses(one), rel=1e-4)
    compare_metrics(
        *(json.loads((each / "test/metrics.json").read_text()) for each in (moved, one))
    )
    for item in ("params", "model_state"):
        found, expected = (
            read_arrays(each / f"checkpoints/{LONG}/{item}") for each in (moved, one)
        )
        assert jax.tree.leaves(expected)
        jax.tree.map(assert_near, found, expected)


@pytest.mark.slow
def test_two_processes_give_the_index_of_one(pair):
    root, outputs, _ = pair
    assert ["index in" in output for output in outputs] == [True, False]
    index = xmodal.Index.open(root / "index")
    whole = xmodal.Index.build(index.model, images=FEATURES, captions=make_texts(13))
    for kind, gallery in index.galleries.items():
        np.testing.assert_allclose(gallery.vectors, whole.galleries[kind].vectors, atol=1e-6)


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

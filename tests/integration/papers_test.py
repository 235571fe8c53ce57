"""Small configs of all kinds train, evaluate and resume, on 8 devices as on 1."""

import importlib
import json
import pathlib
import shutil

import jax
import numpy as np
import pytest

from xmodal import data
from xmodal.core import mesh as mesh_lib
from xmodal.core.tree_paths import leaves_by_path
from xmodal.train import loop, reporting
from xmodal.train.evaluation.run_evaluation import RunEvaluation
from xmodal.train.folder import checkpoints, run_folder

STEPS = 4
# Config -> a metric of each evaluator that is used. `configs_test` trains the others, whose layers
# and losses are of these kinds or have tests on several devices, such as `accumulation_test`.
PAPERS = {
    "vsepp": ["shapes/i2t/recall@10"],
    # VSRN, with negatives drawn from tables.
    "aoq": ["shapes/i2t/recall@10"],
    "sgraf": ["shapes/i2t/recall@10"],
    "cvse": ["shapes/i2t/recall@10"],
    "vete": ["shapes/i2t/recall@10", "sts/c2c_isim/pearson"],
    "cmcm_clue": [
        *("pools/t2i/median_rank", "refined/t2i/median_rank"),
        "relations/Story/average_precision",
    ],
    "pcme": [
        *("shapes/i2t/recall@10", "mean/shapes/i2t/recall@10"),
        "ambiguity/i2t/spearman",
    ],
    # A cross-encoder, which ranks again.
    "quickstart:matching_quick": ["shapes/i2t/recall@10", "reranked/shapes/i2t/recall@10"],
}

# `two_processes_test` resumes this one in two processes.
TOGETHER = "quickstart:matching_quick"


def get_config(name, few_shapes, total_steps=STEPS):
    module, _, variant = name.partition(":")
    config = importlib.import_module(f"configs.{module}").get_config(variant or "quick")
    assert config.total_steps == 50
    config.total_steps, config.log_every, config.batch_size = total_steps, 1, 16
    schedule = config.optimizer.schedule
    schedule.warmup_steps = 2 if schedule.get("warmup_steps") else 0
    config.data.data_dir = few_shapes
    config.frozen_features.folder = ""
    if config.data.mined_negatives:
        config.data.mined_negatives = write_tables(few_shapes)
    if name == "sgraf":  # Tiles of few pairs.
        config.tasks.i2t.loss.options.update({"engine": "ring", "chunk_size": 3})
    shrink(config)
    config.tensorboard.update(queries=0, projector=0)  # see `run_folder_test`
    used = {tag.partition("/")[0] for tag in PAPERS[name]}
    config.evals = {key: value.to_dict() for key, value in config.evals.items() if key in used}
    for evaluator in config.evals.values():
        # Only at the end, unless evaluations change the learning rate.
        evaluator.every = 0 if config.optimizer.plateau is None else 2
        evaluator.batch_size = 128  # All captions in one batch, which compiles once.
        if "bootstrap_samples" in evaluator:
            evaluator.bootstrap_samples = 10
        if evaluator.get("data") is not None:
            evaluator.data.data_dir = few_shapes
    config.checkpoint.every = 2
    if config.optimizer.plateau is not None:
        # Almost no evaluation is an improvement, so that the learning rate falls at step 4.
        config.optimizer.plateau.update(patience=0, threshold=0.9)
    return config


def shrink(config):
    """Makes a model of the same kinds of parts smaller: it compiles in a fraction of the time."""
    model = config.model
    if model.image is not None and model.image.encoder.name in ("convnet", "efficientnet"):
        encoder = model.image.encoder
        kept = {key: encoder[key] for key in ("batch_norm", "statistics") if key in encoder}
        model.image.encoder = {"name": "convnet", "channels": (4, 8), "units": (0, 1), **kept}
        config.data.image.size = 24
        if model.image.projection is None and model.text.projection is not None:
            model.text.projection.width = 8
    towers = [tower for tower in (model.image, model.text) if tower is not None]
    for part in (*(tower.encoder for tower in towers), model.get("cross_encoder") or {}):
        if "depth" in part:
            part.depth = 1
    sizes = {"width": 32, "heads": 2, "mlp_dim": 32}
    for tower in towers:
        if "layers" in tower.head:
            tower.head.layers = 1
        if tower.encoder.name == "bert":
            tower.encoder.update(sizes)
            if tower.head.name == "transformer":
                tower.head.update(sizes)


def write_tables(few_shapes):
    """A folder of random "mined" items of the training split."""
    folder, section = pathlib.Path(few_shapes, "mined"), {"dataset": "crisscrossed_shapes"}
    split = data.eval_split(section | {"data_dir": few_shapes, "text": {}}, split="train")
    images, captions, rng = len(split.image_ids), len(split.caption_ids), np.random.default_rng(0)
    folder.mkdir(exist_ok=True)
    np.save(folder / "captions.npy", rng.integers(captions, size=(images, 10), dtype=np.int32))
    np.save(folder / "images.npy", rng.integers(images, size=(captions, 2), dtype=np.int32))
    (folder / "mined.json").write_text(json.dumps({"records": split.hashes, "split": "train"}))
    return str(folder)


def read_state(folder, step):
    """All arrays of a checkpoint by name."""
    return {
        f"{item}/{path}": leaf
        for item in run_folder.ITEMS
        for path, leaf in leaves_by_path(checkpoints.read_tree(str(folder), step, item)).items()
    }


def flatten(arrays, item):
    """All numbers in an item of a checkpoint."""
    chosen = [np.ravel(arrays[path]) for path in sorted(arrays) if path.startswith(item)]
    return np.concatenate([np.zeros(0), *chosen])


@pytest.mark.slow
@pytest.mark.usefixtures("quick_draws")
@pytest.mark.parametrize("name", [name for name in PAPERS if name != TOGETHER])
def test_a_paper_trains_resumes_and_does_not_depend_on_devices(name, few_shapes, tmp_path):
    losses = train_on_one(name, few_shapes, tmp_path / "whole")
    # A copy from step 2 continues on eight devices, `stress_test` on equal ones.
    rewind(tmp_path / "whole", tmp_path / "resumed")
    resumed_losses = train_on(8, name, few_shapes, tmp_path / "resumed", evaluates=False)
    np.testing.assert_allclose(resumed_losses, losses[2:], rtol=1e-3)
    whole = compare_states(tmp_path / "whole", tmp_path / "resumed")
    factors = [float(x) for path, x in whole.items() if path.endswith("factor")]
    assert len(factors) == (get_config(name, few_shapes).optimizer.plateau is not None)
    assert all(factor < 1 for factor in factors)


def train_on_one(name, few_shapes, folder):
    """The losses of an undisturbed run on one device, which has all its metrics."""
    losses = train_on(1, name, few_shapes, folder)
    assert len(losses) == STEPS
    metrics = json.loads((folder / "test/metrics.json").read_text())
    for tag in PAPERS[name]:
        assert np.isfinite(metrics[tag]), tag
    return losses


def rewind(run, copy):
    """Copies a finished run as it was at step 2."""
    shutil.copytree(run, copy)
    for path in (copy / "checkpoints" / str(STEPS), copy / "test"):
        shutil.rmtree(path)
    for path in (copy / "finished.json", *copy.glob("events.out.tfevents.*")):
        path.unlink()
    assert run_folder.steps(str(copy))[-1] == 2


def compare_states(run, resumed):
    """The last state of a run; another must have made the same steps from step 2 on."""
    before = read_state(run, 2)
    whole, found = (read_state(each, STEPS) for each in (run, resumed))
    assert found.keys() == whole.keys()
    assert any("opt_state" in path for path in whole)
    # Not array by array: rounding flips first updates with nearly zero gradients.
    for item in ("params", "opt_state/moments", "model_state"):
        start, expected, other = (flatten(each, item) for each in (before, whole, found))
        assert np.linalg.norm(other - expected) <= 0.05 * np.linalg.norm(expected - start), item
    return whole


def train_on(devices, name, few_shapes, folder, *, evaluates=True):
    """The losses of a run on this many devices, step by step."""
    config = get_config(name, few_shapes)
    losses, record = [], reporting.Reporter.record

    def recording(self, step, scalars, *others):
        losses.append(float(scalars["train/loss"]))
        record(self, step, scalars, *others)

    mesh = mesh_lib.make_mesh(jax.devices()[:devices])
    with pytest.MonkeyPatch.context() as own:
        own.setattr(mesh_lib, "make_mesh", lambda *_: mesh)
        own.setattr(reporting.Reporter, "record", recording)
        if not evaluates:
            own.setattr(loop, "evaluate_best", lambda *arguments: [])
            if config.optimizer.plateau is None:  # Otherwise, metrics determine the rate.
                own.setattr(RunEvaluation, "run_state", lambda *arguments: {})
        loop.train(config, str(folder))
    return losses
